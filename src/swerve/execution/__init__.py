"""Running campaigns: engine, evaluator, checks, replay and shrinking."""
