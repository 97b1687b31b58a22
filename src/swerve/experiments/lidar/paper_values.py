"""The numbers printed in the LiDAR paper, for columns beside ours."""
# LM-9

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# points added to a frame: of 1,000 frames, those with fewer, equally many and more obstacles than before
TABLE: Mapping[int, tuple[int, int, int]] = MappingProxyType({10: (27, 951, 22), 100: (121, 781, 98), 1000: (335, 533, 132)})
FRAMES = 1000
RANKING = ("car", "pedestrian", "cyclist", "unknown")  # by error rate, highest first, all above 0: Fig. 3
