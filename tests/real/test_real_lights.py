"""Three hundred real frames with traffic lights, as a COCO file."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from swerve.core.values import Boxes2D, Image, find
from swerve.sources.coco import Coco


@pytest.fixture(scope="module")
def lights(data: Path) -> Coco:
    return Coco(data / "lights" / "china-300")


def label(source: Coco, key: str) -> Boxes2D:
    entry = source.entries[key]
    found = find(source.truth(entry, source.inputs(entry)), Boxes2D.slot)
    assert isinstance(found, Boxes2D)
    return found


def test_every_light_is_read(lights: Coco) -> None:
    labels = [label(lights, key) for key in lights.keys()]
    assert len(labels) == 300
    assert all(one.size == (1280, 720) for one in labels)
    assert Counter(kind for one in labels for kind in one.kinds) == {"red": 528, "yellow": 80, "green": 385}
    assert all(one.care is not None and one.care.all() for one in labels)


def test_first_case_as_in_the_file(lights: Coco) -> None:
    case = lights["00008.jpg"]
    assert isinstance(case.inputs["camera"], Image)
    assert case.inputs["camera"].size == (1280, 720)
    first = label(lights, "00008.jpg")
    assert first.kinds[0] == "green"
    assert first.xyxy[0].tolist() == pytest.approx([1054.2, 334.8, 1083.4, 384.8])


def test_red_lights_alone(lights: Coco) -> None:
    red = Coco(lights.folder, kinds=("red",), rename={"red": "stop"})
    blank = {"camera": Image(np.zeros((720, 1280, 3), dtype=np.uint8))}
    labels = [red.truth(entry, blank)[0] for entry in red.entries.values()]
    assert Counter(kind for one in labels if isinstance(one, Boxes2D) for kind in one.kinds) == {"stop": 528}
