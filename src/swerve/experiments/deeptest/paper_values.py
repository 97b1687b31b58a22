"""The numbers printed in the DeepTest paper, for columns beside ours.

Known misprints are left out: Fig. 4 prints seven medians for six names, and Table 7's cell at λ = 4, ε = 0.05 repeats that
of fog.
"""
# DT-30, DT-32, DT-34, DT-36, DT-37, DT-39; D-8

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# (sub-)model: Spearman's ρ of neuron coverage and angle, and which direction covers more
TABLE_5: Mapping[str, tuple[float, str]] = MappingProxyType(
    {
        "Chauffeur": (-0.10, "left > right"),
        "Chauffeur cnn": (0.28, "left < right"),
        "Chauffeur lstm": (-0.10, "left > right"),
        "Rambo": (-0.11, "left < right"),
        "Rambo s1": (-0.19, "left < right, large"),
        "Rambo s2": (0.10, "not significant"),
        "Rambo s3": (-0.11, "not significant"),
        "Epoch": (0.78, "left < right, small"),
    }
)
# (sub-)model: neurons; covered by the seeds, by the cumulative set, by the guided search
TABLE_6: Mapping[str, tuple[int, int, int, int]] = MappingProxyType(
    {
        "Chauffeur cnn": (1427, 658, 1065, 1250),
        "Epoch": (2500, 621, 1034, 1266),
        "Rambo s1": (1625, 710, 929, 1043),
        "Rambo s2": (3801, 1146, 2210, 2676),
        "Rambo s3": (13473, 13008, 13080, 13150),
    }
)
GUIDED_IMAGES: Mapping[str, int] = MappingProxyType({"Chauffeur": 254, "Epoch": 221, "Rambo": 864})
# ε, fog, rain or guided: violations for λ = 1 to 10, over the three models
TABLE_7: Mapping[str, tuple[int | None, ...]] = MappingProxyType(
    {
        "ε 0.01": (15666, 4066, 1396, 501, 95, 49, 13, 3, 0, 0),
        "ε 0.02": (18520, 5033, 1741, 642, 171, 85, 24, 5, 1, 0),
        "ε 0.03": (23391, 6778, 2414, 965, 330, 185, 89, 34, 12, 3),
        "ε 0.04": (24952, 7362, 2627, 1064, 382, 210, 105, 45, 19, 5),
        "ε 0.05": (29649, 9259, 3376, None, 641, 359, 189, 103, 56, 23),
        "fog": (9018, 6503, 5452, 4884, 4448, 4063, 3732, 3391, 3070, 2801),
        "rain": (6133, 2650, 1483, 997, 741, 516, 287, 174, 111, 63),
        "guided": (1148, 1026, 930, 872, 820, 764, 721, 668, 637, 597),
    }
)
# at λ = 5 and ε = 0.03; of the single simple changes, only two cells of shear can be attributed
TABLE_8: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "shear": {"Epoch": 0, "Rambo": 23},
        "simple": {"Chauffeur": 152, "Epoch": 129, "Rambo": 49},
        "rain": {"Chauffeur": 650, "Epoch": 64, "Rambo": 27},
        "fog": {"Chauffeur": 201, "Epoch": 135, "Rambo": 4112},
        "guided": {"Chauffeur": 89, "Epoch": 65, "Rambo": 666},
    }
)
FALSE_POSITIVES: Mapping[str, int] = MappingProxyType({"Epoch": 14, "Chauffeur": 26, "Rambo": 90})  # of 6,339: 2.05%
FALSE_BY_CHANGE: Mapping[str, int] = MappingProxyType({"simple": 27, "guided": 46, "rain": 23, "fog": 34})  # all models
FIGURE_6 = (0.41, 0.035)  # MSE of violating images, and of their originals
# images: MSE of the original and of the retrained model
TABLE_9: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"original": (0.10, 0.09), "fog": (0.18, 0.10), "rain": (0.13, 0.07)}
)
