"""The containers of picture files, parsed from their headers: the parts with pixel data, the size, and completeness.

Only those parts are passed to a decoder. Text, profiles, thumbnails and further frames never reach it, so neither a
decompression bomb nor a fault in them can do harm.
"""
# R31, R32

from __future__ import annotations

import struct

from swerve.sources.image_containers.container import BadImage, Container
from swerve.sources.image_containers.jpeg import from_jpeg
from swerve.sources.image_containers.others import PORTABLE, from_bmp, from_portable, from_webp
from swerve.sources.image_containers.png import SIGNATURE, from_png, short_of_rows
from swerve.sources.image_containers.tiff import ORDERS, from_tiff

__all__ = ["BadImage", "Container", "open_container", "short_of_rows"]

READERS = {
    SIGNATURE: from_png,
    b"\xff\xd8": from_jpeg,
    b"BM": from_bmp,
    b"RIFF": from_webp,
    **dict.fromkeys(ORDERS, from_tiff),
    **dict.fromkeys(PORTABLE, from_portable),
}


def open_container(data: bytes) -> Container:
    """The picture in `data`; raises `BadImage` unless it is a single, complete picture in a supported format."""
    if not data:
        raise BadImage("the file is empty")
    for signature, read in READERS.items():
        if data.startswith(signature):
            try:
                return read(data)
            except (struct.error, IndexError) as error:
                raise BadImage("the file ends within its header") from error
    raise BadImage("not a supported picture: expected PNG, JPEG, BMP, TIFF, WebP, PPM, PGM or PBM (P4 to P6)")
