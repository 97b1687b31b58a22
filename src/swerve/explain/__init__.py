"""Explanations: which parts of a picture a system's steering angle depends on."""
