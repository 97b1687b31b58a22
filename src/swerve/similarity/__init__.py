"""How similar two pictures are."""
