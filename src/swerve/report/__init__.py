"""Reports of a run: a page that opens offline, the terminal summary, and exports for other programs."""
