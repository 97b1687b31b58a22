"""Standard output and error that outlast their reader, as in `swerve run ... | head`."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Outlasting(io.FileIO):
    """A file descriptor that is pointed to /dev/null when the other end of its pipe is closed."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            return super().write(data)


def outlast_readers() -> None:
    """Let a command finish, with its own exit code, when nobody reads what it prints any more."""
    sys.stdout, sys.stderr = map(_outlasting, (sys.stdout, sys.stderr))


def _outlasting(stream: Any) -> Any:
    if not isinstance(stream, io.TextIOWrapper):  # None, or the stream of a test or a notebook
        return stream
    stream.flush()
    # `sys.__stdout__` and `sys.__stderr__` keep the first stream, and with it the descriptor, open.
    return io.TextIOWrapper(
        io.BufferedWriter(_Outlasting(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )
