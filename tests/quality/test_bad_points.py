"""R49, R50: whatever is done to a point cloud's file, it is read soundly or gets its line; nothing is cut in silence.

10,000 mutated files and 10,000,000 points with SWERVE_SOAK=1, a small share of them otherwise. What memory it takes is
measured in a process of its own.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from swerve.core.errors import UnreadableCase
from swerve.core.seeding import rng_for
from swerve.sources.cloud_files import Cloud, read_cloud
from swerve.sources.root import Root
from tests.fixture_points import XYZI, npy, pcd, pcd_header, ply, sweep

SOAK = os.environ.get("SWERVE_SOAK") == "1"
MUTATED = 10_000 if SOAK else 600
POINTS = 10_000_000 if SOAK else 500_000
LONGEST, MOST_MEMORY, BOMB_MEMORY = 5.0, 1_000_000_000, 50_000_000  # seconds, bytes, bytes
FACES = b"element face 2\nproperty list uchar int vertex_indices\nend_header"
NUMBERS = (b"0", b"-1", b"1", b"99999999", b"2147483648", b"4294967297", b"99999999999999999999", b"nan", b"1e9", b"x", b"")

Read = Callable[[Root, str], Cloud]


def samples() -> dict[str, bytes]:
    """A sound file of every kind, by a name with its suffix."""
    table = sweep(60)
    mixed = (("t", "F8"), *XYZI[:3], ("_", "U1", 3), ("intensity", "U1"))
    bytes_too = np.column_stack([np.arange(60), table[:, :3], np.arange(60), np.arange(60)])
    made = {"a.bin": table.tobytes(), "b.npy": npy(table), "c.npy": npy(np.asfortranarray(table.astype(">f8")))}
    for form in ("ascii", "binary", "binary_compressed"):
        made |= {f"{form}.pcd": pcd(table, form), f"{form}-mixed.pcd": pcd(bytes_too, form, mixed)}
    for form in ("ascii", "binary_little_endian", "binary_big_endian"):
        made[f"{form}.ply"] = ply(table, form)
    made["faces.ply"] = ply(table).replace(b"end_header", FACES) + 2 * (b"\3" + bytes(12))
    return made


def mutated(data: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    """`data` with up to three things done to it, more often than not to its header."""
    for _ in range(int(rng.integers(1, 4))):
        start = int(rng.integers(0, (len(data) if rng.random() < 0.4 else min(len(data), 260)) + 1))
        end = start + int(rng.integers(0, 30))
        head, piece, tail = data[:start], data[start:end], data[end:]
        other = others[rng.integers(len(others))]
        splice = other[(place := int(rng.integers(0, len(other)))) : place + 30]
        ways = (
            head + flipped(piece, rng) + tail,
            head,
            head + tail,
            head + rng.bytes(len(piece)) + tail,
            head + splice + piece + tail,
            head + 3 * piece + tail,
            renumbered(data, rng),
        )
        data = ways[rng.integers(len(ways))]
    return data


def flipped(data: bytes, rng: np.random.Generator) -> bytes:
    """One bit the other way round."""
    if not data:
        return data
    changed = bytearray(data)
    changed[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def renumbered(data: bytes, rng: np.random.Generator) -> bytes:
    """Another number in the place of one of a header's words."""
    words = data[:400].split(b" ")
    words[rng.integers(len(words))] = NUMBERS[rng.integers(len(NUMBERS))]
    return b" ".join(words) + data[400:]


def attempts(folder: Path, count: int, read: Read = read_cloud) -> Iterator[str]:
    """What comes of each mutated file: `read`, `refused`, or what went wrong."""
    known = samples()
    names, root = list(known), Root(folder)
    for number in range(count):
        rng = rng_for("mutated points", number)
        name = names[number % len(names)]
        (folder / name).write_bytes(data := mutated(known[name], list(known.values()), rng))
        started = time.process_time()
        said = outcome(read, root, name, len(data))
        taken = time.process_time() - started
        yield said if taken < LONGEST else f"{name} {number}: {taken:.1f} s"


def outcome(read: Read, root: Root, name: str, size: int) -> str:
    try:
        found = read(root, name)
    except UnreadableCase as error:
        line = str(error)
        return "refused" if line.startswith(f"{name}: ") and line.isprintable() and len(line) <= 300 else f"said {line!r}"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    xyzi = found.points.xyzi
    sound = len(xyzi) > 0 and found.dropped >= 0 and np.isfinite(xyzi).all() and len(xyzi) + found.dropped <= 88 * size
    return "read" if sound else f"{name}: unsound"


def peak() -> int:
    """Bytes of memory that this process held at most."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def bombs() -> dict[str, bytes]:
    """Small files that promise a lot."""
    wide = {"WIDTH": "100000", "HEIGHT": "100000", "POINTS": "10000000000"}
    many = npy(sweep(2)).replace(b"(2, 4), }            ", b"(20000000, 4), }     ")
    return {
        "wide.pcd": pcd(sweep(5), **wide),
        "wide-text.pcd": pcd(sweep(5), "ascii", **wide),
        "text.pcd": pcd_header(20_000_000, "ascii") + b"1 2 3 4\n" * 5,
        "binary.pcd": pcd_header(20_000_000, "binary") + bytes(500),
        "squeezed.pcd": pcd_header(20_000_000, "binary_compressed") + struct.pack("<II", 4, 320_000_000) + bytes(4),
        "fields.pcd": pcd_header(2, "binary", (*XYZI, ("vfh", "F8", 20_000_000))) + bytes(500),
        "many.ply": ply(sweep(5)).replace(b"vertex 5", b"vertex 20000000"),
        "text.ply": ply(sweep(5), "ascii").replace(b"vertex 5", b"vertex 20000000"),
        "before.ply": ply(sweep(5)).replace(
            b"element vertex", b"element far 999999999999999\nproperty int a\nelement vertex"
        ),
        "many.npy": many,
        "line.pcd": pcd_header(1, "ascii") + b"1" * 5_000_000,
        "header.ply": b"ply\n" + b"comment " * 500_000,
    }


def measured(folder: Path, what: str) -> dict[str, object]:
    """What this module counts in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", __spec__.name, str(folder), what],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return dict(json.loads(run.stdout))


def test_mutated_files_are_harmless(tmp_path: Path) -> None:
    found = measured(tmp_path, "mutated")
    said = dict(found["said"])  # type: ignore[call-overload]
    assert set(said) == {"read", "refused"}
    assert said["read"] + said["refused"] == MUTATED
    assert said["read"] > MUTATED / 50  # both happen, or the mutations prove nothing
    assert said["refused"] > MUTATED / 2
    assert found["peak"] < MOST_MEMORY  # type: ignore[operator]


@pytest.mark.parametrize("fault", [struct.error("planted"), ValueError("planted"), MemoryError(), UnreadableCase("no name")])
def test_planted_faults_are_seen(tmp_path: Path, fault: Exception) -> None:
    def planted(root: Root, name: str) -> Cloud:
        raise fault

    assert not {"read", "refused"} & set(attempts(tmp_path, 5, planted))


def test_planted_nan_is_seen(tmp_path: Path) -> None:
    class Unsound:
        class points:  # noqa: N801
            xyzi = np.full((3, 4), np.nan)

        dropped = 0

    assert {said.split(": ")[1] for said in attempts(tmp_path, 5, lambda root, name: Unsound())} == {"unsound"}  # type: ignore[arg-type, return-value]


def test_bombs_are_refused_from_the_header(tmp_path: Path) -> None:
    found = measured(tmp_path, "bombs")
    assert found["said"] == {"refused": len(bombs())}
    assert found["slowest"] < 0.5  # type: ignore[operator]
    assert found["grown"] < BOMB_MEMORY  # type: ignore[operator]


def test_counts_are_exact(tmp_path: Path) -> None:
    """Every thousandth point is not finite: so many are dropped, all others stay as they were."""
    table = np.tile(sweep(1000), (POINTS // 1000, 1))
    table[::1000, 1] = np.nan
    (tmp_path / "many.bin").write_bytes(table.tobytes())
    found = read_cloud(Root(tmp_path), "many.bin")
    assert found.dropped == POINTS // 1000
    assert len(found.points.xyzi) == POINTS - found.dropped
    assert np.array_equal(found.points.xyzi.reshape(-1, 999, 4)[-1], sweep(1000)[1:])


def main(folder: Path, what: str) -> None:
    if what == "mutated":
        print(json.dumps({"said": Counter(attempts(folder, MUTATED)), "peak": peak()}))
        return
    for name, data in bombs().items():
        (folder / name).write_bytes(data)
    outcome(read_cloud, Root(folder), next(iter(bombs())), 0)  # what is imported on first use
    before, times, said = peak(), [], []
    for name in bombs():
        started = time.process_time()
        said.append(outcome(read_cloud, Root(folder), name, 0))
        times.append(time.process_time() - started)
    print(json.dumps({"said": Counter(said), "slowest": max(times), "grown": peak() - before}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
