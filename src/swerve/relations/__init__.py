"""Comparisons and relations, by task."""
