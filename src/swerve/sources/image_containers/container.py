"""One picture in a file, before it is decoded: the bytes of its pixels, and the facts in its headers."""

from __future__ import annotations

from dataclasses import dataclass

from swerve.config import limits

PIECES = 200_000  # chunks of a PNG, segments of a JPEG, strips of a TIFF


class BadImage(Exception):
    """Why a file is not a complete picture in a supported format; users see the message."""


@dataclass(frozen=True)
class Container:
    """A picture that is complete according to its container; `data` contains only what a decoder needs for the pixels."""

    kind: str
    data: bytes
    width: int
    height: int
    bits: int = 8  # per channel
    colour: bool = True  # more than one channel
    palette: bool = False
    orientation: int = 1  # EXIF's number
    top: int = 255  # the value of white, in a PPM, PGM or PBM


def check_size(kind: str, width: int, height: int) -> None:
    """Refuse a picture that is empty or larger than the limit, before any of it is unpacked."""
    if width < 1 or height < 1:
        raise BadImage(f"a {kind} of {width} x {height} pixels; both must be at least 1")
    if width * height > limits.PIXELS:
        raise BadImage(f"{width:,} x {height:,} pixels; at most {limits.PIXELS:,} are read (swerve list limits)")


def truncated(kind: str) -> BadImage:
    """The error for a file that ends too early."""
    return BadImage(f"a truncated {kind}")


def several(what: str) -> BadImage:
    """The error for animations, multi-page files and stereo pairs."""
    return BadImage(f"{what}; only single pictures are supported")
