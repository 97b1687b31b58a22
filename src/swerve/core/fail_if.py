"""Conditions on the counts of a rule, such as `rate > 0.10`, under which it fails a build."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from swerve.core.errors import unknown

# What a condition may be about. The rate is the share of judged trials that violated, as measured; `low` and `high` are the
# ends of its 95% Wilson interval.
SHARES = ("rate", "low", "high")
INTERVAL = ("low", "high", "map_drop_low", "map_drop_high")
# The share of mAP@[.50:.95] that is lost, of rules on boxes with labels, and the ends of its 95% interval. It is negative if
# mAP grows.
DROPS = ("map_drop", "map_drop_low", "map_drop_high")
COUNTS = ("violated", "introduced", "judged", "skipped", "errors")
OPERATORS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
)
_FORM = re.compile(r"(\w+)\s*(>=|<=|>|<)\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)")
EXPECTED = "expected a condition such as 'rate > 0.10', 'high > 10%' or 'judged < 100'"


@dataclass(frozen=True)
class FailIf:
    """A condition under which a rule fails: `quantity` compared with `limit`."""

    quantity: str
    comparison: str
    limit: float
    text: str

    @staticmethod
    def parse(text: str) -> FailIf:
        """The condition that a text such as `rate > 0.10` or `low >= 5%` describes; raises `ValueError` for any other."""
        found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"fail_if: {EXPECTED}, got {text!r}")
        quantity, comparison, number, percent = found.groups()
        if quantity not in (*SHARES, *DROPS, *COUNTS):
            raise ValueError(f"fail_if = '{text}': {unknown('quantity', quantity, (*SHARES, *DROPS, *COUNTS))}")
        # By a quotient of whole numbers, as a measured rate is: 0.7 / 100 as floats is less than 7 / 1000.
        limit = float(Fraction(number) / (100 if percent else 1))
        if quantity in (*SHARES, *DROPS) and limit > 1:
            raise ValueError(f"fail_if = '{text}': '{quantity}' is a share from 0 to 1; for 10 percent write 0.10 or 10%")
        if quantity in COUNTS and percent:
            raise ValueError(f"fail_if = '{text}': '{quantity}' is a number of trials, not a percentage")
        return FailIf(quantity, comparison, limit, text.strip())

    @property
    def needs_interval(self) -> bool:
        """Whether it is about an end of an interval, which only a sample of trials has."""
        return self.quantity in INTERVAL

    @property
    def needs_precision(self) -> bool:
        """Whether it is about the loss of mAP."""
        return self.quantity in DROPS

    def known(self, quantities: Mapping[str, float]) -> bool:
        """Whether its quantity is known."""
        return self.quantity in quantities

    def met(self, quantities: Mapping[str, float]) -> bool:
        """Whether the rule fails with these numbers."""
        return OPERATORS[self.comparison](quantities[self.quantity], self.limit)


def texts(name: str, given: object) -> tuple[str, ...]:
    """One text, or several, as a tuple; raises `ValueError` for anything else."""
    items = [given] if isinstance(given, str) else [*given] if isinstance(given, list | tuple) else [None]
    if not all(isinstance(item, str) and item.strip() for item in items):
        raise ValueError(f"'{name}' must be a text or a list of texts, got {given!r}")
    return tuple(str(item).strip() for item in items)
