"""The searches for critical conditions compared, on the zoo's systems, or on a given system and source."""

from swerve.experiments.conditions.experiment import CONDITIONS

__all__ = ["CONDITIONS"]
