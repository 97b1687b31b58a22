"""Search strategies: how a campaign chooses its trials."""
