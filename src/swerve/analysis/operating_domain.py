"""Which conditions of the operating domain a run tried, and under which the system broke.

Terms are those of ISO 34503 as ASAM OpenODD writes them: weather, particulates, illumination and the state of the road.
A follow-up counts for the conditions that its change brought about, so a picture rotated by day says nothing about the
day. The conditions of the untouched cases are listed as being in the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from swerve.analysis.numbers import RuleCounts
from swerve.analysis.slices import CURVE, DISTANCE, LIGHT, SIZE, CaseTable, Columns, Slice, label_columns
from swerve.analysis.verdict import Standing, standing
from swerve.core.relation import Status
from swerve.core.values import SceneRef
from swerve.store.journal import Row
from swerve.world.conditions import Conditions, declared

ENVIRONMENT = "environmental_conditions"
FOG, SUN_AHEAD = "non-precipitating_water_droplets", "sun_ahead"
STRAIGHT, CURVES = "straight_lines", "curves"
IN_DATA, NOT_TRIED = "in the data", "not tried"
SLICED = (CURVE, LIGHT, SIZE, DISTANCE)  # what the labels say, beside the conditions
JUDGED = (Status.HELD.value, Status.VIOLATED.value)
# The highest rate in mm/h, visibility in km and cloud cover in eighths of each class; `None`: no limit.
RAIN = ((0, "no_rain"), (2.5, "light_rain"), (7.6, "moderate_rain"), (50, "heavy_rain"), (100, "violent_rain"))
CLOUDS = (
    *((1, "clear"), (2, "partly_cloudy_few_clouds"), (4, "partly_cloudy_scattered_clouds")),
    (7, "partly_cloudy_broken_clouds"),
)
SNOW = ((0.5, "heavy_snow"), (1.0, "moderate_snow"))
CLOUDBURST, OVERCAST, LIGHT_SNOW = "cloudburst", "overcast", "light_snow"
THIRDS = 3  # a change of a picture gives rain and snowfall by a share, whose thirds are taken for light, moderate and heavy
DAYLIGHT, DARKNESS = 3.0, -8.0  # the sun's elevation in degrees at which a clear sky gives about 2000 lux, and 1 lux
MIST = 5000.0  # metres of visibility, below which there is mist or fog, if nothing falls


@dataclass(frozen=True)
class Attribute:
    """An attribute of the operating domain with its values."""

    path: tuple[str, ...]
    terms: tuple[str, ...]

    @property
    def words(self) -> str:
        """Its place in the taxonomy without the name of the top, and of a repeated part."""
        return " › ".join(name.replace("_", " ").removeprefix("drivable area ") for name in self.path[1:])


DOMAIN = (
    Attribute((ENVIRONMENT, "weather", "rain", "rainfall_intensity"), (*(name for _, name in RAIN), CLOUDBURST)),
    Attribute((ENVIRONMENT, "weather", "snowfall"), ("no_snow", LIGHT_SNOW, *(name for _, name in reversed(SNOW)))),
    Attribute(
        (ENVIRONMENT, "particulates", "type"),
        (FOG, "water_spray", "smoke_and_pollution", "dust", "sand", "volcanic_ash", "blowing_debris"),
    ),
    Attribute((ENVIRONMENT, "illumination", "natural_illuminance"), ("day", "low_ambient", "night")),
    Attribute((ENVIRONMENT, "illumination", "cloudiness"), (*(name for _, name in CLOUDS), OVERCAST)),
    Attribute((ENVIRONMENT, "illumination", "position_of_the_sun"), (SUN_AHEAD,)),
    Attribute(("scenery_elements", "drivable_area", "drivable_area_geometry", "horizontal_plane"), (STRAIGHT, CURVES)),
    Attribute(
        ("scenery_elements", "drivable_area", "drivable_area_surface", "drivable_area_included_surface_condition"),
        ("wet", "snow_on_surface", "icy", "standing_water", "flooded", "surface_contamination"),
    ),
)
# Values of common metadata that are terms beyond doubt.
METADATA: Mapping[str, Mapping[str, str]] = {
    "timeofday": {"daytime": "day", "day": "day", "dawn/dusk": "low_ambient", "night": "night"},
    "weather": {"clear": "clear", "overcast": OVERCAST, "foggy": FOG},
}


def term_words(term: str) -> str:
    """A term for people."""
    return "mist, fog" if term == FOG else term.replace("_", " ")


def terms_of_conditions(here: Conditions) -> frozenset[str]:
    """The terms of the embedded world's conditions."""
    rain = next((name for most, name in RAIN if here.rain <= most), CLOUDBURST)
    okta = round(8 * here.clouds)
    found = {rain, _snowfall(here), _illuminance(here.sun), next((name for most, name in CLOUDS if okta <= most), OVERCAST)}
    found |= {FOG} if here.visibility < MIST and not (here.rain or here.snowfall) else set()
    found |= {"wet"} if here.wet >= 0.5 else set()
    found |= {"snow_on_surface"} if here.snow >= 0.5 else set()
    return frozenset(found | ({SUN_AHEAD} if here.ahead >= 0.5 and here.sun >= 0 and abs(here.azimuth) < 45 else set()))


def _snowfall(here: Conditions) -> str:
    """The class of snowfall, by the visibility in it."""
    if not here.snowfall:
        return "no_snow"
    return next((name for most, name in SNOW if here.visibility < 1000 * most), LIGHT_SNOW)


def _illuminance(sun: float) -> str:
    return "day" if sun >= DAYLIGHT else "night" if sun <= DARKNESS else "low_ambient"


def terms_of_scene(labels: Iterable[Row]) -> frozenset[str]:
    """The terms of the scene that encoded labels refer to; none without one."""
    scene = next((value for value in labels if value.get("slot") == SceneRef.slot), None)
    given = scene.get("conditions") if scene else None
    return _terms(tuple(sorted(given.items()))) if isinstance(given, dict) else frozenset()


def _road(labels: Iterable[Row]) -> frozenset[str]:
    """The course of the road, if the labels say it."""
    curve = label_columns(labels).get(CURVE)
    return frozenset() if curve is None else frozenset({STRAIGHT if curve == "straight" else CURVES})


@lru_cache(4096)  # many frames have the same conditions
def _terms(items: tuple[tuple[str, Any], ...]) -> frozenset[str]:
    try:
        return terms_of_conditions(Conditions(**{name: number for name, number in items if name in declared()}))
    except (TypeError, ValueError):  # of another version, or damaged
        return frozenset()


def terms_of_change(change: Mapping[str, Any] | None) -> Iterator[str]:
    """The terms that changes of a picture bring about."""
    for step in (change or {}).get("steps") or [change or {}]:
        use, number = step.get("use"), step.get(_STRENGTHS.get(str(step.get("use")), ""))
        if not isinstance(number, int | float):
            continue
        if use == "fog" and number < MIST:
            yield FOG
        elif use == "rain" and number > 0:
            yield ("light_rain", "moderate_rain", "heavy_rain")[min(int(THIRDS * number), 2)]
        elif use == "snow" and number > 0:
            yield (LIGHT_SNOW, "moderate_snow", "heavy_snow")[min(int(THIRDS * number / 5), 2)]
        elif use == "lens-flare" and number > 0:
            yield SUN_AHEAD


_STRENGTHS = {"fog": "visibility", "rain": "amount", "snow": "severity", "lens-flare": "strength"}


@dataclass(frozen=True)
class DomainRow:
    """A condition: its trials, by values of the columns that the labels have, and the cases that have it anyway."""

    attribute: Attribute
    term: str
    in_data: int
    violated: int
    judged: int
    cells: Mapping[str, Sequence[Slice]]

    @property
    def words(self) -> str:
        """The condition for people."""
        return term_words(self.term)

    @property
    def status(self) -> str:
        """`holds`, `fails`, `breaks`, `in the data` or `not tried`."""
        return status_of(self.violated, self.judged) or (IN_DATA if self.in_data else NOT_TRIED)


def status_of(violated: int, judged: int) -> str:
    """How the system stands under a condition; empty if nothing was judged."""
    found = standing(RuleCounts("", judged - violated, violated))
    return "" if found is Standing.UNJUDGED else found.value


class DomainTally:
    """Counts a run's trials by the conditions that they brought about, row by row; memory grows with the cases."""

    def __init__(self, metadata: Mapping[str, Columns] | None = None) -> None:
        self._metadata = metadata or {}
        self._own: dict[str, frozenset[str]] = {}  # conditions of the untouched cases
        self._counts: dict[str, dict[str, list[int]]] = {}

    def add_case(self, row: Row) -> None:
        """Take in an unchanged case."""
        if not row["fault"]:
            facts = self._metadata.get(row["case"], {})
            told = {terms.get(str(facts.get(name))) for name, terms in METADATA.items()} - {None}
            self._own[row["case"]] = terms_of_scene(row["truth"]) | _road(row["truth"]) | {str(term) for term in told}

    def add_trial(self, row: Row) -> None:
        """Count a trial, if it was judged."""
        if row["status"] in JUDGED:
            for term in self.terms(row["case"], row["change"], row["truth"]):
                cell = self._counts.setdefault(term, {}).setdefault(row["case"], [0, 0])
                cell[0] += row["status"] == Status.VIOLATED.value
                cell[1] += 1

    def terms(self, case: str, change: Mapping[str, Any] | None, truth: Iterable[Row]) -> frozenset[str]:
        """The conditions that a change of a case brought about."""
        return (terms_of_scene(truth) - self._own.get(case, frozenset())) | frozenset(terms_of_change(change))

    def rows(self, table: CaseTable) -> list[DomainRow]:
        """Every condition of the operating domain, tried or not."""
        return [self._row(attribute, term, table) for attribute in DOMAIN for term in attribute.terms]

    def _row(self, attribute: Attribute, term: str, table: CaseTable) -> DomainRow:
        counts = self._counts.get(term, {})
        slices = table.slices(counts) if counts else {}
        cells = {name: slices[name] for name in SLICED if name in slices}
        failed, judged = (sum(cell[place] for cell in counts.values()) for place in (0, 1))
        return DomainRow(attribute, term, sum(term in own for own in self._own.values()), failed, judged, cells)
