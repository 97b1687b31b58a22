"""What a draft has for a key of a campaign file: a value, why, and whether that is known or assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Guess:
    """A value with the reason for it; an assumed one is a question to the user."""

    value: Any
    why: str = ""
    assumed: bool = False


Guesses = Mapping[str, Guess]  # by key, in the order of the file


def values_of(guesses: Guesses) -> dict[str, Any]:
    """The table as a campaign file has it."""
    return {key: guess.value for key, guess in guesses.items()}


def given(values: Mapping[str, Any]) -> dict[str, Guess]:
    """What the user said, which is known."""
    return {key: Guess(value, "as given") for key, value in values.items()}
