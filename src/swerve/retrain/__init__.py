"""Training on follow-ups without ever learning from what is tested: splits, sets, exports, fine-tuning, before and after."""
