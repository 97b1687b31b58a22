"""Pictures that are worth testing a detector on: in colour, not twice, and with something to find; split by drives."""
# TG-17

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_whole
from swerve.core.case import Case, group_of
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.seeding import digest_of, rng_for
from swerve.core.values import Array, Boxes2D, Image, find
from swerve.sources.windows import WrappedSource

GREY = 8  # steps of 255 by which the channels of a picture without colour may differ: JPEG's rounding
SIDES = ("train", "val", "test")
ALL = "all"
UNREADABLE, NO_COLOUR, REPEATED, NOTHING = "cannot be read", "no colour", "the same picture again", "no box to find"


@dataclass(frozen=True)
class Screened(WrappedSource):
    """The usable cases of `source`: monochrome pictures, repeated ones and those without any box to find are left out.

    `side` is one of three sides of a split of whole drives, train, val or test, whose sizes are as `shares`, or all. Every
    picture is read once for this. `counts()` says how many were left out, and `left_out` why.

    Args:
        grey: steps of 255; a picture is monochrome if the channels of no pixel differ by more.
    """

    side: Annotated[str, OneOfNames(*SIDES, ALL)] = ALL
    shares: tuple[int, ...] = (4, 1, 1)
    grey: int = GREY
    seed: int = 0

    def __post_init__(self) -> None:
        check_known("side", self.side, (*SIDES, ALL))
        check_whole("grey", self.grey, 0)
        object.__setattr__(self, "shares", tuple(self.shares))
        whole = all(isinstance(share, int) and not isinstance(share, bool) and share > 0 for share in self.shares)
        if len(self.shares) != len(SIDES) or not whole:
            raise InputError(f"'shares' must be three whole numbers above 0, for train, val and test, got {self.shares!r}")

    def keys(self) -> Sequence[str]:
        return list(self._chosen)

    def __getitem__(self, key: str) -> Case:
        if key not in self._chosen:
            raise KeyError(key)
        return self.source[key]

    def fingerprint(self) -> str:
        return digest_of("screened", self.source.fingerprint(), self.side, self.shares, self.grey, self.seed)

    def counts(self) -> dict[str, int]:
        """How many cases of the source there are, are left out for each reason, and remain on each side."""
        reasons = Counter(self.left_out.values())
        sides = Counter(self._sides.values()) if len(self._groups) >= len(SIDES) else Counter()
        named = {reason: reasons[reason] for reason in (UNREADABLE, NO_COLOUR, REPEATED, NOTHING)}
        return {"all": len(self._reasons), **named, **{side: sides[side] for side in SIDES}}

    @cached_property
    def left_out(self) -> Mapping[str, str]:
        """The cases that are left out, on any side, and why."""
        return {key: reason for key, reason in self._reasons.items() if reason}

    @cached_property
    def _reasons(self) -> Mapping[str, str]:
        """Why each case is left out, or nothing."""
        return dict(self._screen())

    def _screen(self) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for key in self.source.keys():
            try:
                case = self.source[key]
            except UnreadableCase:
                yield key, UNREADABLE
                continue
            image = picture_of(case)
            reason = REPEATED if image.digest in seen else self._fault(case, image.pixels)
            seen.add(image.digest)
            yield key, reason

    def _fault(self, case: Case, pixels: Array) -> str:
        if is_grey(pixels, self.grey):
            return NO_COLOUR
        truth = find(case.truth, Boxes2D.slot)
        return "" if isinstance(truth, Boxes2D) and np.any(truth.care) else NOTHING

    @cached_property
    def _groups(self) -> Mapping[str, int]:
        """The drives and how many usable cases each has."""
        return Counter(group_of(self.source, key) for key, reason in self._reasons.items() if not reason)

    @cached_property
    def _sides(self) -> Mapping[str, str]:
        """The side of every usable case."""
        side_of = dealt(self._groups, self.shares, self.seed)
        return {key: side_of[group_of(self.source, key)] for key, reason in self._reasons.items() if not reason}

    @cached_property
    def _chosen(self) -> Mapping[str, None]:
        if self.side == ALL:
            return {key: None for key, reason in self._reasons.items() if not reason}
        return {key: None for key, side in self._sides.items() if side == self.side}


def picture_of(case: Case) -> Image:
    """The image `camera` of a case."""
    image = case.inputs.get("camera")
    if not isinstance(image, Image):
        raise InputError(
            f"{case.key}: 'screened' looks at an image 'camera', got only {', '.join(case.inputs) or 'nothing'}"
        )
    return image


def is_grey(pixels: Array, steps: int) -> bool:
    """Whether the channels of no pixel differ by more than `steps`."""
    return bool((pixels.max(axis=2).astype(int) - pixels.min(axis=2)).max(initial=0) <= steps)


def dealt(groups: Mapping[str, int], shares: Sequence[int], seed: int) -> dict[str, str]:
    """The side of every drive: the largest first, each to the side that lacks most; raises for fewer drives than sides."""
    if len(groups) < len(SIDES):
        raise InputError(
            f"a split into {', '.join(SIDES)} needs at least {len(SIDES)} drives with usable cases, got {len(groups)}; "
            "set side = 'all'"
        )
    drawn = rng_for(seed, "screened", "split").permutation(len(groups))
    order = sorted(zip(sorted(groups), drawn.tolist(), strict=True), key=lambda item: (-groups[item[0]], item[1]))
    lacking = {side: sum(groups.values()) * share / sum(shares) for side, share in zip(SIDES, shares, strict=True)}
    found: dict[str, str] = {}
    for number, (group, _) in enumerate(order):
        empty = [side for side in SIDES if side not in found.values()]
        # The last drives go to sides that would otherwise have none.
        open_to = empty if len(empty) >= len(order) - number else SIDES
        side = max(open_to, key=lambda one: lacking[one])
        found[group], lacking[side] = side, lacking[side] - groups[group]
    return found
