"""What the records of a run say: rates with their intervals and how they grow with severity."""
