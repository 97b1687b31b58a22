"""What a picture file is made of, told from its headers: the parts that make pixels, its size, and whether it is whole.

Only those parts are handed on to a decoder. Text, profiles, thumbnails and second frames never reach one, so a bomb in
them cannot go off and a fault in them cannot be tripped over (R31, R32).
"""

from __future__ import annotations

import struct

from swerve.sources.image_containers.container import Container, Unsound
from swerve.sources.image_containers.jpeg import from_jpeg
from swerve.sources.image_containers.others import PORTABLE, from_bmp, from_portable, from_webp
from swerve.sources.image_containers.png import SIGNATURE, from_png, short_of_rows
from swerve.sources.image_containers.tiff import ORDERS, from_tiff

__all__ = ["Container", "Unsound", "opened", "short_of_rows"]

READERS = {
    SIGNATURE: from_png,
    b"\xff\xd8": from_jpeg,
    b"BM": from_bmp,
    b"RIFF": from_webp,
    **dict.fromkeys(ORDERS, from_tiff),
    **dict.fromkeys(PORTABLE, from_portable),
}


def opened(data: bytes) -> Container:
    """The picture in `data`; raises `Unsound` unless it is whole, single and of a kind that is read."""
    if not data:
        raise Unsound("the file is empty")
    for signature, read in READERS.items():
        if data.startswith(signature):
            try:
                return read(data)
            except (struct.error, IndexError) as error:
                raise Unsound("the file is cut off in its header") from error
    raise Unsound("not a picture that is read: it is no PNG, JPEG, BMP, TIFF, WebP, PPM, PGM or PBM (P4 to P6)")
