"""Frames of the embedded world as a Udacity set in a folder, rendered once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Array, Image, Steering, find
from swerve.execution.engine import Progress
from swerve.sources.export import export
from swerve.sources.udacity import Udacity
from swerve.store.files import json_bytes, make_folder, write_whole
from swerve.train.rendered import in_processes, read_key
from swerve.world.source import World

PIECE = 12  # frames rendered at a time
NUMBERS = ("drives", "frames", "split", "seed")  # that identify the frames of a world


def rendered_frames(folder: Path, world: World, *, workers: int = 0, progress: Progress) -> Udacity:
    """The frames of `world` in `folder`, a folder per drive with its `steering.csv`; rendered if they are not there.

    A file of the folder's name with `.json` states the key of the frames: those of another world are refused.
    """
    if folder.exists():
        _check_key(folder, world)
    else:
        make_folder(folder.parent, parents=True)
        write_whole(_key_file(folder), json_bytes(_key(world)))  # before the frames, which are never there without it
        progress.begin(f"rendering {folder.name}", len(world.keys()))
        export(_by_drive(world, workers), folder, "udacity", watch=lambda: progress.advance(1, 0))
    return Udacity(folder.absolute())


def _key_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _key(world: World) -> dict[str, object]:
    """What distinguishes the frames of a world from those of any other."""
    numbers = {name: getattr(world, name) for name in NUMBERS}
    return {**numbers, "fingerprint": world.fingerprint()}


def _check_key(folder: Path, world: World) -> None:
    """Refuse frames of another world: the runs of this experiment have used them."""
    then = read_key(_key_file(folder))
    if then != _key(world):
        raise InputError(
            f"{folder}: contains other frames than this experiment needs ({_difference(then, world)}); choose another "
            "--into, or the level and seed that it was started with"
        )


def _difference(then: Mapping[str, object] | None, world: World) -> str:
    if then is None:
        return "their key is missing"
    now = _key(world)
    numbers = [f"{name} {then.get(name)} instead of {now[name]}" for name in NUMBERS if then.get(name) != now[name]]
    return ", ".join(numbers) or "the world's code differs"


def _by_drive(world: World, workers: int) -> Mapping[str, Iterable[Case]]:
    keys = list(world.keys())
    pieces = [keys[start : start + PIECE] for start in range(0, len(keys), PIECE)]
    frames = (one for piece in in_processes(partial(_frames, world), pieces, workers) for one in piece)
    cases = (
        Case(key, {"camera": Image(pixels)}, (Steering(degrees),), world.group(key))
        for key, (pixels, degrees) in zip(keys, frames, strict=True)
    )
    return {f"{world.split}-{number:04}": islice(cases, world.frames) for number in range(world.drives)}


def _frames(world: World, keys: Sequence[str]) -> list[tuple[Array, float]]:
    """Pixels and label of some frames, which is all that a worker sends back."""
    found = []
    for case in (world[key] for key in keys):
        image, label = case.inputs["camera"], find(case.truth, Steering.slot)
        assert isinstance(image, Image)
        assert isinstance(label, Steering)
        found.append((image.pixels, label.degrees))
    return found
