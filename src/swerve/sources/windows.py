"""Windows over any source: the last frames of a drive as one case, for models that use several frames."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from swerve.core.arguments import check_whole
from swerve.core.case import Case, Source, group_of
from swerve.core.errors import UnreadableCase
from swerve.core.seeding import digest_of
from swerve.core.values import Group, Image


def frames_of(source: Source, key: str) -> Sequence[str]:
    """The frames that a case consists of, if its source has `holds(key)`; otherwise the case itself."""
    holds = getattr(source, "holds", None)
    return holds(key) if callable(holds) else (key,)


def window_length(source: Source) -> int:
    """The number of frames of the first case; 0 without cases."""
    return next((len(frames_of(source, key)) for key in source.keys()), 0)


@dataclass(frozen=True)
class WrappedSource:
    """A source over another: unless a subclass changes them, keys, drives and frames are those of `source`."""

    source: Source

    def keys(self) -> Sequence[str]:
        return self.source.keys()

    def group(self, key: str) -> str:
        """The drive of a case."""
        return group_of(self.source, key)

    def holds(self, key: str) -> Sequence[str]:
        """The frames of a case."""
        return frames_of(self.source, key)


@dataclass(frozen=True)
class Windows(WrappedSource):
    """Each case is `length` consecutive frames of one drive as a `Group`; its key and truth are the last frame's."""

    length: int
    _recent: OrderedDict[str, Case] = field(default_factory=OrderedDict, init=False, repr=False, compare=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_whole("length", self.length, 1)

    def keys(self) -> Sequence[str]:
        return list(self._frames)

    def holds(self, key: str) -> Sequence[str]:
        """The frames of a window; a split puts windows that share one on the same side."""
        return tuple(dict.fromkeys(one for frame in self._frames[key] for one in frames_of(self.source, frame)))

    def __getitem__(self, key: str) -> Case:
        frames = [self._frame(name) for name in self._frames[key]]
        last = frames[-1]
        for frame in frames:
            _check_alike(frame, last)
        inputs = {name: Group(tuple(frame.inputs[name] for frame in frames)) for name in last.inputs}
        return Case(key, inputs, last.truth, last.group)

    def fingerprint(self) -> str:
        return digest_of("windows", self.length, self.source.fingerprint())

    @cached_property
    def _frames(self) -> dict[str, tuple[str, ...]]:
        """The frames of each window; no window spans two drives."""
        windows: dict[str, tuple[str, ...]] = {}
        run: list[str] = []
        drive = None
        keys = self.source.keys()
        for key in keys:
            if (here := group_of(self.source, key)) != drive:
                drive, run = here, []
            run = [*run[-(self.length - 1) :], key] if self.length > 1 else [key]
            if len(run) == self.length:
                windows[key] = tuple(run)
        return windows

    def _frame(self, key: str) -> Case:
        """One frame, cached while windows share it."""
        with self._guard:
            if key not in self._recent:
                self._recent[key] = self.source[key]
                while len(self._recent) > 2 * self.length:
                    self._recent.popitem(last=False)
            self._recent.move_to_end(key)
            return self._recent[key]


def _check_alike(frame: Case, last: Case) -> None:
    """Raise `UnreadableCase` if the frames of a window differ in sensors or sizes."""
    # R36
    if frame.inputs.keys() != last.inputs.keys():
        raise UnreadableCase(
            f"the window that ends at {last.key} mixes inputs: frame {frame.key} has "
            f"{', '.join(frame.inputs)}, frame {last.key} has {', '.join(last.inputs)}; all frames need the same"
        )
    for name, value in frame.inputs.items():
        other = last.inputs[name]
        if isinstance(value, Image) and isinstance(other, Image) and value.size != other.size:
            sizes = f"frame {frame.key} is {_size(value)}, frame {last.key} is {_size(other)}"
            raise UnreadableCase(f"the window that ends at {last.key} mixes sizes: {sizes}; all frames need the same size")


def _size(image: Image) -> str:
    return "x".join(map(str, image.size))
