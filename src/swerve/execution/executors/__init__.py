"""Where trials are evaluated: in this process, in a pool of worker processes, or on Ray."""
