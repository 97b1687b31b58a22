"""Published methods, each a function that returns a Campaign."""
