"""What people see of a run: a page that opens offline and a summary for the terminal."""
