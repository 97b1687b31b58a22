"""Reads an HDF5 file from stdin and writes its arrays to stdout as safetensors; run as a program by `swerve.systems.h5`.

libhdf5 may crash or hang on a damaged file, so it runs in a process of its own.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from typing import Any

DEEPEST, MOST = 32, 100_000  # levels of groups; groups and arrays in total
TRAINING = ("optimizer", "optimizer_weights")  # groups that are only needed to continue training


class Refused(Exception):
    """Why the file is not read."""


def read(content: bytes, most: int) -> bytes:
    """Every array by its path, and the attributes of every group in the metadata."""
    h5py = importlib.import_module("h5py")
    arrays: dict[str, Any] = {}
    attributes: dict[str, dict[str, Any]] = {}
    with h5py.File(io.BytesIO(content), "r") as file:
        waiting = [("", file)]
        while waiting:
            path, group = waiting.pop()
            attributes[path] = {name: plain(group.attrs[name]) for name in group.attrs}
            if path.count("/") > DEEPEST or len(attributes) + len(arrays) > MOST:
                raise Refused("too many or too deeply nested groups")
            for name in group:
                if not path and name in TRAINING:
                    continue
                part, place = linked(h5py, group, name), f"{path}/{name}".lstrip("/")
                if isinstance(part, h5py.Group):
                    waiting.append((place, part))
                else:
                    most -= part.size * part.dtype.itemsize
                    arrays[place] = numbers(part, place, most)
    save = importlib.import_module("safetensors.numpy").save
    result: bytes = save(arrays, {"attributes": json.dumps(attributes)})
    return result


def linked(h5py: Any, group: Any, name: str) -> Any:
    """A member of a group; links to other places are refused."""
    link = group.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        raise Refused(f"'{name}' is a link to another place")
    return group[name]


def numbers(part: Any, place: str, left: int) -> Any:
    """An array of numbers; one stored in another file or larger than the limit is refused."""
    if part.external or part.is_virtual:
        raise Refused(f"'{place}' is stored in another file")
    if part.dtype.kind not in "fiub":
        raise Refused(f"'{place}' has type {part.dtype}, expected numbers")
    if left < 0:
        raise Refused(f"'{place}' unpacks to more than is plausible for a file of this size")
    array = importlib.import_module("numpy").asarray(part[()])  # a scalar is returned as a plain number
    return array.astype(array.dtype.newbyteorder("="))


def plain(value: Any) -> Any:
    """An attribute as JSON."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float) else str(type(value))


def limit(memory: int) -> None:
    """Limit the process to `memory` bytes, if the system supports that."""
    try:
        resource = importlib.import_module("resource")
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass


def main() -> int:
    """Read stdin, write stdout; the arguments are the limits of the arrays and of the process in bytes."""
    limit(int(sys.argv[2]))
    try:
        sys.stdout.buffer.write(read(sys.stdin.buffer.read(), int(sys.argv[1])))
    except Exception as error:  # libhdf5 may raise anything on a damaged file
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
