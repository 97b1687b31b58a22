"""Drafts of campaign files: what can be known of a model and of data by looking at them, and what is assumed."""
