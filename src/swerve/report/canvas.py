"""The parts of charts: escaped SVG elements, marks, legend entries, axes and the figure around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup
from rich.cells import cell_len, set_cell_size

from swerve.report.axis import AxisScale
from swerve.report.templating import CONTROLS

WIDTH = 620
TOP, FOOT = 8, 44  # above the plot, and below it for ticks and the axis title
RIGHT = WIDTH - 12
PLANE_RIGHT = WIDTH - 24  # leaves room for half of the last tick label
BESIDE = 62  # room for the number at the end of a row
LETTER = 6.9  # pixels per character in the widest of the page's fonts
LONGEST_NAME = 34  # characters of a row's name
NAMES = 14  # height of a second line of names below a plot, pixels
SPREAD = 480  # pixels for names below a plot; longer ones alternate between two lines
TONES = 8  # colours in experiment.css; further series reuse them with other marks
PRINTED = "printed"
# Series differ by shape as well as by colour.
SHAPES = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "m-2.7-2.7h5.4v5.4h-5.4z",
    "m0-3.8l3.8 3.8l-3.8 3.8l-3.8-3.8z",
    "m0-3.6l3.6 6.2h-7.2z",
    "m0 3.6l3.6-6.2h-7.2z",
)
DIAMOND = "m0-5l3.6 5l-3.6 5l-3.6-5z"


def clipped(name: str, longest: int) -> str:
    """`name` cut to `longest` columns; wide characters take two."""
    return name if cell_len(name) <= longest else f"{set_cell_size(name, longest - 1).rstrip()}…"


def tone(place: int) -> str:
    """The colour of the series at `place`."""
    return f"tone{place % TONES}"


def draw(tag: str, inside: Iterable[Markup] = (), *, tooltip: str = "", **attributes: object) -> Markup:
    """An SVG element; `tooltip`, attribute values and texts are escaped."""
    named = Markup("").join(Markup(' {}="{}"').format(_name(name), _safe(item)) for name, item in attributes.items())
    title = Markup("<title>{}</title>").format(_safe(tooltip)) if tooltip else Markup("")
    return Markup("<{0}{1}>{2}{3}</{0}>").format(tag, named, title, Markup("").join(inside))


def text(x: float, y: float, words: str, kind: str) -> Markup:
    """A line of text."""
    return (
        draw("text", [Markup("{}").format(_safe(words))], class_=kind, x=round(x, 1), y=round(y, 1)) if words else Markup("")
    )


def path(corners: Iterable[tuple[float, float]]) -> str:
    """The path through corners."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in corners)


def mark(place: int | str, x: float, y: float, tooltip: str = "", *, kind: str = "") -> Markup:
    """The mark of the series at `place`, or of the paper's number."""
    if isinstance(place, str):
        return draw("path", class_=place, d=f"M{x} {y}{DIAMOND}", tooltip=tooltip)
    shape = SHAPES[place % len(SHAPES)]
    return draw("path", class_=f"mark {kind or tone(place)}", d=f"M{x} {y}{shape}", tooltip=tooltip)


def key(name: str, *sample: Markup) -> Markup:
    """A legend entry."""
    drawn = draw("svg", sample, viewBox="0 0 22 12", aria_hidden="true")
    return Markup('<span class="key">{}<bdi>{}</bdi></span>').format(drawn, _safe(name))


def figure(parts: Iterable[Markup], height: float, about: str, keys: Iterable[Markup], asides: Iterable[str]) -> Markup:
    """The drawing with its legend and remarks."""
    drawing = draw("svg", parts, viewBox=f"0 0 {WIDTH} {round(height)}", role="img", aria_label=about)
    legend = Markup("").join(keys)
    under = [Markup('<p class="keys">{}</p>').format(legend)] if legend else []
    under += [Markup('<p class="aside">{}</p>').format(_safe(aside)) for aside in asides]
    return Markup('<div class="plot">{}{}</div>').format(drawing, Markup("").join(under))


def nothing(what: str) -> Markup:
    """The sentence in place of a chart without any finite number."""
    return Markup('<p class="aside">Nothing to draw: the {} contain no finite number.</p>').format(what)


def left_out(count: int, total: int, what: str, *, or_else: str = "") -> Iterator[str]:
    """The remark that some numbers could not be drawn."""
    if count:
        yield f"{count:,} of {total:,} {what} left out: not finite{f', or {or_else}' if or_else else ''}."


def name_edge(names: Iterable[str]) -> float:
    """The left edge of a plot, right of all row names."""
    return round(14 + LETTER * max((cell_len(clipped(name, LONGEST_NAME)) for name in names), default=0), 1)


def tick_edge(up: AxisScale) -> float:
    """The left edge of a plot, right of the tick labels of its vertical axis."""
    return round(12 + LETTER * max((len(label) for _, label in up.ticks()), default=0), 1)


def row_name(name: str, y: float, left: float) -> Markup:
    """The name of a row, left of the plot."""
    return text(left - 8, y + 4, clipped(name, LONGEST_NAME), "y name")


def grid_axis(scale: AxisScale, bottom: float, axis: str) -> Iterator[Markup]:
    """The horizontal axis of rows: a vertical line at each tick, a stronger one at zero, and the title."""
    for x, label in scale.ticks():
        yield draw("path", class_="grid", d=f"M{x} {TOP}V{bottom}")
        yield text(x, bottom + 17, label, "x")
    if scale.low <= 0 < scale.high:
        yield draw("path", class_="tick", d=f"M{scale(0)} {TOP}V{bottom}")
    yield text((scale.start + scale.end) / 2, bottom + 36, axis, "x axis")


def bottom_axis(scale: AxisScale, bottom: float, axis: str, names: Sequence[str] = ()) -> Iterator[Markup]:
    """The horizontal axis of a plane: ticks, or names in their place, and the title."""
    for x, label, drop in _names(scale, names) if names else ((x, label, 0) for x, label in scale.ticks()):
        yield draw("path", class_="tick", d=f"M{x} {bottom}v{4 + drop}")
        yield text(x, bottom + 17 + drop, label, "x")
    yield text((scale.start + scale.end) / 2, bottom + 36 + below(names), axis, "x axis")


def _names(scale: AxisScale, names: Sequence[str]) -> Iterator[tuple[float, str, int]]:
    """The position of each name, as much of the name as fits, and how far below the first line it is."""
    lower = below(names)
    room = (scale(1) - scale(0)) * (2 if lower else 1) - LETTER
    for place, name in enumerate(names):
        x = scale(place)
        yield x, clipped(name, max(int(min(room, 2 * x, 2 * (WIDTH - x)) / LETTER), 2)), lower * (place % 2)


def below(names: Sequence[str]) -> int:
    """The height of the second line of names, 0 if one line is enough."""
    return NAMES if max(map(cell_len, names), default=0) * len(names) * LETTER > SPREAD else 0


def left_axis(scale: AxisScale, left: float, axis: str) -> Iterator[Markup]:
    """The vertical axis with its title above it."""
    for y, label in scale.ticks():
        yield draw("path", class_="grid", d=f"M{left} {y}H{PLANE_RIGHT}")
        yield text(left - 6, y + 4, label, "y")
    yield text(0, TOP + 2, axis, "axis")


def _name(attribute: str) -> str:
    return attribute.rstrip("_").replace("_", "-")


def _safe(item: object) -> object:
    """Text with visible control characters; numbers as they are."""
    return item.translate(CONTROLS) if isinstance(item, str) else item
