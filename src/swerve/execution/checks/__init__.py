"""What can be wrong with a campaign before it runs, one module per subject."""
