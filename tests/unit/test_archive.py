"""Archives from strangers: an honest one is unpacked whole; of any other nothing is left, inside the folder or out (R40)."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from swerve.config import limits
from swerve.core.errors import EnvironmentFault, InputError
from swerve.sources import archive
from swerve.sources.archive import unpack

FILES = {"a.txt": b"one", "sub/b.bin": bytes(range(256)) * 9, "sub/deep/time 10:30:00.png": b"", "é/ü.txt": b"x" * 512}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    return tarred_infos([(info_of(name, len(data)), data) for name, data in files.items()], form)


def tarred_infos(infos: list[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as file:
        for info, data in infos:
            file.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def info_of(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, target
    return info


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder for the archive and the target, beside a file that must stay as it is."""
    (tmp_path / "here").mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    return tmp_path / "here"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(place: Path, data: bytes) -> str:
    """What is said of an archive that leaves nothing behind."""
    (place / "x").write_bytes(data)
    before = tree(place.parent), sorted(os.listdir(place))
    with pytest.raises(InputError) as error:
        unpack(place / "x", place / "target")
    assert (tree(place.parent), sorted(os.listdir(place))) == before
    said = str(error.value)
    assert said.startswith("x: ")
    assert len(said) <= 300
    return said


HONEST = {
    "zip": zipped(FILES),
    "zip-stored": zipped(FILES, zipfile.ZIP_STORED),
    "zip-lzma": zipped(FILES, zipfile.ZIP_LZMA),
    "zip-bzip2": zipped(FILES, zipfile.ZIP_BZIP2),
    "tar": tarred(FILES),
    "tar-gnu": tarred({**FILES, "long/" * 40 + "name": b"y"}, tarfile.GNU_FORMAT),
    "tar-pax": tarred({**FILES, "long/" * 40 + "name": b"y"}),
    "tar-gz": gzip.compress(tarred(FILES)),
    "tar-bz2": bz2.compress(tarred(FILES)),
    "tar-xz": lzma.compress(tarred(FILES)),
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_archives_are_unpacked(place: Path, kind: str) -> None:
    (place / "x").write_bytes(HONEST[kind])
    count = unpack(place / "x", place / "target")
    found = tree(place / "target")
    assert count == len(found)
    assert {name: found[name] for name in FILES} == FILES
    assert sorted(os.listdir(place)) == ["target", "x"]


def test_folders_are_kept(place: Path) -> None:
    (place / "x").write_bytes(
        tarred_infos([(info_of("./", kind=tarfile.DIRTYPE), b""), (info_of("e", kind=tarfile.DIRTYPE), b"")])
    )
    assert unpack(place / "x", place / "target") == 0
    assert (place / "target" / "e").is_dir()


def test_rights_are_the_users_own(place: Path) -> None:
    info = info_of("a", 1)
    info.mode, info.uid = 0o6777, 0
    (place / "x").write_bytes(tarred_infos([(info, b"x")]))
    unpack(place / "x", place / "target")
    (place / "plain").write_bytes(b"")
    (place / "folder").mkdir()
    assert (place / "target" / "a").stat().st_mode == (place / "plain").stat().st_mode
    assert (place / "target").stat().st_mode == (place / "folder").stat().st_mode


@pytest.mark.parametrize("kind", HONEST)
def test_no_archive_that_is_cut_off(place: Path, kind: str) -> None:
    data = HONEST[kind]
    padding = 9000 if data[257:262] == b"ustar" else 0  # the end of a tar is zeros
    for length in random.Random(0).sample(range(1, len(data) - padding), 25):
        refused(place, data[:length])


def test_tar_cut_between_two_files(place: Path) -> None:
    data = tarred({"a": b"x" * 512, "b": b"y" * 512}, tarfile.USTAR_FORMAT)
    assert "truncated" in refused(place, data[:1024])
    assert "truncated" in refused(place, data[:2048])


@pytest.mark.parametrize("at", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("kind", ["zip", "zip-lzma", "tar-gz", "tar-bz2", "tar-xz"])
def test_damaged_archives_are_refused(place: Path, kind: str, at: float) -> None:
    data = bytearray(HONEST[kind])
    middle = data.index(b"sub/b.bin") + 60 if kind.startswith("zip") else int(len(data) * at)
    data[middle] ^= 0x10
    refused(place, bytes(data))


def test_target_must_be_new_or_empty(place: Path) -> None:
    (place / "x").write_bytes(HONEST["zip"])
    (place / "empty").mkdir()
    assert unpack(place / "x", place / "empty") == len(FILES)
    (place / "file").write_bytes(b"")
    (place / "link").symlink_to(place / "nowhere")
    for target in ("empty", "file", "link"):
        with pytest.raises(InputError, match="not an empty folder"):
            unpack(place / "x", place / target)


def test_archive_that_is_none(place: Path) -> None:
    assert "not a zip or tar" in refused(place, b"hello")
    assert "not a zip or tar" in refused(place, b"")
    refused(place, gzip.compress(b"hello"))
    os.mkfifo(place / "fifo")
    for name in ("fifo", "nowhere", "."):
        with pytest.raises(InputError):
            unpack(place / name, place / "target")


def test_folder_that_cannot_be_made(place: Path) -> None:
    (place / "x").write_bytes(HONEST["zip"])
    with pytest.raises(EnvironmentFault, match="cannot be created"):
        unpack(place / "x", place / "nowhere" / "target")


# R40: fifty ways to do harm

OUT = (
    *("../secret", "../../secret", "sub/../../secret", "./../secret", "a/b/../../../secret", "..", "sub/.."),
    *("/tmp/secret", "//tmp/secret", "/", "C:/secret", "c:secret", "..\\secret", "sub\\..\\..\\secret", "\\secret"),
    *("\\\\server\\share\\x", "a/" * 3000 + "x", "n" * 300),
)
LINKS = {
    tarfile.SYMTYPE: "a symlink",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a disk",
}
MODES = (stat.S_IFLNK | 0o777, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK)
KINDS = {**LINKS, tarfile.FIFOTYPE: "a pipe", b"9": "a kind that nobody knows"}


def special_zip(mode: int, target: bytes = b"../secret") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        info = zipfile.ZipInfo("link")
        info.create_system, info.external_attr = 3, mode << 16
        file.writestr(info, target)
    return buffer.getvalue()


def nul_zip() -> bytes:
    return zipped({"a.txtXx": b"x"}).replace(b"a.txtXx", b"a.txt\0x")


def locked_zip() -> bytes:
    data = bytearray(zipped({"a": b"x"}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def overlapping_zip() -> bytes:
    """Many entries over the same bytes: each is honest, all of them together are not."""
    data = zipped({"a000": bytes(900_000)})
    start = data.index(b"PK\x01\x02")
    entry = data[start : data.index(b"PK\x05\x06")]
    entries = b"".join(entry.replace(b"a000", f"a{number:03d}".encode()) for number in range(1000))
    return data[:start] + entries + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1000, 1000, len(entries), start, 0)


def lying_zip() -> bytes:
    """Says it unpacks to a few bytes."""
    data = bytearray(zipped({"a": bytes(3_000_000)}))
    for at in (22, data.index(b"PK\x01\x02") + 24):
        data[at : at + 4] = struct.pack("<I", 10)
    return bytes(data)


def twice_zip() -> bytes:
    return zipped({"a": b"1", "b": b"2"}).replace(b"b", b"a")


def sparse_tar() -> bytes:
    info = info_of("a")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,1",
        "GNU.sparse.size": "1" + "0" * 12,
    }
    return tarred_infos([(info, b"")])


def header_bomb_tar() -> bytes:
    """A header of sixty million bytes for a name."""
    info = info_of("././@LongLink", 60_000_000, tarfile.GNUTYPE_LONGNAME)
    return gzip.compress(info.tobuf() + bytes(60_000_000))


def endless_tar() -> bytes:
    return gzip.compress(tarred({"a": b"x"}) + bytes(20_000_000))


BOMB = bytes(20_000_000)
HARM: dict[str, Callable[[], bytes]] = {
    **{f"zip out {number}": partial(zipped, {"ok": b"", name: b"x"}) for number, name in enumerate(OUT)},
    **{f"tar out {number}": partial(tarred, {"ok": b"", name: b"x"}) for number, name in enumerate(OUT)},
    **{f"tar {what}": partial(tarred_infos, [(info_of("x", 0, kind, "../secret"), b"")]) for kind, what in KINDS.items()},
    **{f"zip of a kind {mode:o}": partial(special_zip, mode) for mode in MODES},
    "link, then through it": lambda: tarred_infos(
        [(info_of("d", 0, tarfile.SYMTYPE, ".."), b""), (info_of("d/secret", 1), b"x")]
    ),
    "zip with NUL": nul_zip,
    "tar without name": lambda: tarred({"": b"x"}),
    "zip with password": locked_zip,
    "zip deflate bomb": lambda: zipped({"a": BOMB}),
    "zip lzma bomb": lambda: zipped({"a": BOMB}, zipfile.ZIP_LZMA),
    "zip bzip2 bomb": lambda: zipped({"a": BOMB}, zipfile.ZIP_BZIP2),
    "tar xz bomb": lambda: lzma.compress(tarred({"a": BOMB}), preset=0),
    "zip overlapping": overlapping_zip,
    "zip that lies": lying_zip,
    "zip twice": twice_zip,
    "zip twice by dots": lambda: zipped({"a": b"1", "./a": b"2"}),
    "zip file as folder": lambda: zipped({"a": b"1", "a/b": b"2"}),
    "zip folder as file": lambda: zipped({"a/b": b"2", "a": b"1"}),
    "tar twice": lambda: tarred_infos([(info_of("a", 1), b"1"), (info_of("a", 1), b"2")]),
    "tar sparse": sparse_tar,
    "tar header bomb": header_bomb_tar,
    "tar without end": endless_tar,
    "tar and more": lambda: gzip.compress(tarred({"a": b"x"}) + b"more"),
}


def test_there_are_fifty_ways() -> None:
    assert len(HARM) >= 50


@pytest.mark.parametrize("kind", HARM)
def test_harm_is_refused(place: Path, kind: str) -> None:
    refused(place, HARM[kind]())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("zip out 0", "'../secret' leads outside the folder"),
        ("tar a symlink", "'x' is a link or a device"),
        ("zip of a kind 120777", "'link' is a link or a device"),
        ("zip twice", "two entries have the name 'a'"),
        ("zip lzma bomb", "'a' unpacks to more than 1,000 times its size"),
        ("tar xz bomb", "x: the archive unpacks to more than 1,000 times its size"),
        ("zip with password", "encrypted"),
        ("tar without end", "data follows the end of the archive"),
    ],
)
def test_harm_is_named(place: Path, kind: str, words: str) -> None:
    assert words in refused(place, HARM[kind]())


def test_size_limit_is_exact(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = zipped({"a": b"x" * 600, "b": b"y" * 400})
    monkeypatch.setattr(limits, "ARCHIVE", 999)
    assert "unpacks to more than 999 bytes" in refused(place, data)
    monkeypatch.setattr(limits, "ARCHIVE", 1000)
    assert unpack(place / "x", place / "target") == 2


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_number_of_entries_is_exact(
    place: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    data = pack({str(number): b"" for number in range(10)})
    monkeypatch.setattr(archive, "ENTRIES", 9)
    assert "more than 9 entries" in refused(place, data)
    monkeypatch.setattr(archive, "ENTRIES", 10)
    assert unpack(place / "x", place / "target") == 10


def test_million_entries_are_refused_at_once(place: Path) -> None:
    """The list alone is read: 1,000,001 entries of a zip that holds nothing."""
    entry = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    entries = entry * 1_000_001
    locator = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1_000_001, 1_000_001, len(entries), 4)
    locator += struct.pack("<4sIQI", b"PK\x06\x07", 0, 4 + len(entries), 1)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    assert "more than 1,000,000 entries" in refused(place, b"PK\x03\x04" + entries + locator + end)


def mutations(data: bytes, count: int) -> Iterator[bytes]:
    draw = random.Random(7)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            changed[draw.randrange(len(changed))] = draw.choice((0, 1, 0x7F, 0xFF, draw.randrange(256)))
        yield bytes(changed)


@pytest.mark.parametrize("kind", HONEST)
def test_mutated_archives_stay_in_their_folder(place: Path, kind: str) -> None:
    for number, data in enumerate(mutations(HONEST[kind], 60)):
        (place / "x").write_bytes(data)
        try:
            unpack(place / "x", place / f"target{number}")
        except InputError:
            assert not (place / f"target{number}").exists()
        assert {path for path in os.listdir(place) if not path.startswith("target")} == {"x"}
        assert sorted(os.listdir(place.parent)) == ["here", "secret"]
    assert (place.parent / "secret").read_bytes() == b"secret"


def test_full_disk_is_told_and_cleaned_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "x").write_bytes(HONEST["zip"])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(EnvironmentFault, match="No space left"):
        unpack(place / "x", place / "target")
    assert os.listdir(place) == ["x"]
