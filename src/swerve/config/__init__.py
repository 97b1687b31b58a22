"""Campaign files, names to classes, and limits."""
