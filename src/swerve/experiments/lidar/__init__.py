"""The LiDAR paper's experiment on the zoo's pipelines, or on a system and a source of one's own."""

from swerve.experiments.lidar.experiment import experiment

__all__ = ["experiment"]
