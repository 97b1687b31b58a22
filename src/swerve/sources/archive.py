"""Untrusted zip and tar archives of data sets, unpacked completely and below one folder, or not at all."""
# R40

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, NoReturn, TypeVar

from swerve.config import limits
from swerve.core.errors import EnvironmentFault, InputError
from swerve.sources.root import LONGEST, Root, shortened
from swerve.store.files import PARTIAL

ENTRIES = 1 * limits.MEGA
RATIO = 1000  # highest compression ratio; more is a decompression bomb
SMALL = 1 * limits.MEGA  # bytes unpacked below which the ratio is not checked
BLOCK = 1 << 17  # bytes copied at once, and those that a decompressor may have read ahead
PADDING = 16 * limits.MEGA  # zero bytes that may follow the end of a tar
ZIP_ENTRY = b"PK\x01\x02"
DRIVE = re.compile(r"[A-Za-z]:")
PACKERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}


T = TypeVar("T")


class _Refused(Exception):
    """Why an archive is not unpacked."""


@dataclass(frozen=True)
class _Entry:
    """A file or folder in an archive."""

    name: str
    folder: bool
    open: Callable[[], IO[bytes]]
    packed: Callable[[], int]  # bytes of the archive read for this entry so far


def unpack(archive: Path, into: Path) -> int:
    """Unpack a zip or tar into the new or empty folder `into`; returns the number of files.

    Raises `InputError` for an archive that leads out of the folder, contains anything but files and folders, is damaged, or
    unpacks to more than the limits allow; nothing is left behind then.
    """
    if into.is_symlink() or (into.exists() and not into.is_dir()) or (into.is_dir() and any(into.iterdir())):
        raise InputError(f"{into}: not an empty folder; choose a new one")
    real = archive.resolve()
    try:
        with Root(real.parent).open(real.name, most=limits.ARCHIVE) as file, _new_folder(into) as target:
            return _Unpacking(target, real.stat().st_size).all(_entries(file))
    except _Refused as error:
        raise InputError(f"{archive.name}: {error}") from error


@contextlib.contextmanager
def _new_folder(into: Path) -> Iterator[Path]:
    """A temporary folder that becomes `into` on success and is removed on failure."""
    try:
        partial = Path(tempfile.mkdtemp(prefix=f".{into.name}.", suffix=PARTIAL, dir=into.parent))
    except OSError as error:
        raise EnvironmentFault(f"{into}: cannot be created: {error.strerror}") from error
    try:
        filled = partial / "filled"  # with the usual permissions; mkdtemp's folder is private to its owner
        filled.mkdir()
        yield filled
        filled.replace(into)
    except OSError as error:
        raise EnvironmentFault(f"{into}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@dataclass
class _Unpacking:
    """The files and bytes written so far, checked against the limits."""

    folder: Path
    length: int  # bytes of the archive
    written: int = 0
    names: set[PurePosixPath] = field(default_factory=set)

    def all(self, entries: Iterator[_Entry]) -> int:
        """Write every entry; returns the number of files."""
        files = 0
        for entry in _guarded(entries):
            place = self._place(entry)
            if entry.folder:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                self._write(entry, place)
                files += 1
        return files

    def _place(self, entry: _Entry) -> Path:
        """The path an entry is written to; refuses one that leads out of the folder or exists already."""
        path = PurePosixPath(entry.name)
        if _leads_out(entry.name, path) or not (path.parts or entry.folder):
            raise _Refused(f"the entry {_quoted(entry.name)} leads outside the folder")
        above = any(parent in self.names for parent in path.parents)
        if path in self.names or above or (not entry.folder and (self.folder / path).exists()):
            raise _Refused(f"two entries have the name {_quoted(entry.name)}")
        if not entry.folder:
            self.names.add(path)
        return self.folder / path

    def _write(self, entry: _Entry, place: Path) -> None:
        before = self.written
        with place.open("xb") as file:
            for block in _guarded(_blocks(entry)):
                self.written += len(block)
                self._check(entry, self.written - before)
                file.write(block)

    def _check(self, entry: _Entry, size: int) -> None:
        if self.written > limits.ARCHIVE:
            raise _Refused(f"the archive unpacks to more than {limits.ARCHIVE:,} bytes (swerve list limits)")
        if size > SMALL and size > RATIO * entry.packed():
            raise _Refused(f"{_quoted(entry.name)} unpacks to more than {RATIO:,} times its size")
        if self.written > SMALL and self.written > RATIO * self.length:  # entries may share their bytes
            raise _Refused(f"the archive unpacks to more than {RATIO:,} times its size")


def _guarded(items: Iterator[T]) -> Iterator[T]:
    """The same items; any exception of a library over a damaged archive becomes a refusal."""
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except _Refused:
            raise
        except Exception as error:
            raise _Refused(f"the archive is damaged: {error or type(error).__name__}") from error
        yield item


def _blocks(entry: _Entry) -> Iterator[bytes]:
    with entry.open() as source:
        while block := source.read(BLOCK):
            yield block


def _leads_out(name: str, path: PurePosixPath) -> bool:
    """Whether a name is not a file below the folder, on any operating system."""
    odd = "\\" in name or "\0" in name or DRIVE.match(name) or len(name) > LONGEST
    return bool(odd or path.is_absolute() or ".." in path.parts or any(len(os.fsencode(part)) > 255 for part in path.parts))


def _quoted(name: str) -> str:
    return repr(shortened(name))


def _refuse_kind(name: str) -> NoReturn:
    raise _Refused(f"{_quoted(name)} is a link or a device; only files and folders are unpacked")


def _entries(file: BinaryIO) -> Iterator[_Entry]:
    head = file.read(512)
    file.seek(0)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _counted(_zip_entries(file))
    for signature, unpacked in PACKERS.items():
        if head.startswith(signature):
            return _counted(_tar_entries(file, unpacked(file)))
    if head[257:262] == b"ustar":
        return _counted(_tar_entries(file, file))
    raise _Refused("not a zip or tar (.tar, .tar.gz, .tar.bz2, .tar.xz)")


def _counted(entries: Iterator[_Entry]) -> Iterator[_Entry]:
    for number, entry in enumerate(entries):
        if number >= ENTRIES:
            raise _Refused(f"the archive has more than {ENTRIES:,} entries")
        yield entry


class _FewEntries(io.RawIOBase):
    """The file a zip is read from: its entries are counted before zipfile creates an object for each."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        if data.count(ZIP_ENTRY) > ENTRIES:
            raise _Refused(f"the archive has more than {ENTRIES:,} entries")
        return data

    def seek(self, place: int, whence: int = 0, /) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


def _zip_entries(file: BinaryIO) -> Iterator[_Entry]:
    with zipfile.ZipFile(_FewEntries(file)) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                _refuse_kind(info.orig_filename)
            yield _zip_entry(archive, info)


def _zip_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Entry:
    return _Entry(info.orig_filename, info.is_dir(), lambda: archive.open(info), lambda: info.compress_size)


def _tar_entries(file: BinaryIO, unpacked: IO[bytes]) -> Iterator[_Entry]:
    stream = _TarStream(unpacked)
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        while info := archive.next():
            archive.members = []  # type: ignore[attr-defined]  # tarfile would keep every one in memory
            if not (info.isreg() or info.isdir()) or info.issparse():
                _refuse_kind(info.name)
            yield _tar_entry(archive, info, file)
    stream.finish()


def _tar_entry(archive: tarfile.TarFile, info: tarfile.TarInfo, file: BinaryIO) -> _Entry:
    start = file.tell()

    def open_entry() -> IO[bytes]:
        content = archive.extractfile(info)
        assert content is not None  # it is a file
        return content

    return _Entry(info.name, info.isdir(), open_entry, lambda: file.tell() - start + BLOCK)


class _TarStream(io.RawIOBase):
    """The stream a tar is read from, forwards only, in bounded reads, and remembering whether its end was missing."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._at, self._last, self._again = 0, b"", b""
        self._short = False

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= SMALL:
            raise _Refused(f"the archive is damaged: the header of an entry has {size:,} bytes")
        data = self._again + self._file.read(size - len(self._again)) if size else b""
        if data:
            self._at, self._last, self._again = self._at + len(data), data[-1:], b""
        self._short = self._short or len(data) < size
        return data

    def seek(self, place: int, whence: int = 0, /) -> int:
        assert whence == 0  # tarfile uses no other
        if place == self._at - 1 and not self._again:  # tarfile reads the last byte again to check that it exists
            self._at, self._again = place, self._last
        while self._at < place and self.read(min(BLOCK, place - self._at)):
            pass
        if place != self._at:
            raise _Refused("the archive is truncated, or its offsets go backwards")
        return place

    def tell(self) -> int:
        return self._at

    def finish(self) -> None:
        """Read to the end, so that checksums are verified; raises if the end is missing."""
        if self._short:
            raise _Refused("the archive is truncated")
        after = 0
        while data := self._file.read(BLOCK):
            after += len(data)
            if data.strip(b"\0") or after > PADDING:
                raise _Refused("data follows the end of the archive")
