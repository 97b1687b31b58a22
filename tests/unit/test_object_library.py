"""Libraries of objects: which objects are cut out, which replacement is nearest, and files that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from swerve.cli.main import main
from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.values import Image, Masks
from swerve.transformations.cutouts import Complete, Cutout, cutout, cutouts
from swerve.transformations.frame_objects import FrameObject, frame_objects
from swerve.transformations.object_library import ALIKE, ObjectLibrary, build_library, open_library

Boxes = dict[int, tuple[int, int, int, int]]


def street(boxes: Boxes, kinds: dict[int, str] | None = None, *, key: str = "a", group: str = "") -> Case:
    """A picture of 640 x 360 with a box for each object; of two in one place the later one is in front."""
    ids = np.zeros((360, 640), np.int32)
    for number, (left, top, right, bottom) in boxes.items():
        ids[top:bottom, left:right] = number
    pixels = rng_for("street", key).integers(0, 256, (360, 640, 3), dtype=np.uint8)
    return Case(key, {"camera": Image(pixels)}, (Masks(ids, kinds or dict.fromkeys(boxes, "car")),), group=group)


def reasons(case: Case, rule: Complete | None = None) -> dict[int, str]:
    return {item.number: cut if isinstance(cut, str) else "cut out" for item, cut in cutouts(case, rule or Complete())}


def test_only_complete_objects_are_cut_out() -> None:
    ids = {1: (100, 100, 200, 160), 2: (300, 100, 315, 160), 3: (0, 200, 60, 250), 4: (400, 100, 480, 160)}
    hidden_by_the_fifth = {5: (440, 120, 500, 200)}
    found = reasons(street({**ids, **hidden_by_the_fifth}))
    assert found == {1: "cut out", 2: "too small", 3: "cut off by the edge", 4: "hidden", 5: "cut out"}


def test_an_object_behind_a_pole_is_in_pieces() -> None:
    case = street({1: (100, 100, 200, 160)})
    masks = case.truth[0]
    assert isinstance(masks, Masks)
    ids = masks.instances.copy()
    ids[:, 140:145] = 0
    broken = Case("a", case.inputs, (Masks(ids, masks.kinds),))
    assert reasons(broken) == {1: "in pieces"}
    ids[100:110, 140:145] = 1  # the pole ends below the roof: one piece, which still fills its hull
    assert reasons(Case("a", case.inputs, (Masks(ids, masks.kinds),))) == {1: "cut out"}
    assert reasons(Case("a", case.inputs, (Masks(ids, masks.kinds),)), Complete(solid=0.99)) == {1: "in pieces"}


def test_limits_of_an_object_count_as_large(tmp_path: Path) -> None:
    small = street({1: (100, 100, 149, 150)})
    assert reasons(small, Complete(least=50)) == {1: "too small"}
    assert reasons(street({1: (100, 100, 150, 150)}), Complete(least=50)) == {1: "cut out"}
    with pytest.raises(InputError, match="no object can be cut out: 1 too small"):
        build_library([small], tmp_path / "x.objects", Complete(least=50))
    assert not (tmp_path / "x.objects").exists()


def test_the_light_is_that_of_the_surroundings() -> None:
    case = street({1: (100, 100, 200, 160), 2: (200, 90, 260, 150)})
    pixels = np.full((360, 640, 3), (90, 100, 110), np.uint8)
    pixels[90:160, 100:260] = 255  # the objects themselves, of which none counts
    seen = frame_objects(case)
    assert cutout(Image(pixels), seen, seen.numbered[1]).light == (90, 100, 110)


def library(tmp_path: Path, *cases: Case, rule: Complete | None = None) -> ObjectLibrary:
    return build_library(cases, tmp_path / "some.objects", rule)[0]


def test_a_library_keeps_pixels_and_masks(tmp_path: Path) -> None:
    one = street({1: (100, 100, 200, 160)}, key="one", group="drive")
    found = library(tmp_path, one, street({7: (50, 60, 90, 100)}, {7: "person"}, key="two"))
    assert [item.name for item in found.items] == ["one:1", "two:7"]
    item, cut = found.named["one:1"], found.cutout("one:1")
    assert (item.kind, item.group, item.span, item.frame, item.pixels) == (
        "car",
        "drive",
        (100, 100, 200, 160),
        (640, 360),
        6000,
    )
    picture = one.inputs["camera"]
    assert isinstance(picture, Image)
    assert np.array_equal(cut.pixels, picture.pixels[100:160, 100:200])
    assert cut.mask.all()
    assert found.summary == "1 car, 1 person"


def test_the_same_source_makes_the_same_file(tmp_path: Path) -> None:
    cases = [street({1: (100, 100, 200, 160)}, key="b"), street({1: (90, 90, 200, 160)}, key="a")]
    build_library(cases, tmp_path / "one")
    build_library(cases, tmp_path / "two")
    assert Asset(tmp_path / "one").sha256 == Asset(tmp_path / "two").sha256


def seen(width: int, height: int, kind: str = "car") -> FrameObject:
    return FrameObject(1, kind, (0, 0, width, height), width * height)


def test_the_nearest_shape_wins_then_the_nearest_area_then_the_name(tmp_path: Path) -> None:
    sizes = {"a": (80, 40), "b": (40, 40), "c": (100, 50), "d": (200, 100), "e": (100, 50)}
    cases = [street({1: (50, 50, 50 + w, 50 + h)}, key=key) for key, (w, h) in sizes.items()]
    found, here = library(tmp_path, *cases), street({}, key="here")
    names = [item.key for item in found.ranked(seen(104, 52), here)]
    assert names == ["c", "e", "a", "d", "b"]
    assert found.nearest(seen(41, 42), here).key == "b"


def test_no_object_of_the_same_picture_or_drive_is_taken(tmp_path: Path) -> None:
    box = {1: (100, 100, 200, 160)}
    found = library(tmp_path, street(box, key="own", group="drive"), street(box, key="other", group="drive"))
    assert [item.name for item in found.ranked(seen(100, 60), street(box, key="own"))] == ["other:1"]
    with pytest.raises(NotApplicable, match="the library has no car from another picture; it has 2 cars"):
        found.ranked(seen(100, 60), street(box, key="third", group="drive"))


def test_a_kind_that_the_library_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match="no bus from another picture; it has 1 car"):
        library(tmp_path, street({1: (100, 100, 200, 160)})).nearest(seen(90, 90, "bus"), street({}, key="z"))


@given(st.integers(20, 300), st.integers(20, 300))
def test_the_first_replacement_is_never_worse_in_shape(width: int, height: int) -> None:
    sizes = [(40, 40), (80, 40), (40, 80), (100, 90)]
    boxes = [street({1: (50, 50, 50 + w, 50 + h)}, key=str(n)) for n, (w, h) in enumerate(sizes)]
    items = [_entry(case, n) for n, case in enumerate(boxes)]
    found = ObjectLibrary(tuple(items), np.zeros(0, np.uint8))
    ranked = found.ranked(seen(width, height), street({}, key="here"))
    apart = [abs(np.log(item.aspect) - np.log(width / height)) for item in ranked]
    assert apart[0] <= min(apart) + ALIKE


def _entry(case: Case, number: int) -> Any:
    from swerve.transformations.object_library import LibraryObject

    item = frame_objects(case).numbered[1]
    return LibraryObject(f"{number}", "car", case.key, "", item.span, (640, 360), item.pixels, (9.0, 9.0, 9.0), (0, 1, 2))


def rewritten(path: Path, edit: Callable[[dict[str, Any]], object]) -> Asset:
    arrays = load(path.read_bytes())
    index = json.loads(arrays["index"].tobytes())
    edit(index["objects"][0])
    arrays["index"] = np.frombuffer(json.dumps(index).encode(), np.uint8)
    path.write_bytes(save(arrays))
    return Asset(path)


@pytest.mark.parametrize(
    "edit",
    [
        lambda row: row.update(at=[0, 5, 10**9]),
        lambda row: row.update(at=[5, 5, 6]),
        lambda row: row.update(span=[10, 0, 5, 9]),
        lambda row: row.update(span=[0, 0, 10**6, 10**6]),
        lambda row: row.update(span=[0.5, 0, 5, 9]),
        lambda row: row.update(light=[float("nan"), 9, 9]),
        lambda row: row.update(light=[0, 9, 9]),
        lambda row: row.update(name=7),
        lambda row: row.pop("kind"),
    ],
)
def test_impossible_entries_are_refused(tmp_path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    library(tmp_path, street({1: (100, 100, 200, 160)}))
    with pytest.raises(InputError, match="is no library of objects"):
        open_library(rewritten(tmp_path / "some.objects", edit))


def test_a_picture_of_another_size_is_refused(tmp_path: Path) -> None:
    library(tmp_path, street({1: (100, 100, 200, 160)}))
    file = rewritten(tmp_path / "some.objects", lambda row: row.update(span=[100, 100, 200, 161]))
    with pytest.raises(InputError, match="another size"):
        open_library(file).cutout("a:1")


@pytest.mark.parametrize("content", [b"", b"not a library", save({"index": np.zeros(3, np.uint8)})])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(InputError, match="is no library of objects"):
        open_library(Asset(tmp_path / "other"))


def test_the_verb_builds_and_shows_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text('[source]\nuse = "world"\ndrives = 4\nwidth = 320\nheight = 180\nlabels = ["masks"]\n')
    assert main(["objects", "build", "--source", str(file), "--out", str(tmp_path / "world.objects"), "--cases", "4"]) == 0
    assert main(["objects", "show", str(tmp_path / "world.objects"), "--out", str(tmp_path / "sheet.png")]) == 0
    shown = capsys.readouterr().out
    made = open_library(Asset(tmp_path / "world.objects"))
    assert f"{len(made.items)} objects in" in shown
    assert made.summary in shown
    for item in made.items:
        cut = made.cutout(item.name)
        assert isinstance(cut, Cutout)
        assert cut.mask.sum() == item.pixels


def test_a_source_without_masks_is_refused_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from swerve.store.files import png_bytes

    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(png_bytes(np.zeros((40, 40, 3), np.uint8)))
    code = main(["objects", "build", "--source", f"folder={tmp_path / 'pictures'}", "--out", str(tmp_path / "x")])
    assert code == 2
    assert "no instance masks" in capsys.readouterr().err
