"""Published experiments, run again: the paper's questions on any system, its tables, and its printed numbers beside ours."""
