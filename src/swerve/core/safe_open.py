"""Regular files below a folder, opened without following links."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_below(folder: Path, parts: Sequence[str]) -> int:
    """A descriptor of the file `parts` below `folder`; raises `OSError` if it or a folder on the way is a link."""
    here = os.open(folder, _FOLDER)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
    finally:
        os.close(here)


def reason(error: OSError) -> str:
    """Why a file below a folder could not be opened, in a few words."""
    if error.errno in (errno.ELOOP, errno.ENXIO):
        return "not a regular file"
    return "no such file" if error.errno == errno.ENOENT else str(error.strerror)
