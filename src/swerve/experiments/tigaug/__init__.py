"""TigAug's experiment on the zoo's light detectors, or on a given detector and source."""

from swerve.experiments.tigaug.experiment import TIGAUG

__all__ = ["TIGAUG"]
