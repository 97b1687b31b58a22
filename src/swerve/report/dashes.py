"""Dashed lines on pictures."""

from __future__ import annotations

import cv2
import numpy as np

from swerve.core.values import Array

DASH = 6  # pixels


def dash(canvas: Array, start: Array, end: Array, colour: tuple[int, int, int]) -> None:
    """Draw a dashed line between two places, each column and row."""
    steps = max(2, int(np.hypot(*(end - start)) / DASH))
    marks = np.linspace(start, end, 2 * (steps // 2) + 1)
    for first, last in zip(marks[:-1:2], marks[1::2], strict=True):
        ends = [tuple(int(part) for part in np.rint(np.clip(mark, -9999, 9999))) for mark in (first, last)]
        cv2.line(canvas, ends[0], ends[1], colour, 2, cv2.LINE_AA)
