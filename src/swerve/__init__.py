"""Swerve: metamorphic testing of autonomous-driving perception."""

__version__ = "0.1.0"
