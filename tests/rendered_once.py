"""Frames of the world that are rendered once for all tests of a run, whichever process of tests asks first."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from swerve.core.case import Case
from swerve.core.lru import SizedLRU
from swerve.core.seeding import digest_of
from swerve.world.source import World

Render = Callable[[World, str], Case]
DRIVES = SizedLRU(8)  # of 30 MB each


def remembered(render: Render, folder: Path) -> Render:
    """What `render` gives, kept in a folder under all that decides a frame: the world's code, its key, size and weather."""

    def case(world: World, key: str) -> Case:
        file = folder / digest_of(world.fingerprint(), key)
        if not file.exists():
            made = render(world, key)
            whole = folder / f"{file.name}.{os.getpid()}"
            whole.write_bytes(_packed((made.inputs["camera"], made.truth)))
            whole.replace(file)  # another process may have made the same
        camera, truth = pickle.loads(file.read_bytes())
        # Made anew, as their arrays are no longer closed to writing.
        return Case(key, {"camera": replace(camera)}, tuple(replace(value) for value in truth), group=world.group(key))

    return case


def _closed(items: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(items)


def _packed(values: Any) -> bytes:
    written = io.BytesIO()
    pickler = pickle.Pickler(written)
    pickler.dispatch_table = {**copyreg.dispatch_table, MappingProxyType: lambda seen: (_closed, (dict(seen),))}
    pickler.dump(values)
    return written.getvalue()
