"""Usable pictures of a source: in colour, not twice, with a box to find, and split by drives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.config.toml import load_campaign
from swerve.core.case import Case
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Boxes2D, Image
from swerve.sources.screened import NO_COLOUR, NOTHING, REPEATED, SIDES, UNREADABLE, Screened, dealt, is_grey
from tests.fixture_painted_lights import PaintedSource, painted


class Shelf(PaintedSource):
    """Painted pictures, some of which are of no use."""

    def __init__(self) -> None:
        super().__init__(24)
        names = list(self.cases)
        first = self.cases[names[0]]
        image = first.inputs["camera"]
        assert isinstance(image, Image)
        grey = np.repeat(image.pixels.mean(axis=2, keepdims=True).astype(np.uint8), 3, axis=2)
        truth = first.truth[0]
        assert isinstance(truth, Boxes2D)
        hidden = Boxes2D(truth.xyxy, truth.kinds, care=np.zeros(2, bool))
        self._put("painted/1#grey", Image(grey), (truth,))
        self._put("painted/2#again", image, (truth,))
        self._put("painted/3#nothing", painted(90).inputs["camera"], (Boxes2D(np.zeros((0, 4)), ()),))
        self._put("painted/3#hidden", painted(91).inputs["camera"], (hidden,))
        self._put("painted/4#no label", painted(92).inputs["camera"], ())
        self._put("painted/5#broken", image, ())

    def _put(self, key: str, image: object, truth: tuple) -> None:
        assert isinstance(image, Image)
        self.cases[key] = Case(key, {"camera": image}, truth, group=key.partition("#")[0])

    def __getitem__(self, key: str) -> Case:
        if key.endswith("broken"):
            raise UnreadableCase("no such file")
        return super().__getitem__(key)

    def fingerprint(self) -> str:
        return "shelf"


def test_what_is_left_out_is_counted():
    found = Screened(Shelf())
    assert dict(found.left_out) == {
        "painted/1#grey": NO_COLOUR,
        "painted/2#again": REPEATED,
        "painted/3#nothing": NOTHING,
        "painted/3#hidden": NOTHING,
        "painted/4#no label": NOTHING,
        "painted/5#broken": UNREADABLE,
    }
    counts = found.counts()
    assert {name: counts[name] for name in ("all", UNREADABLE, NO_COLOUR, REPEATED, NOTHING)} == {
        "all": 30,
        UNREADABLE: 1,
        NO_COLOUR: 1,
        REPEATED: 1,
        NOTHING: 3,
    }
    assert sum(counts[side] for side in SIDES) == 24 == len(found.keys())


def test_sides_share_no_drive_and_miss_no_case():
    sides = {side: Screened(Shelf(), side=side) for side in SIDES}
    keys = {side: set(source.keys()) for side, source in sides.items()}
    assert set.union(*keys.values()) == set(Screened(Shelf()).keys())
    drives = {side: {sides[side].group(key) for key in of} for side, of in keys.items()}
    assert not drives["train"] & drives["val"]
    assert not drives["train"] & drives["test"]
    assert not drives["val"] & drives["test"]
    assert [len(keys[side]) for side in SIDES] == [16, 4, 4]  # 4:1:1 of 24, by drives of two


def test_only_a_side_s_cases_are_read():
    side = Screened(Shelf(), side="test")
    key = side.keys()[0]
    assert side[key].key == key
    other = next(key for key in Screened(Shelf(), side="train").keys())
    with pytest.raises(KeyError):
        side[other]
    with pytest.raises(KeyError):
        Screened(Shelf())["painted/1#grey"]


def test_what_decides_the_cases_is_in_the_fingerprint():
    sources = [
        Screened(Shelf()),
        Screened(Shelf(), side="val"),
        Screened(Shelf(), side="val", seed=1),
        Screened(Shelf(), side="val", shares=(3, 1, 1)),
        Screened(Shelf(), grey=3),
    ]
    assert len({source.fingerprint() for source in sources}) == len(sources)
    assert Screened(Shelf()).fingerprint() == sources[0].fingerprint()


def test_another_seed_splits_otherwise():
    assert len({tuple(Screened(Shelf(), side="test", seed=seed).keys()) for seed in range(5)}) > 1


def test_a_dark_picture_with_a_lamp_has_colour():
    night = np.zeros((100, 100, 3), np.uint8)
    assert is_grey(night, 8)
    night[50, 50] = (200, 20, 10)
    assert not is_grey(night, 8)


def test_rounding_of_jpeg_is_no_colour():
    pixels = np.random.default_rng(0).integers(0, 248, (50, 50, 1), np.uint8)
    assert is_grey(np.concatenate([pixels, pixels + 3, pixels + 8], axis=2).astype(np.uint8), 8)
    assert not is_grey(np.concatenate([pixels, pixels, pixels // 2], axis=2).astype(np.uint8), 8)


@given(st.lists(st.integers(1, 50), min_size=3, max_size=40), st.integers(0, 3))
def test_every_side_gets_a_drive(sizes, seed):
    groups = {f"drive {number}": size for number, size in enumerate(sizes)}
    found = dealt(groups, (4, 1, 1), seed)
    assert found.keys() == groups.keys()
    assert set(found.values()) == set(SIDES)
    assert found == dealt(dict(reversed(groups.items())), (4, 1, 1), seed)


def test_many_drives_come_close_to_the_shares():
    rng = np.random.default_rng(0)
    groups = {str(number): int(size) for number, size in enumerate(rng.integers(1, 30, 200))}
    found = dealt(groups, (4, 1, 1), 0)
    counts = Counter({side: sum(size for key, size in groups.items() if found[key] == side) for side in SIDES})
    total = sum(groups.values())
    assert abs(counts["train"] / total - 4 / 6) < 0.01
    assert abs(counts["val"] / total - 1 / 6) < 0.01


def test_two_drives_cannot_be_split():
    source = PaintedSource(4)  # two drives
    assert len(Screened(source).keys()) == 4
    assert Screened(source).counts()["train"] == 0
    with pytest.raises(InputError, match=r"needs at least 3 drives with usable cases, got 2; set side = 'all'"):
        Screened(source, side="train").keys()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"side": "tests"}, "tests"),
        ({"shares": (4, 1)}, "'shares' must be three whole numbers"),
        ({"shares": (4, 0, 1)}, "'shares' must be three whole numbers"),
        ({"shares": (4, 1.5, 1)}, "'shares' must be three whole numbers"),
    ],
)
def test_wrong_numbers_are_refused(given, message):
    with pytest.raises(Exception, match=message):
        Screened(Shelf(), **given)


def test_a_case_without_a_picture_is_refused():
    source = PaintedSource(1)
    key = source.keys()[0]
    source.cases[key] = Case(key, {}, ())
    with pytest.raises(InputError, match="'screened' looks at an image 'camera', got only nothing"):
        Screened(source).keys()


def test_a_campaign_uses_it(tmp_path: Path):
    (tmp_path / "own.py").write_text(
        "from tests.fixture_painted_lights import PaintedSource\n"
        "from swerve.core.values import Boxes2D\n"
        "import numpy as np\n"
        "def blind(case):\n    return Boxes2D(np.zeros((0, 4)), ())\n"
        "def painted():\n    return PaintedSource(12)\n"
    )
    campaign = tmp_path / "lights.toml"
    campaign.write_text(
        'seed = 1\n[source]\nuse = "screened"\nside = "val"\nsource = { use = "own.py:painted" }\n'
        '[system]\nuse = "function"\nfunction = "own.py:blind"\n'
        '[[rule]]\nname = "dark"\nchange = { use = "brighten", beta = -40 }\nexpect = "right-boxes"\n'
        '[search]\nuse = "sweep"\nper_case = 1\n'
    )
    source = load_campaign(str(campaign), [tmp_path / "own.py"]).campaign.source
    assert isinstance(source, Screened)
    assert len(source.keys()) == 2
