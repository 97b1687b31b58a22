"""Small reference systems with their weights and the recipes that trained them."""
