"""How many threads the libraries may use."""

from __future__ import annotations

import sys

import cv2


def settle_threads() -> None:
    """One thread each for torch and OpenCV: sums then come in one order, whatever the machine (and we thread over cases)."""
    cv2.setNumThreads(1)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
