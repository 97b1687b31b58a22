"""The LiDAR paper's experiment on the zoo's systems, or on a given system and source."""

from swerve.experiments.lidar.experiment import experiment

__all__ = ["experiment"]
