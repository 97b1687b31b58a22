"""Whether a number meets its goal, in the same words in every benchmark."""

from __future__ import annotations


def at_most(value: float, goal: float) -> str:
    """`goal ≤ 1.1: met`, or by how much it is missed."""
    return f"goal ≤ {goal:g}: " + ("met" if value <= goal else f"missed by {value / goal - 1:.0%}")


def at_least(value: float, goal: float) -> str:
    """`goal ≥ 1.7: met`, or by how much it is missed."""
    return f"goal ≥ {goal:g}: " + ("met" if value >= goal else f"missed by {1 - value / goal:.0%}")
