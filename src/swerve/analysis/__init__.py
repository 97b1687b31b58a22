"""Statistics, tables and groups computed from the records of a run."""
