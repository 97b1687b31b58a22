"""What is drawn over a picture: boxes, lines, heat maps and steering arrows, as one SVG in the picture's own pixels.

Nothing is painted into the kept pictures. Cards, the lightbox and the review page show the same SVG, so all of them can hide
it, and it scales with the picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from markupsafe import Markup, escape

from swerve.core.values import Array
from swerve.relations.box_states import BoxState
from swerve.report.templating import CONTROLS, clip

# Kinds of shapes in the order in which they are drawn; viewer.css has their colours. Dashed: nothing was detected there.
KINDS = {
    "label": "label",
    "ignored": "ignored by the rule",
    "before": "answer on the source",
    "after": "answer on the follow-up",
    "expected": "expected place",
    "found": "found, as labelled",
    "kept": "kept, as on the source",
    "object": "changed object",
    "gained": "gained, which the rule allows",
    "doubled": "doubled",
    "ghost": "ghost",
    "drifted": "drifted",
    "mislabelled": "mislabelled",
    "missed": "missed",
    "lost": "lost",
}
ORDER = {kind: place for place, kind in enumerate(KINDS)}
STATES = frozenset([*BoxState, "found", "missed"]) - {BoxState.IGNORED}
LINES = 60  # lines of text per width of a picture
LETTER = 0.56  # width of a character in lines
LONGEST = 40  # characters of a text
STEPS = (0, -1, 1, -2, 2, -3, 3)  # places for a text: lines away from its box, minus is up
WIDE, HIGH, FOOT = 120, 64, 6  # the space of a steering arrow, and what of it lies below its foot
SHARE = 0.86  # of a picture's height, for the arrow
Point = tuple[float, float]


@dataclass(frozen=True)
class Outline:
    """Lines over a picture in its pixels, with a text at the corner `at`: `path` is SVG path data."""

    kind: str
    path: str
    text: str = ""
    at: Point = (0.0, 0.0)
    low: float = 0.0  # the lower edge, below which a text may stand too


@dataclass(frozen=True)
class Raster:
    """A picture over the whole picture, such as a heat map."""

    kind: str
    address: str


@dataclass(frozen=True)
class Arrow:
    """A steering angle: `kind` is k (source), r (follow-up) or l (label), as in style.css; `turn` is in degrees."""

    kind: str
    turn: str


@dataclass(frozen=True)
class Overlay:
    """All that is drawn over a picture of `size` (width, height)."""

    size: tuple[int, int]
    shapes: tuple[Outline, ...] = ()
    rasters: tuple[Raster, ...] = ()
    arrows: tuple[Arrow, ...] = ()

    @cached_property
    def words(self) -> str:
        """How many boxes are in which state: `4 kept, 1 lost`; empty if no verdict gave them one."""
        counts = Counter(shape.kind for shape in self.shapes if shape.kind in STATES)
        return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])

    @cached_property
    def svg(self) -> Markup:
        """The drawing; empty if there is none."""
        parts = [*self._rasters(), *self._outlines(), *self._texts(), *self._arrows()]
        width, height = self.size
        about = f' role="img" aria-label="{self.words}"' if self.words else ""
        head = f'<svg class="overlay" viewBox="0 0 {width} {height}" font-size="{_line(width):.4g}"{about}>'
        return Markup(f"{head}{''.join(parts)}</svg>") if parts else Markup("")  # every text in it is escaped

    def _rasters(self) -> Iterator[str]:
        for raster in self.rasters:
            yield f'<image class="{raster.kind}" href="{_safe(raster.address)}" width="100%" height="100%"></image>'

    def _outlines(self) -> Iterator[str]:
        paths: dict[str, list[str]] = {}
        for shape in self.shapes:
            paths.setdefault(shape.kind, []).append(shape.path)
        for kind in sorted(paths, key=ORDER.__getitem__):
            yield f'<path class="{kind}" d="{"".join(paths[kind])}"/>'

    def _texts(self) -> Iterator[str]:
        line = _line(self.size[0])
        for shape, (x, y) in _places([shape for shape in self.shapes if shape.text], self.size, line):
            yield f'<text class="{shape.kind}" x="{x:.0f}" y="{y:.0f}">{_safe(_cut(shape.text))}</text>'

    def _arrows(self) -> Iterator[str]:
        if self.arrows:
            width, height = self.size
            scale = min(width / WIDE, SHARE * height / HIGH)
            foot = f"translate({width / 2:g} {height - FOOT * scale:.4g}) scale({scale:.4g})"
            drawn = "".join(_arrow(arrow) for arrow in self.arrows)
            yield f'<g transform="{foot}"><g class="arrows">{drawn}</g></g>'


def box(kind: str, edges: Sequence[float], text: str = "") -> Outline:
    """The outline of an upright box, from its left, top, right and bottom edges."""
    left, top, right, bottom = edges
    path = f"M{left:.6g} {top:.6g}H{right:.6g}V{bottom:.6g}H{left:.6g}z"
    return Outline(kind, path, text, (left, top), bottom)


def rounded(xyxy: Array) -> list[list[float]]:
    """The edges of boxes in tenths of a pixel."""
    edges: list[list[float]] = np.round(xyxy, 1).tolist()
    return edges


def lines(kind: str, ends: Sequence[tuple[Array, Array]], text: str = "") -> Outline:
    """Straight lines, such as the edges of a 3-D box."""
    path = "".join(f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}" for start, end in ends)
    corners = [point for pair in ends for point in pair]
    left, top, low = min(at[0] for at in corners), min(at[1] for at in corners), max(at[1] for at in corners)
    return Outline(kind, path, text, (float(left), float(top)), float(low))


def legend(overlays: Iterable[Overlay]) -> dict[str, str]:
    """The meaning of every kind of shape that occurs."""
    used = {shape.kind for overlay in overlays for shape in overlay.shapes}
    return {kind: words for kind, words in KINDS.items() if kind in used}


def _line(width: int) -> float:
    """The height of a line of text in pixels of the picture."""
    return width / LINES


def _places(shapes: Sequence[Outline], size: tuple[int, int], line: float) -> Iterator[tuple[Outline, Point]]:
    """Where each text starts: errors first, no text over another; a text without a free place is left out."""
    taken: dict[int, list[tuple[float, float, float]]] = {}  # left, right and baseline, by the line they are nearest to
    for shape in sorted(shapes, key=lambda one: -ORDER[one.kind]):
        width = LETTER * line * len(_cut(shape.text))
        left = max(min(shape.at[0], size[0] - width), 0.0)
        for step in STEPS:
            base = shape.at[1] + (step - 0.3) * line if step <= 0 else shape.low + step * line
            if line <= base <= size[1] and _is_free(left, left + width, base, line, taken):
                taken.setdefault(round(base / line), []).append((left, left + width, base))
                yield shape, (left, base)
                break


def _is_free(
    left: float, right: float, base: float, line: float, taken: Mapping[int, Sequence[tuple[float, float, float]]]
) -> bool:
    near = round(base / line)
    for row in (near - 1, near, near + 1):  # what is further away cannot touch it
        for start, end, other in taken.get(row, ()):  # all() takes twice as long, and a page has 100,000 of these
            if left < end and start < right and abs(base - other) < line:
                return False
    return True


def _arrow(arrow: Arrow) -> str:
    symbol = "d" if arrow.kind == "l" else "a"  # of arrows.html
    return f'<use class="{arrow.kind}" href="#{symbol}" transform="rotate({arrow.turn})"/>'


def _cut(text: str) -> str:
    return clip(text, LONGEST)


@lru_cache(4096)  # many boxes have the same text
def _safe(text: str) -> str:
    return str(escape(text.translate(CONTROLS)))
