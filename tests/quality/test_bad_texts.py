"""R41: damaged and hostile texts give plain data or one line with a place; nothing in them is ever run.

10,000 mutated texts with SWERVE_SOAK=1, a few hundred otherwise.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pytest
import yaml

from swerve.core.errors import LONGEST_MESSAGE, UnreadableCase
from swerve.core.seeding import rng_for
from swerve.sources.root import Root
from swerve.sources.texts import csv_file, json_file, xml_file, yaml_file

SOAK = os.environ.get("SWERVE_SOAK") == "1"
TEXTS = 10_000 if SOAK else 800
SECONDS = 5.0
PLACE = re.compile(r"^f, line [1-9]\d*, column [1-9]\d*: .")

# Each would make a file called `canary` if it were believed.
RUN = (
    '!!python/object/apply:os.system ["touch canary"]',
    '!!python/object/apply:subprocess.check_output [["touch", "canary"]]',
    "!!python/object/apply:builtins.open ['canary', 'w']",
    "!!python/object/new:os.system [touch canary]",
    "!!python/object/new:type {args: ['x', [], {'y': !!python/name:exec }], state: {}}",
    "- !!python/object/apply:builtins.exec [\"open('canary', 'w')\"]",
    "a: &x !!python/module:os\nb: *x",
    "!!map {? !!str k : !!python/object/apply:os.mknod [canary]}",
)
SEEDS = (
    '{"images": [{"id": 1, "file": "a.png"}], "boxes": [{"xy": [1.5, -2e3], "ok": true, "x": null}], "t": "\\ud83d\\ude00"}',
    '[[[[1, 2], {"a": {"b": {"c": []}}}]], "é", "\\u00e9\\n", NaN]',
    "- path: ./rgb/1.png\n  boxes:\n  - {label: Green, x_max: 10.5, hid: false}\n  - &b {label: 'off', x_max: 0x1f}\n- *b\n",
    "names:\n  0: car\n  1: person\nval: |\n  many\n  lines\nmore: >-\n  folded\ntrain: [a, b, 'c d']\n# note\n",
    'index,file,angle\n0,center/1.jpg,-0.25\n1,"quoted, name.jpg",1e-3\n2,"two\nlines",0\n',
    "Filename;Annotation tag;x\na.png;go;1,5\nb.png;stop;2\n",
    '<?xml version="1.0" encoding="utf-8"?>\n<annotation><object id="1"><name>car &amp; van</name></object></annotation>',
    '<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z SYSTEM "file:///etc/passwd">]>\n<a>&x;&z;</a>',
    *RUN,
)
READERS: tuple[Callable[[Root, str], Any], ...] = (
    json_file,
    yaml_file,
    xml_file,
    lambda root, name: csv_file(root, name, columns=["file"]),
    lambda root, name: csv_file(root, name, columns=[], separator=";"),
    lambda root, name: csv_file(root, name, separator=" ,", unnamed=lambda first: [str(at) for at in range(len(first))]),
)
WORDS = (
    b"[",
    b"{",
    b"]",
    b"}",
    b'"',
    b"'",
    b":",
    b",",
    b"\n",
    b"\r",
    b"\0",
    b"\t",
    b"<",
    b">",
    b"&a",
    b"*a",
    b"!!python/name:os.system ",
)
WORDS += (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"\\ud800",
    b"<<: ",
    b"---\n",
    b"\xff",
    b"\xef\xbb\xbf",
    b"&lt;",
    b"<!DOCTYPE a>",
    b"\xe2\x80\xa8",
)


def mutated(rng: np.random.Generator) -> bytes:
    data = bytearray(SEEDS[rng.integers(len(SEEDS))].encode())
    for _ in range(rng.integers(1, 6)):
        at, way = int(rng.integers(len(data) + 1)), rng.integers(5)
        if way == 0 and data:
            data[at % len(data)] ^= 1 << int(rng.integers(8))
        elif way == 1:
            del data[at : at + int(rng.integers(1, 20))]
        elif way == 2:
            data[at:at] = WORDS[rng.integers(len(WORDS))] * int(rng.choice([1, 2, 150]))
        elif way == 3:
            other = SEEDS[rng.integers(len(SEEDS))].encode()
            data[at:at] = other[int(rng.integers(len(other))) :]
        else:
            data[at:at] = data[int(rng.integers(len(data) + 1)) : at]
    return bytes(data)


def is_plain(data: Any) -> bool:
    """Whether data is made of nothing but lists, tables, texts and finite numbers."""
    if isinstance(data, float):
        return math.isfinite(data)
    if type(data) is list:
        return all(map(is_plain, data))
    if type(data) is dict:
        return all(map(is_plain, data)) and all(map(is_plain, data.values()))
    return data is None or type(data) in (str, int, bool, Element)


def outcome(read: Callable[[Root, str], Any], root: Root) -> str:
    begin, said, found = time.process_time(), "", None
    try:
        found = read(root, "f")
    except UnreadableCase as error:
        said = str(error)
    assert time.process_time() - begin < SECONDS
    if said:
        assert PLACE.match(said), said
        assert len(said) <= LONGEST_MESSAGE
        return "refused"
    assert is_plain(found)
    return "read"


def test_damaged_texts_are_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng, root, outcomes = rng_for("texts"), Root(tmp_path), []
    for number in range(TEXTS):
        (tmp_path / "f").write_bytes(mutated(rng))
        outcomes.append(outcome(READERS[number % len(READERS)], root))
    assert {path.name for path in tmp_path.iterdir()} == {"f"}  # no canary
    assert outcomes.count("refused") > TEXTS / 4
    assert outcomes.count("read") > TEXTS / 50


@pytest.mark.parametrize("payload", RUN)
def test_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_text(payload)
    assert outcome(yaml_file, Root(tmp_path)) == "refused"
    assert not (tmp_path / "canary").exists()


def test_canary_would_sing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the payloads are worth: a loader that believes them makes the file."""
    monkeypatch.chdir(tmp_path)
    yaml.load(RUN[0], Loader=yaml.UnsafeLoader)
    assert (tmp_path / "canary").exists()


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BOMBS = {
    "yaml-aliases": (
        "yaml_file",
        lambda: "l0: &l0 [x]\n" + "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 50)}]" for n in range(1, 40)),
    ),
    "yaml-nesting": ("yaml_file", lambda: "[" * 1_000_000),
    "yaml-tables": ("yaml_file", lambda: "? " * 200_000),
    "json-nesting": ("json_file", lambda: "[" * 10_000_000),
    "json-objects": ("json_file", lambda: '{"a":' * 2_000_000),
    "json-digits": ("json_file", lambda: "9" * 5_000_000),
    "xml-entities": ("xml_file", lambda: f'<!DOCTYPE l [<!ENTITY l0 "ha">{LAUGHS}]><l>&l9;</l>'),
    "xml-nesting": ("xml_file", lambda: "<a>" * 1_000_000),
}
MEASURE = """
import pathlib, sys, time
from swerve.core.errors import UnreadableCase
from swerve.sources import texts
from swerve.sources.root import Root
# Not from getrusage: there a child starts at the peak of its parent.
peak = lambda: int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before, begin = peak(), time.process_time()
try:
    getattr(texts, sys.argv[1])(Root(pathlib.Path(sys.argv[2])), "f")
    said = "it was read"
except UnreadableCase as error:
    said = str(error)
print(peak() - before, time.process_time() - begin, said, sep="\\n")
"""


def measured(reader: str, folder: Path) -> tuple[int, float, str]:
    done = subprocess.run([sys.executable, "-c", MEASURE, reader, folder], capture_output=True, text=True, check=True)
    kilobytes, seconds, said = done.stdout.strip().split("\n")
    return int(kilobytes), float(seconds), said


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_do_not_go_off(tmp_path: Path, name: str) -> None:
    reader, text = BOMBS[name]
    (tmp_path / "f").write_text(text())
    kilobytes, seconds, said = measured(reader, tmp_path)
    assert PLACE.match(said)
    assert kilobytes < 150_000
    assert seconds < SECONDS


def test_long_text_is_just_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('["' + "x" * 100_000_000 + '"]')
    kilobytes, seconds, said = measured("json_file", tmp_path)
    assert said == "it was read"
    assert kilobytes < 1_000_000
    assert seconds < SECONDS
