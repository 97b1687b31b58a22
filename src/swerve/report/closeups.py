"""Single objects of a finding, enlarged: source and follow-up side by side, cut out of the kept pictures by SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

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
        drawn = [self._figure(one, addresses) for one in self.closeups]
        if self.more:
            drawn.append(Markup("<small>and {} more</small>").format(self.more))
        return Markup('<div class="closeups">{}</div>').format(Markup("").join(drawn))

    def _figure(self, one: Closeup, addresses: Sequence[Mapping[str, str]]) -> Markup:
        views = zip(one.views, addresses, self.sizes, strict=True)
        drawn = Markup("").join(_crop(view, where, size) for view, where, size in views if view)
        said = Markup(" → ").join(_said(view) for view in one.views if view)
        about = Markup(" {}").format(_text(one.about)) if one.about else ""
        caption = Markup('<b class="{0}">{0}</b>{1}: {2}').format(one.state, about, said)
        return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(drawn, caption)


def _crop(view: ObjectView, where: Mapping[str, str], size: tuple[int, int]) -> Markup:
    """The part of the picture around the object. An HTML image inside the SVG loads only when it comes into sight."""
    width, height = size
    reach = min(view.reach, width, height)
    left, top = (min(max(at - reach / 2, 0.0), most - reach) for at, most in zip(view.centre, (width, height), strict=True))
    found = Markup("").join(Markup(' {}="{}"').format(name, text.translate(CONTROLS)) for name, text in where.items())
    picture = Markup('<img loading="lazy"{} width="{}" height="{}" alt="">').format(found, width, height)
    drawn = Markup("").join(Markup('<path class="{}" d="{}"/>').format(kind, _path(edges)) for kind, edges in view.outlines)
    return Markup(
        '<svg class="crop{}" viewBox="{:.5g} {:.5g} {:.5g} {:.5g}">'
        '<foreignObject width="{}" height="{}">{}</foreignObject>{}</svg>'
    ).format(f" {view.lamp}" if view.lamp else "", left, top, reach, reach, width, height, picture, drawn)


def _path(edges: Iterable[float]) -> str:
    left, top, right, bottom = edges
    return f"M{left:.5g} {top:.5g}H{right:.5g}V{bottom:.5g}H{left:.5g}z"


def _said(view: ObjectView) -> Markup:
    lamp = Markup('<i class="lamp {}"></i>').format(view.lamp) if view.lamp else ""
    return Markup("{}<bdi>{}</bdi>").format(lamp, _text(view.said))


def _text(words: str) -> str:
    return clip(words.translate(CONTROLS), LONGEST)
