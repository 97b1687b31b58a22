"""DeepTest's five research questions on the zoo's steering systems, or on a given system and source."""

from swerve.experiments.deeptest.experiment import DEEPTEST

__all__ = ["DEEPTEST"]
