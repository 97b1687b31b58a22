"""Pictures from files: decoded completely or not at all, every pixel format to 8-bit RGB.

Grey is copied to three channels. Alpha is dropped, colours stay as stored. Palettes are looked up, CMYK is converted by
Pillow, 1 bit becomes 0 or 255, 16 bits are divided by 257 and rounded, floats from 0 to 1 are multiplied by 255 and rounded.
The EXIF orientation is applied, colour profiles are not.
"""
# R30 to R34

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import cv2
import numpy as np

from swerve.config import limits
from swerve.core.errors import UnreadableCase
from swerve.core.values import Array, Image
from swerve.sources.image_containers import BadImage, Container, open_container, short_of_rows
from swerve.sources.root import Root

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm")
# By EXIF orientation: the direction of rows and columns, after 5 to 8 have swapped the two.
ORIENTATIONS = {1: (1, 1), 2: (1, -1), 3: (-1, -1), 4: (-1, 1), 5: (1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}


def read_image(root: Root, name: str) -> Image:
    """The picture in a file; raises `UnreadableCase`, naming the file, unless it is complete and valid."""
    return decode_image(root.bytes(name, most=limits.FILE), name)


def decode_image(data: bytes, name: str) -> Image:
    """The picture in `data`; raises `UnreadableCase` that starts with `name`."""
    return Image(_read(data, name, _rgb))


def read_labels(root: Root, name: str) -> Array:
    """The values of a PNG in 8-bit grey, with a palette or in 16-bit grey, exactly as stored: HxW int32."""
    return _read(root.bytes(name, most=limits.FILE), name, _numbers)


def _read(data: bytes, name: str, convert: Callable[[Container], Array]) -> Array:
    """The pixels as `convert` returns them, with the EXIF orientation applied."""
    kind = "picture"
    try:
        container = open_container(data)
        kind = container.kind
        return np.ascontiguousarray(_upright(convert(container), container.orientation))
    except BadImage as error:
        raise UnreadableCase(f"{name}: {error}") from error
    except Exception as error:  # a damaged file can make a decoder raise anything
        raise UnreadableCase(f"{name}: damaged {kind}: {error}") from error


def _rgb(container: Container) -> Array:
    if container.kind in ("PPM", "PGM", "PBM"):
        return _three(_portable(container))
    picture = _decode(container)
    if container.bits == 16 and container.colour:
        return _deep(container, picture)
    return _three(_channels(picture))


@cache
def _decoders() -> Mapping[str, Callable[[io.BytesIO], Picture]]:
    """Pillow's class of each format; imported with the first picture, as Pillow takes a while."""
    from PIL.BmpImagePlugin import BmpImageFile
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile
    from PIL.TiffImagePlugin import TiffImageFile
    from PIL.WebPImagePlugin import WebPImageFile

    return {"PNG": PngImageFile, "JPEG": JpegImageFile, "BMP": BmpImageFile, "TIFF": TiffImageFile, "WebP": WebPImageFile}


def _decode(container: Container) -> Picture:
    """The picture as Pillow decodes it; the format's class is called directly, so that no other format is tried."""
    picture = _decoders()[container.kind](io.BytesIO(container.data))
    if picture.size != (container.width, container.height):
        raise BadImage(f"a damaged {container.kind}: its headers give two different sizes")
    picture.load()
    if container.kind == "PNG" and _may_be_short(picture) and short_of_rows(container):
        raise BadImage("a PNG whose data ends before its last row")
    return picture


def _may_be_short(picture: Picture) -> bool:
    """Whether the last row is black, as missing rows would be; always true for an interlaced PNG."""
    last = picture.crop((0, picture.height - 1, picture.width, picture.height))
    return bool(picture.info.get("interlace")) or not np.asarray(last).any()


def _channels(picture: Picture) -> Array:
    """One or three channels of 8 bits."""
    if picture.mode in ("RGB", "L"):
        return np.asarray(picture)
    if picture.mode.startswith("I;16"):
        return _scaled(np.asarray(picture), 65535)
    if picture.mode == "F":
        return _from_floats(np.asarray(picture))
    if picture.mode in ("1", "LA"):
        return np.asarray(picture.convert("L"))
    if picture.mode == "P":
        _check_palette(picture)
    if picture.mode in ("RGBA", "RGBX", "P", "PA", "CMYK", "YCbCr"):
        return np.asarray(picture.convert("RGB"))
    raise BadImage(f"the pixel format {picture.mode} is not supported")


def _three(pixels: Array) -> Array:
    return pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)


def _scaled(numbers: Array, top: int) -> Array:
    """Integers from 0 to `top` scaled to 0 to 255, rounded."""
    if numbers.max() > top:
        raise BadImage(f"a pixel value exceeds {top}, the maximum in the header")
    table: Array = ((510 * np.arange(top + 1) + top) // (2 * top)).astype(np.uint8)
    return table[numbers]


def _from_floats(numbers: Array) -> Array:
    if not ((numbers >= 0) & (numbers <= 1)).all():  # NaN is neither
        raise BadImage("float pixels outside 0 to 1; scale them to that range")
    return np.rint(numbers.astype(np.float64) * 255).astype(np.uint8)


def _check_palette(picture: Picture) -> None:
    palette = picture.getpalette() or []
    if int(np.asarray(picture).max()) >= len(palette) // 3:
        raise BadImage("a pixel refers to a colour that is not in the palette")


def _deep(container: Container, picture: Picture) -> Array:
    """16-bit colours: Pillow keeps only the upper byte, so OpenCV decodes them."""
    deep = cv2.imdecode(np.frombuffer(container.data, np.uint8), cv2.IMREAD_UNCHANGED)
    if deep is None or deep.dtype != np.uint16 or deep.ndim != 3:
        raise BadImage(f"a damaged {container.kind}, or 16-bit colours in an unsupported format")
    rgb: Array = deep[:, :, 2::-1]
    if not np.array_equal(rgb >> 8, np.asarray(picture.convert("RGB"))):
        raise BadImage(f"a damaged {container.kind}, or 16-bit colours in an unsupported format")
    return _scaled(rgb, 65535)


def _portable(container: Container) -> Array:
    """A PPM, PGM or PBM."""
    rows, columns = container.height, container.width
    if container.kind == "PBM":  # 1 is black
        bits = np.unpackbits(np.frombuffer(container.data, np.uint8).reshape(rows, -1), axis=1)[:, :columns]
        return (1 - bits) * np.uint8(255)
    shape = (rows, columns, 3) if container.colour else (rows, columns)
    numbers = np.frombuffer(container.data, ">u2" if container.bits == 16 else np.uint8).reshape(shape)
    return numbers if container.top == 255 else _scaled(numbers, container.top)


def _numbers(container: Container) -> Array:
    if container.kind != "PNG" or container.colour or (container.bits < 8 and not container.palette):
        raise BadImage("labels must be a PNG in 8-bit grey, with a palette or in 16-bit grey")
    return np.asarray(_decode(container)).astype(np.int32)


def _upright(pixels: Array, orientation: int) -> Array:
    """Pixels rotated and mirrored by their EXIF orientation: 5 to 8 swap rows and columns first."""
    if orientation > 4:
        pixels = pixels.swapaxes(0, 1)
    down, right = ORIENTATIONS[orientation]
    return pixels[::down, ::right]
