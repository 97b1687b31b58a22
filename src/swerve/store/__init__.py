"""Run folders: the journal, its records as JSON, fingerprints, and what is kept of findings."""
