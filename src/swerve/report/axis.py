"""The scale of a chart's axis: positions of numbers, and round numbers as ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LARGEST, LEAST = 1e100, 1e-100  # differences of larger numbers overflow; smaller ones are drawn as zero
NARROWEST = 1e-9  # relative width of a range below which its ticks cannot be told apart
ROUND = (1, 2, 5, 10)
MOST_DIGITS = 5  # after the point, in a tick


@dataclass(frozen=True)
class AxisScale:
    """Numbers from `low` to `high` on a line of the drawing from `start` to `end`, with a tick at most every `gap`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    percent: bool = False
    gap: float = 70

    @property
    def most(self) -> int:
        """The number of steps that fit."""
        return max(int(abs(self.end - self.start) / self.gap), 1)

    def __call__(self, number: float) -> float:
        """The position of `number`, to a tenth of a pixel."""
        low, high, at = (math.log10(one) if self.log else one for one in (self.low, self.high, number))
        return round(self.start + (self.end - self.start) * ((at - low) / (high - low)), 1)

    def remarks(self) -> Iterator[str]:
        """That the axis leaves out 0, because all numbers are far from it."""
        if not (self.log or self.low <= 0 <= self.high):
            yield "The axis does not start at 0."

    def label(self, number: float) -> str:
        """`number` as text with two digits more than the ticks have; whole numbers as they are."""
        if self.percent or number == int(number):
            return spell_number(number, percent=self.percent)
        return _number(number, _step(self.high - self.low, self.most) / 100)

    def ticks(self) -> list[tuple[float, str]]:
        """Positions and texts of the round numbers within the range."""
        if self.log:
            return [(self(number), _short(number)) for number in _log_ticks(self.low, self.high, self.most)]
        step = _step(self.high - self.low, self.most)
        first, last = math.ceil(self.low / step - NARROWEST), math.floor(self.high / step + NARROWEST)
        spell = _percent if self.percent else _number
        return [(self(count * step), spell(count * step, step)) for count in range(first, last + 1)]


def drawable(number: float | None, *, log: bool = False) -> float | None:
    """`number` as it can be drawn; None if it is missing, not finite, too large or, on a logarithmic axis, not positive."""
    if number is None or not abs(number) <= LARGEST or (log and number < LEAST):
        return None
    return float(number) if abs(number) >= LEAST else 0.0


def fitted(
    numbers: Iterable[float], start: float, end: float, *,
    log: bool = False, percent: bool = False, zero: bool | None = None, gap: float = 70,
) -> AxisScale:  # fmt: skip
    """A scale between round numbers that holds all `numbers`; `zero` includes 0 or not, None only if it is near."""
    given = list(numbers)
    room = AxisScale(0, 1, start, end, log, percent, gap).most
    low, high = _log_range(given) if log else _range(given, room, zero=zero)
    return AxisScale(low, high, start, end, log, percent, gap)


def spell_number(number: float, *, percent: bool = False) -> str:
    """A number with about four digits."""
    if percent:
        return f"{number:.1%}"
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e12 else f"{number:.4g}"


def _range(numbers: list[float], room: int, *, zero: bool | None) -> tuple[float, float]:
    low, high = min(numbers), max(numbers)
    near = 0 <= low <= high / 2 or low / 2 <= high <= 0
    if near if zero is None else zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= NARROWEST * max(abs(low), abs(high)):
        low, high = low - abs(low) / 10, high + (abs(high) / 10 or 1.0)
    step = _step(high - low, room)
    return math.floor(low / step + NARROWEST) * step, math.ceil(high / step - NARROWEST) * step


def _log_range(numbers: list[float]) -> tuple[float, float]:
    low, high = _log_steps(min(numbers))[0], _log_steps(max(numbers))[1]
    return (low, high) if high > low else (low / 10, high * 10)


def _log_steps(number: float) -> tuple[float, float]:
    """The nearest of 1, 2, 5, 10, 20 … at or below `number`, and the nearest at or above."""
    power = 10.0 ** math.floor(math.log10(number))
    steps = [power * step for step in (*ROUND, 20)]
    below = max((step for step in steps if step <= number * (1 + NARROWEST)), default=power)
    return below, min(step for step in steps if step >= number * (1 - NARROWEST))


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - NARROWEST), math.floor(math.log10(high) + NARROWEST)
    every = max(1, math.ceil((last - first) / most))
    powers = [10.0**power for power in range(first, last + 1, every)]
    between = [10.0**power * step for power in range(first - 1, last + 1) for step in ROUND[:3]]
    inside = [tick for tick in between if low * (1 - NARROWEST) <= tick <= high * (1 + NARROWEST)]
    return inside if len(inside) <= most + 1 else powers


def _step(span: float, most: int) -> float:
    """The smallest of 1, 2, 5, 10, 20 … that divides `span` into at most `most` steps."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return power * next((step for step in ROUND if span / (power * step) <= most * (1 + NARROWEST)), ROUND[-1])


def _digits(step: float) -> int:
    """Digits after the point that distinguish neighbouring ticks; negative: insignificant digits before it."""
    return -math.floor(math.log10(step) + NARROWEST)


def _percent(number: float, step: float) -> str:
    return f"{number:.{min(max(_digits(step) - 2, 0), MOST_DIGITS)}%}"


def _number(number: float, step: float) -> str:
    digits = _digits(step)
    if -MOST_DIGITS <= digits <= MOST_DIGITS:
        return f"{number:,.{max(digits, 0)}f}"
    return _power(number, max(math.floor(math.log10(abs(number))) + digits, 0)) if number else "0"


def _short(number: float) -> str:
    """A number with one significant digit, for a logarithmic axis."""
    return f"{number:,g}" if 1e-4 <= number < 1e6 else _power(number, 0)


def _power(number: float, digits: int) -> str:
    """Scientific notation such as 2e12 or 1.5e-7."""
    head, power = f"{number:.{digits}e}".split("e")
    return f"{head}e{int(power)}"
