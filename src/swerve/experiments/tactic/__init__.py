"""TACTIC's experiments: learned conditions against random styles, DeepRoad and random search, and their realism."""

from swerve.experiments.tactic.experiment import TACTIC

__all__ = ["TACTIC"]
