"""Published experiments repeated on any system: the paper's questions and tables, with its printed numbers beside ours."""
