"""Manual review of findings by several people: true positive, false positive or unnatural."""
#
