"""The cache of rendered data: entries are written whole, in folders that state their key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from swerve.core.errors import InputError
from swerve.execution.engine import NoProgress
from swerve.train.card import read_cards, write_card
from swerve.train.rendered import RenderedCache, in_processes

KEY = {"kind": "squares", "seed": 3, "world": 1}


def squares(entry: int) -> dict[str, np.ndarray]:
    return {"numbers": np.arange(4) ** 2 + entry}


def fill(cache: RenderedCache, count: int = 3) -> None:
    cache.fill(range(count), squares, progress=NoProgress(), stage="squares")


def test_folder_states_its_key(tmp_path: Path) -> None:
    cache = RenderedCache(tmp_path, "squares", KEY)
    fill(cache)
    assert cache.folder.name.startswith("squares-")
    assert json.loads((cache.folder / "key.json").read_text()) == KEY
    assert cache.load(2, ["numbers"])[0].tolist() == [2, 3, 6, 11]
    assert RenderedCache(tmp_path, "squares", {**KEY, "seed": 4}).folder != cache.folder


def test_damaged_entry_is_named(tmp_path: Path) -> None:
    cache = RenderedCache(tmp_path, "squares", KEY)
    fill(cache)
    cache.file(1).write_bytes(cache.file(1).read_bytes()[:100])
    with pytest.raises(InputError, match=r"1\.npz: damaged .*; delete it to render it again"):
        cache.load(1, ["numbers"])


def test_results_come_in_order() -> None:
    assert list(in_processes(abs, [-3, -1, -2], 2)) == list(in_processes(abs, [-3, -1, -2], 1)) == [3, 1, 2]


def test_kill_leaves_no_half_entry(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; import numpy as np; from swerve.train.rendered import RenderedCache;"
        "from swerve.execution.engine import NoProgress\n"
        "def render(entry):\n"
        "    print(entry, flush=True)\n"
        "    return {'numbers': np.zeros(200_000) + entry}\n"
        f"cache = RenderedCache(Path(sys.argv[1]), 'zeros', {KEY!r})\n"
        "cache.fill(range(10_000), render, progress=NoProgress(), stage='')\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "3\n":
            pass
        os.kill(process.pid, signal.SIGKILL)
    cache = RenderedCache(tmp_path, "zeros", KEY)
    entries = sorted(int(file.stem) for file in cache.folder.glob("*.npz"))
    assert len(entries) >= 3
    for entry in entries:
        assert cache.load(entry, ["numbers"])[0].tolist() == [entry] * 200_000


def test_cards_are_read_in_the_given_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_card(tmp_path, {"name": name, "score": 1}, f"# {name}\n")
    assert list(read_cards(tmp_path, ("a", "missing", "b"))) == ["a", "b"]
    assert (tmp_path / "a.md").read_text() == "# a\n"
