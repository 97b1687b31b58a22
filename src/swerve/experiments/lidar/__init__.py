"""The LiDAR paper's experiment on the zoo's systems, or on a given system and source."""

from swerve.experiments.lidar.experiment import LIDAR

__all__ = ["LIDAR"]
