"""Ways to put a model under test: a plain function, a torch network."""
