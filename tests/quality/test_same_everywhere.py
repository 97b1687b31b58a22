"""R9, R11, R15: the same campaign gives the same bytes whenever and wherever it runs; another one never continues it."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import pytest

from swerve.store.fingerprint import differences
from tests.quality.campaigns import KINDS, written
from tests.quality.children import ROOT, Nursery, assert_same, command, content, environment, finish

# R15: the same seed twice.


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_gives_same_bytes(tmp_path: Path, nursery: Nursery, kind: str) -> None:
    file = written(tmp_path / "here" / "campaign.toml", kind, count=4)
    for name in ("first", "second"):
        assert nursery.run(command(file, tmp_path / name, "--workers", "0")).code == 1
    assert_same(content(tmp_path / "second"), content(tmp_path / "first"))


@pytest.mark.parametrize("kind", ["sweep", "climb", "chains"])
def test_another_seed_gives_other_trials(tmp_path: Path, nursery: Nursery, kind: str) -> None:
    for seed in (0, 1):
        file = written(tmp_path / f"here{seed}" / "campaign.toml", kind, seed=seed, count=4)
        assert nursery.run(command(file, tmp_path / f"run{seed}", "--workers", "0")).code == 1
    first, second = (content(tmp_path / f"run{seed}")["journal.jsonl"] for seed in (0, 1))
    assert first != second


# R11: other surroundings.

SET_LOCALE = "import locale; locale.setlocale(locale.LC_ALL, '')"
# A clock that jumps: hours back, then to another century, at every look.
JUMPING = "import time, itertools; moments = itertools.cycle([0.0, 4.1e9, 1e9, -5.0]); time.time = lambda: next(moments)"
ASCII = {"LC_ALL": "POSIX", "LANG": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
PRINTABLE = {"PYTHONIOENCODING": "utf-8"}
SURROUNDINGS: dict[str, dict[str, Any]] = {
    "utc+5:45": {"env": {"TZ": "Asia/Kathmandu"}, "workers": 2},
    "plain C": {"env": {"LC_ALL": "C"}},
    "ascii": {"env": {**ASCII, **PRINTABLE}, "folder": "räder", "workers": 2},
    "turkish": {"locale": "tr_TR"},
    "german": {"locale": "de_DE"},
    "hash seed": {"env": {"PYTHONHASHSEED": "random"}, "workers": 2},
    "elsewhere": {"cwd": True, "workers": 2},
    "spaces": {"folder": "a b  c "},
    "every alphabet": {"folder": "ağ 走る 🚗 \u202eR"},
    "newline": {"folder": "two\nlines\t", "workers": 2},
    "quotes": {"folder": "-'\"$(x)`;*?[a]%s{b}\\"},
    "clock": {"code": JUMPING},
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A campaign file, and the bytes of its run in plain surroundings."""
    place = tmp_path_factory.mktemp("here")
    file = written(place / "campaign.toml", count=4)
    assert finish(command(file, place / "run", "--workers", "0"))[0] == 1
    return file, content(place / "run")


@pytest.fixture(scope="module")
def localised(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """Gives the variables of a locale, made for the tests where the machine has what that takes."""
    place = tmp_path_factory.mktemp("locales")

    @cache
    def variables(name: str) -> dict[str, str]:
        try:
            made = str(place / f"{name}.UTF-8")
            subprocess.run(["localedef", "-i", name, "-f", "UTF-8", made], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip(f"localedef cannot make {name} here")
        return {"LOCPATH": str(place), "LC_ALL": f"{name}.UTF-8", "LANG": f"{name}.UTF-8"}

    return variables


@pytest.mark.parametrize("what", SURROUNDINGS)
def test_surroundings_change_nothing(
    tmp_path: Path, here: tuple[Path, dict[str, bytes]], localised: Callable[[str], dict[str, str]], what: str
) -> None:
    file, wanted = here
    how = SURROUNDINGS[what]
    variables = {**how.get("env", {}), **(localised(how["locale"]) if "locale" in how else {})}
    folder = tmp_path / how.get("folder", "run")
    words = command(file, folder, "--workers", str(how.get("workers", 0)))
    words.remove("--no-report")
    if "cwd" in how:
        words = [os.path.relpath(word, tmp_path) if word.startswith("/") else word for word in words]
    ended = finish(
        words,
        code=SET_LOCALE if "locale" in how else how.get("code", ""),
        env=environment(**variables),
        **({"cwd": tmp_path} if "cwd" in how else {}),
    )
    assert ended == (1, "")
    found = content(folder)
    assert found.pop("report/index.html").endswith(b"</html>")
    assert_same(found, wanted)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1251", "utf-8"])
def test_terminal_without_our_signs_is_no_error(tmp_path: Path, here: tuple[Path, dict[str, bytes]], encoding: str) -> None:
    """A sign that the terminal cannot show is spelt out; a run is never lost over it."""
    words = command(here[0], tmp_path / "run", "--workers", "0")
    told = environment(**ASCII, PYTHONIOENCODING=encoding)
    process = subprocess.run([sys.executable, "-m", "swerve.cli.main", *words], capture_output=True, env=told, cwd=ROOT)
    assert (process.returncode, process.stderr) == (1, b"")
    said = process.stdout.decode(encoding)
    assert "counter-clockwise" in said
    assert ("°" if encoding != "ascii" else "\\xb0") in said


def test_locale_made_for_the_test_is_in_force(localised: Callable[[str], dict[str, str]]) -> None:
    """Otherwise the two tests above would say nothing."""
    code = f"{SET_LOCALE}; assert locale.localeconv()['decimal_point'] == ',', locale.setlocale(locale.LC_ALL)"
    assert finish(["list", "limits"], code=code, env=environment(**localised("de_DE"))) == (0, "")


# R9: another campaign.


def _leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in items:
        yield from _leaves(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]


def test_every_field_of_an_identity_counts(here: tuple[Path, dict[str, bytes]]) -> None:
    then = json.loads(here[1]["campaign.json"])
    leaves = list(_leaves(then))
    assert len(leaves) > 30
    for path in leaves:
        now = copy.deepcopy(then)
        inner = now
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = "something else"
        assert len(differences(then, now)) == 1, path
        del inner[path[-1]]
        assert differences(then, now), path


def _edited(old: str, new: str) -> Callable[[Path], None]:
    def edit(place: Path) -> None:
        file = place / "campaign.toml"
        text = file.read_text()
        assert text.count(old) == 1
        file.write_text(text.replace(old, new))

    return edit


def _one_pixel(place: Path) -> None:
    path = str(place / "pictures" / "3.png")
    pixels = cv2.imread(path)
    pixels[5, 5, 1] ^= 1
    cv2.imwrite(path, pixels)


def _one_weight(place: Path) -> None:
    path = place / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _swapped(place: Path) -> None:
    file = place / "campaign.toml"
    head, first, rest = file.read_text().split("[[rule]]")
    second, search = rest.split("[search]")
    file.write_text(f"{head}[[rule]]{second}[[rule]]{first}[search]{search}")


@dataclass(frozen=True)
class Edit:
    """Something done to a campaign's files, and the difference that must be named."""

    do: Callable[[Path], Any]
    told: str
    arm: str = ""


def other_version() -> None:
    """As after an update of the package."""
    import swerve

    swerve.__version__ = "9.9.9"


def other_code() -> None:
    """As after an edit of the package."""
    import swerve.store.fingerprint

    swerve.store.fingerprint.package_fingerprint = lambda: "f" * 64  # type: ignore[assignment]


def other_library() -> None:
    """As after an update of a library."""
    import importlib.metadata

    real = importlib.metadata.version
    importlib.metadata.version = lambda name: "0.0.1" if name == "numpy" else real(name)


def nothing(place: Path) -> None:
    """The files stay as they are."""


EDITS = {
    "seed": Edit(_edited("seed = 0", "seed = 1"), "seed: 0 then, 1 now"),
    "batch": Edit(_edited("batch = 4", "batch = 5"), "inference_batch: 4 then, 5 now"),
    "draws": Edit(_edited("per_case = 12", "per_case = 3"), "search.per_case: 12 then, 3 now"),
    "range": Edit(_edited("[10, 60]", "[10, 61]"), "rule[0].change.beta[1]: 60.0 then, 61.0 now"),
    "name": Edit(_edited('"brighter"', '"lighter"'), "rule[0].name: brighter then, lighter now"),
    "reading": Edit(_edited("by = 255.0", "by = 127.5"), "system.read[0].by: 255.0 then, 127.5 now"),
    "gate": Edit(_edited("[search]", '[gate]\nuse = "max-fill"\nshare = 0.5\n[search]'), "gate.share: absent then, 0.5 now"),
    "rule's gate": Edit(
        _edited('name = "brighter"', 'name = "brighter"\ngate = "max-fill"'), "rule[0].gate.share: absent then, 0.5 now"
    ),
    "least shift": Edit(
        _edited('name = "brighter"', 'name = "brighter"\nleast_shift = 2'), "rule[0].least_shift: absent then, 2.0 now"
    ),
    "order": Edit(_swapped, "rule[0].name: brighter then, fog now"),
    "pixel": Edit(_one_pixel, "data differ: 3.png changed"),
    "picture gone": Edit(lambda place: (place / "pictures" / "3.png").unlink(), "data differ: 3.png is gone"),
    "picture more": Edit(
        lambda place: shutil.copy(place / "pictures/3.png", place / "pictures/7.png"), "data differ: 7.png is new"
    ),
    "picture renamed": Edit(
        lambda place: (place / "pictures/3.png").rename(place / "pictures/9.png"), "data differ: 3.png is gone, 9.png is new"
    ),
    "weight": Edit(_one_weight, "weights differ: sha"),
    "version": Edit(nothing, "swerve: 0.1.0 then, 9.9.9 now", "other_version"),
    "code": Edit(nothing, "swerve's code differs: sha", "other_code"),
    "library": Edit(nothing, "libraries.numpy: ", "other_library"),
}


@pytest.fixture(scope="module")
def begun(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign on files, with a run that was cut short."""
    place = tmp_path_factory.mktemp("begun") / "place"
    file = written(place / "campaign.toml", "network", batch=4)
    assert nursery.run(command(file, place / "run", "--workers", "0")).code == 1
    shutil.copytree(place / "run", place.parent / "whole")
    journal = place / "run" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-500])
    (place / "run" / "summary.json").unlink()
    return place


@pytest.mark.parametrize("what", EDITS)
def test_other_campaign_is_refused_by_its_difference(tmp_path: Path, nursery: Nursery, begun: Path, what: str) -> None:
    edit, place = EDITS[what], tmp_path / "place"
    shutil.copytree(begun, place)
    edit.do(place)
    before = content(place / "run")
    words = command(place / "campaign.toml", place / "run", "--workers", "0")
    refused = nursery.run(words, f"{__name__}:{edit.arm}" if edit.arm else "")
    assert refused.code == 2
    assert refused.errors.startswith(f"error: {place / 'run'}: belongs to another campaign: ")
    assert f"  {edit.told}" in refused.errors
    assert_same(content(place / "run"), before)


def _rewritten(place: Path) -> None:
    """The same campaign in other words, and its data copied anew."""
    file = place / "campaign.toml"
    file.write_text("# mine\n" + file.read_text().replace(" = ", "  =  ").replace("[10, 60]", "[\n 10, 60, ]"))
    for picture in (place / "pictures").iterdir():
        os.utime(picture, (1e9, 1e9))


@pytest.mark.parametrize("edit", [nothing, _rewritten])
def test_same_campaign_elsewhere_goes_on(
    tmp_path: Path, nursery: Nursery, begun: Path, edit: Callable[[Path], None]
) -> None:
    place = tmp_path / "moved"
    shutil.copytree(begun, place)
    edit(place)
    ended = nursery.run(command(place / "campaign.toml", place / "run", "--workers", "0"))
    assert ended.code == 1, ended.errors
    found, wanted = (content(folder) for folder in (place / "run", begun.parent / "whole"))
    assert found.pop("origin.json") != wanted.pop("origin.json")
    assert_same(found, wanted)
