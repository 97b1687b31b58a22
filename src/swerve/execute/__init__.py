"""Where campaigns run."""
