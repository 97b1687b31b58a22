"""IATG's experiment on the zoo's systems, or on a given system and source."""

from swerve.experiments.iatg.experiment import IATG

__all__ = ["IATG"]
