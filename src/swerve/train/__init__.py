"""Training of torch networks: the loop with its checkpoints, the card of what came out, and the cache of rendered data."""
