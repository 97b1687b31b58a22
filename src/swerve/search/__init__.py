"""Ways to choose trials."""
