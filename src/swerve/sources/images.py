"""Pictures from files: decoded whole or not at all, every pixel format to the same three channels (R30 to R34).

Grey is copied to three channels. Alpha is dropped, colours stay as stored. A palette is looked up, CMYK goes by Pillow's
conversion, 1 bit becomes 0 or 255, 16 bits are divided by 257 and rounded, floats of 0 to 1 are multiplied by 255 and
rounded. A picture is turned the way its EXIF says. Colour profiles are not applied.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import cv2
import numpy as np
from PIL.BmpImagePlugin import BmpImageFile
from PIL.Image import Image as Picture
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from swerve.config import limits
from swerve.core.errors import UnreadableCase
from swerve.core.values import Array, Image
from swerve.sources.image_containers import Container, Unsound, opened, short_of_rows
from swerve.sources.root import Root

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm")
DECODERS: dict[str, Callable[[io.BytesIO], Picture]] = {
    "PNG": PngImageFile,
    "JPEG": JpegImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
    "WebP": WebPImageFile,
}
# By EXIF: whether rows and columns run on (1) or back (-1), after 5 to 8 have changed places.
ORIENTATIONS = {1: (1, 1), 2: (1, -1), 3: (-1, -1), 4: (-1, 1), 5: (1, 1), 6: (1, -1), 7: (-1, -1), 8: (-1, 1)}


def image(root: Root, name: str) -> Image:
    """The picture in a file; raises `UnreadableCase` that names the file for anything but a whole, sound picture."""
    return decoded(root.bytes(name, most=limits.FILE), name)


def decoded(data: bytes, name: str) -> Image:
    """The picture that `data` holds; raises `UnreadableCase` that leads with `name`."""
    return Image(_read(data, name, _rgb))


def labels(root: Root, name: str) -> Array:
    """The numbers in a PNG of 8-bit grey, a palette or 16-bit grey, exactly as stored: HxW int32."""
    return _read(root.bytes(name, most=limits.FILE), name, _numbers)


def _read(data: bytes, name: str, convert: Callable[[Container], Array]) -> Array:
    """The pixels as `convert` gives them, upright."""
    kind = "picture"
    try:
        container = opened(data)
        kind = container.kind
        return np.ascontiguousarray(_upright(convert(container), container.orientation))
    except Unsound as error:
        raise UnreadableCase(f"{name}: {error}") from error
    except Exception as error:  # a stranger's file can trip a decoder in any way
        raise UnreadableCase(f"{name}: a damaged {kind}: {error}") from error


def _rgb(container: Container) -> Array:
    if container.kind in ("PPM", "PGM", "PBM"):
        return _three(_portable(container))
    picture = _loaded(container)
    if container.bits == 16 and container.colour:
        return _deep(container, picture)
    return _three(_channels(picture))


def _loaded(container: Container) -> Picture:
    """The picture as Pillow has it; its own class is called, so that no other format is tried."""
    picture = DECODERS[container.kind](io.BytesIO(container.data))
    if picture.size != (container.width, container.height):
        raise Unsound(f"a damaged {container.kind}: its headers tell two sizes")
    picture.load()
    if container.kind == "PNG" and _may_be_short(picture) and short_of_rows(container):
        raise Unsound("a PNG whose data ends before its last row")
    return picture


def _may_be_short(picture: Picture) -> bool:
    """Whether the row that is decoded last is black, as rows that never came are; of an interlaced PNG, always."""
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
    raise Unsound(f"pixels of the kind {picture.mode} are not read")


def _three(pixels: Array) -> Array:
    return pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)


def _scaled(numbers: Array, top: int) -> Array:
    """Whole numbers of 0 to `top` as 0 to 255, rounded."""
    if numbers.max() > top:
        raise Unsound(f"a pixel is brighter than the white of {top} that the header names")
    table: Array = ((510 * np.arange(top + 1) + top) // (2 * top)).astype(np.uint8)
    return table[numbers]


def _from_floats(numbers: Array) -> Array:
    if not ((numbers >= 0) & (numbers <= 1)).all():  # NaN is neither
        raise Unsound("float pixels outside 0 to 1; say what white is by scaling them")
    return np.rint(numbers.astype(np.float64) * 255).astype(np.uint8)


def _check_palette(picture: Picture) -> None:
    palette = picture.getpalette() or []
    if int(np.asarray(picture).max()) >= len(palette) // 3:
        raise Unsound("a pixel names a colour that the palette does not have")


def _deep(container: Container, picture: Picture) -> Array:
    """Colours of 16 bits; Pillow keeps the upper half of each, OpenCV all."""
    deep = cv2.imdecode(np.frombuffer(container.data, np.uint8), cv2.IMREAD_UNCHANGED)
    if deep is None or deep.dtype != np.uint16 or deep.ndim != 3:
        raise Unsound(f"a damaged {container.kind}, or 16-bit colours of a kind that is not read")
    rgb: Array = deep[:, :, 2::-1]
    if not np.array_equal(rgb >> 8, np.asarray(picture.convert("RGB"))):
        raise Unsound(f"a damaged {container.kind}, or 16-bit colours of a kind that is not read")
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
        raise Unsound("labels are read from a PNG of 8-bit grey, a palette or 16-bit grey")
    return np.asarray(_loaded(container)).astype(np.int32)


def _upright(pixels: Array, orientation: int) -> Array:
    """Pixels turned and mirrored as EXIF counts it: 5 to 8 swap rows and columns first."""
    if orientation > 4:
        pixels = pixels.swapaxes(0, 1)
    down, right = ORIENTATIONS[orientation]
    return pixels[::down, ::right]
