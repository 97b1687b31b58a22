"""People's judgement of findings: true positive, false positive or unnatural, by several reviewers (X-11)."""
