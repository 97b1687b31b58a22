"""DeepTest's five research questions on the zoo's steering systems, or on a system and a source of one's own."""

from swerve.experiments.deeptest.experiment import experiment

__all__ = ["experiment"]
