"""DeepTest as a campaign: Table 4, weather, guided and random search, both readings, three profiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.config.toml import Builder, describe, load_campaign
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import InputError, SpecError
from swerve.core.relation import Correct, Equivariant
from swerve.core.values import Image
from swerve.execution.engine import run
from swerve.methods.deeptest import deeptest, published_ranges, table_4, table_4_of_2018, table_4_of_the_code, weather
from swerve.relations.steering import AngleWithin, SquaredError
from swerve.search.greedy import Greedy
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.affine import Enlarge, Rotate, RotateAboutPixel, Shear, Translate
from swerve.transformations.photometric import Brighten, Contrast
from tests.unit.test_meter import network


class Unlabelled(FakeSource):
    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        return Case(case.key, case.inputs, (), case.group)


def test_every_image_has_seventy_simple_follow_ups() -> None:
    assert [len(space.grid()) for space in table_4().values()] == [10] * 7  # A.8: 7 x 10 = 70
    assert len({change for space in table_4().values() for change in space.grid()}) == 70
    summary = run(deeptest(FakeSource(3, width=64, height=48), FakeSystem(bias=3), coverage=False), MemoryLedger())
    assert summary.overall.as_dict()["trials"] == 3 * 70


def test_weather_is_one_fog_and_one_rain_of_each_image() -> None:
    made = deeptest(FakeSource(3, width=64, height=48), FakeSystem(bias=3), changes="weather")
    assert [rule.name for rule in made.rules] == ["fog", "rain"]
    assert run(made, MemoryLedger()).overall.as_dict()["trials"] == 6
    assert all(not space.grid() for space in weather().values())  # each image has a seed of its own


def test_label_is_the_oracle_where_there_is_one() -> None:
    labelled, bare = deeptest(FakeSource(2), FakeSystem()), deeptest(Unlabelled(2), FakeSystem())
    assert isinstance(labelled.rules[0].expect, Correct)
    assert labelled.rules[0].expect.compare == SquaredError(5.0)
    assert isinstance(bare.rules[0].expect, Equivariant)
    assert bare.rules[0].expect.compare == AngleWithin(10.0)
    assert labelled.rules[0].name == "translation"
    assert bare.rules[0].name == "translation, own answer"  # D-28: say so
    guided = deeptest(Unlabelled(2), network(), search="guided")
    assert [rule.name for rule in guided.rules] == ["pairs of changes, own answer"]


def test_both_readings_are_two_rules_of_each_change() -> None:
    made = deeptest(FakeSource(2), FakeSystem(), against="both", factor=2.0, within=7.0)
    assert [rule.name for rule in made.rules][:2] == ["translation, label", "translation, own answer"]
    assert len(made.rules) == 14
    with pytest.raises(InputError, match="has one rule"):
        deeptest(FakeSource(2), network(), search="guided", against="both")


def test_guided_search_is_of_pairs_under_coverage() -> None:
    made = deeptest(FakeSource(2), network(), search="guided", tries=3, budget=50, seed=4)
    assert made.search == Greedy(tries=3, budget=50)
    assert made.coverage is not None
    assert len(made.rules) == 1
    chance = deeptest(FakeSource(2), network(), search="random", budget=50, chance=0.25)
    assert chance.search == Greedy(budget=50, follow="chance", chance=0.25)
    capped = deeptest(FakeSource(2), network(), search="guided", reset=True, images=7, depth=6, width=2)
    assert capped.search == Greedy(reset=True, images=7, depth=6, width=2)  # D-7
    with pytest.raises(ValueError, match="a random search needs 'budget'"):
        deeptest(FakeSource(2), network(), search="random")


def test_windows_are_swept_change_by_change() -> None:
    assert deeptest(Windows(FakeSource(6, drive=6), 3), FakeSystem()).search == Sweep(1, by="change")
    assert deeptest(FakeSource(6), FakeSystem()).search == Sweep(1, by="case")


def test_black_box_is_swept_without_coverage() -> None:
    assert deeptest(FakeSource(2), FakeSystem()).coverage is None
    assert deeptest(FakeSource(2), network()).coverage is not None
    assert deeptest(FakeSource(2), network(), coverage=False).coverage is None


def test_profile_of_2018_counts_and_scales_as_printed() -> None:
    made = deeptest(FakeSource(2), network(), profile="deeptest-2018")
    assert made.gate is None
    assert made.coverage.counting == "deeptest-2018"  # type: ignore[union-attr]
    spaces = table_4_of_2018()
    assert spaces["scale"].grid()[0] == Enlarge(1.5, 1.5)
    assert spaces["shear"].grid()[0] == Shear(-1.0, anchor="top-left")
    assert spaces["rotation"].grid() == table_4()["rotation"].grid()


def test_profile_of_the_code_has_its_ranges_and_its_search() -> None:
    made = deeptest(FakeSource(2), network(), profile="deeptest-code", search="guided")
    assert made.search == Greedy(reading="code", seeds="each")
    ranges = published_ranges()  # B.1, item 11
    assert {type(change) for change in ranges["translation"].grid()} == {Translate}
    assert [ranges["translation"].grid()[place] for place in (0, -1)] == [Translate(-50, -50), Translate(49, 49)]
    assert [ranges["scale"].grid()[place] for place in (0, -1)] == [Enlarge(0.5, 0.5), Enlarge(1.9, 1.9)]
    # The published script shears by minus its parameter, -0.5 to 0.4 (B.1, item 25).
    assert [ranges["shear"].grid()[place].x for place in (0, -1)] == [0.5, -0.4]  # type: ignore[attr-defined]
    assert [ranges["rotation"].grid()[place] for place in (0, -1)] == [RotateAboutPixel(-30), RotateAboutPixel(29)]
    assert [ranges["contrast"].grid()[place] for place in (0, -1)] == [Contrast(0.1), Contrast(1.9)]
    assert [ranges["brightness"].grid()[place] for place in (0, -1)] == [Brighten(-21), Brighten(20)]
    assert len(ranges["blur"].grid()) == 10


@pytest.mark.parametrize(("width", "height"), [(640, 480), (41, 30)])
@pytest.mark.parametrize("space", [table_4_of_the_code, published_ranges])
def test_profile_of_the_code_rotates_as_its_authors(space: Callable[[], dict[str, Any]], width: int, height: int) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (height, width, 3), dtype=np.uint8)
    for change in space()["rotation"].grid()[:: 1 if width < 100 else 7]:
        turn = cv2.getRotationMatrix2D((width // 2, height // 2), change.degrees, 1)  # / of whole numbers in Python 2
        authors = cv2.warpAffine(pixels, turn, (width, height))
        assert np.array_equal(change.map(Image(pixels)).pixels, authors), change
        assert change.degrees == 0 or not np.array_equal(Rotate(change.degrees).map(Image(pixels)).pixels, authors)


def test_rotation_of_other_profiles_is_about_the_centre() -> None:
    for table in (table_4, table_4_of_2018):
        assert {type(change) for change in table()["rotation"].grid()} == {Rotate}
    assert RotateAboutPixel(3).words() == "rotated 3° counter-clockwise about the middle pixel"


@pytest.mark.parametrize(
    ("unused", "why"),
    [
        ({"budget": 5}, "budget = 5 needs search = 'guided' or 'random', but search is 'cumulative'"),
        ({"reset": False}, "reset = False needs search = 'guided' or 'random'"),
        ({"chance": 0.0, "search": "guided"}, "chance = 0.0 needs search = 'random', but search is 'guided'"),
        ({"changes": "all", "search": "guided"}, "changes = 'all' needs search = 'cumulative'"),
        ({"coverage": True, "search": "random", "budget": 4}, "coverage = True needs search = 'cumulative'"),
        ({"within": 3.0}, "within = 3.0 needs against = 'own answer', but against is 'label'"),
        ({"factor": 5.0, "against": "own answer"}, "factor = 5.0 needs against = 'label', but against is 'own answer'"),
        (
            {"reset": True, "search": "guided", "profile": "deeptest-code"},
            "'reset' cannot be combined with profile 'deeptest-code'",
        ),
    ],
)
def test_key_that_nothing_uses_is_refused(unused: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        deeptest(FakeSource(2), network(), **unused)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"search": "guidd"}, "unknown search 'guidd'; did you mean 'guided'"),
        ({"changes": "simpel"}, "did you mean 'simple'"),
        ({"against": "lable"}, "did you mean 'label'"),
        ({"profile": "deeptest-2019"}, "did you mean 'deeptest-2018'"),
        ({"factor": 0}, "'factor' must be a number above 0"),
        ({"threshold": 1.0}, "at least 0 and below 1"),
    ],
)
def test_misspelt_words_are_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises((InputError, ValueError), match=why):
        deeptest(FakeSource(2), network(), **wrong)


FILE = """
method = "deeptest"
search = "guided"
tries = 4
seed = 9
[source]
use = "world"
drives = 2
[system]
use = "dave-orig"
"""


def test_campaign_file_names_the_method(tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text(FILE)
    made = load_campaign(str(path)).campaign
    assert (made.method, made.seed, made.search) == ("deeptest", 9, Greedy(tries=4))
    again = Builder("campaign.json:").campaign(describe(made, Path("/")))
    assert isinstance(again, Campaign)
    assert again == made


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("deeptest", "deptest", "unknown method 'deptest'; did you mean 'deeptest'"),
        ("tries = 4", "trys = 4", "unknown key 'trys'; did you mean 'tries'"),
        ('[system]\nuse = "dave-orig"\n', "", r"there is no \[system\] table; method = 'deeptest' needs"),
        ("tries = 4", "tries = 0", "'tries' must be a whole number of at least 1"),
        ("tries = 4", 'tries = "four"', "tries: expected a whole number"),
    ],
)
def test_bad_campaign_file_says_where(tmp_path: Path, old: str, new: str, why: str) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(SpecError, match=why):
        load_campaign(str(path))
