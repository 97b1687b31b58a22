"""Single objects of a finding, enlarged: source and follow-up side by side, cut out of the kept pictures by SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

from swerve.report.templating import CONTROLS, clip

LONGEST = 60  # characters of what is said of an object
# The colours of traffic lights, by the names that data sets give their states.
LAMPS = {
    **{name: name for name in ("red", "yellow", "green", "off")},
    **{"stop": "red", "warning": "yellow", "go": "green"},
}
Edges = tuple[float, float, float, float]


@dataclass(frozen=True)
class ObjectView:
    """An object on one picture: what was detected there, and its outlines, each a kind of shape with its edges.

    `edges` and `reach` are the centre and the side of the square that is shown, in pixels of the picture.
    """

    centre: tuple[float, float]
    reach: float
    said: str
    kind: str = ""
    outlines: tuple[tuple[str, Edges], ...] = ()

    @property
    def lamp(self) -> str:
        """The colour of the light, if the object is a traffic light with a state."""
        return LAMPS.get(self.kind, "")


@dataclass(frozen=True)
class Closeup:
    """An object that decided a verdict; a side is None where nobody knows its place on that picture."""

    state: str
    about: str  # such as its label
    source: ObjectView | None
    followup: ObjectView | None

    @property
    def views(self) -> tuple[ObjectView | None, ObjectView | None]:
        """Source and follow-up."""
        return self.source, self.followup


@dataclass(frozen=True)
class CloseupStrip:
    """The closeups of a finding, `more` objects that are left out, and the sizes of both pictures."""

    closeups: tuple[Closeup, ...] = ()
    more: int = 0
    sizes: tuple[tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1))

    def html(self, addresses: Sequence[Mapping[str, str]]) -> Markup:
        """The strip; `addresses` are the attributes by which the pictures of source and follow-up are found."""
        if not self.closeups:
            return Markup("")
        tags = [_picture(*pair) for pair in zip(addresses, self.sizes, strict=True)]
        drawn = [self._figure(one, tags) for one in self.closeups]
        if self.more:
            drawn.append(f"<small>and {self.more} more</small>")
        return Markup(f'<div class="closeups">{"".join(drawn)}</div>')  # every text in it is escaped

    def _figure(self, one: Closeup, tags: Sequence[str]) -> str:
        views = zip(one.views, tags, self.sizes, strict=True)
        drawn = "".join(_crop(view, tag, size) for view, tag, size in views if view)
        said = " → ".join(_label_of(view) for view in one.views if view)
        about = f" {_text(one.about)}" if one.about else ""
        return f'<figure>{drawn}<figcaption><b class="{one.state}">{one.state}</b>{about}: {said}</figcaption></figure>'


def _picture(address: Mapping[str, str], size: tuple[int, int]) -> str:
    """The whole picture. An HTML image inside an SVG loads only when it comes into sight."""
    found = "".join(f' {name}="{escape(text.translate(CONTROLS))}"' for name, text in address.items())
    image = f'<img loading="lazy"{found} width="{size[0]}" height="{size[1]}" alt="">'
    return f'<foreignObject width="{size[0]}" height="{size[1]}">{image}</foreignObject>'


def _crop(view: ObjectView, picture: str, size: tuple[int, int]) -> str:
    """The part of the picture around the object, moved inside where it would reach beyond an edge."""
    reach = min(view.reach, *size)
    left, top = (min(max(at - reach / 2, 0.0), most - reach) for at, most in zip(view.centre, size, strict=True))
    drawn = "".join(f'<path class="{kind}" d="{_path(edges)}"/>' for kind, edges in view.outlines)
    square = f"{left:.5g} {top:.5g} {reach:.5g} {reach:.5g}"
    return f'<svg class="crop{f" {view.lamp}" if view.lamp else ""}" viewBox="{square}">{picture}{drawn}</svg>'


def _path(edges: Iterable[float]) -> str:
    left, top, right, bottom = edges
    return f"M{left:.5g} {top:.5g}H{right:.5g}V{bottom:.5g}H{left:.5g}z"


def _label_of(view: ObjectView) -> str:
    lamp = f'<i class="lamp {view.lamp}"></i>' if view.lamp else ""
    return f"{lamp}<bdi>{_text(view.said)}</bdi>"


@lru_cache(4096)  # many objects are said to be the same
def _text(words: str) -> str:
    return str(escape(clip(words.translate(CONTROLS), LONGEST)))
