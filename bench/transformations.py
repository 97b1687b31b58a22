"""The cost of image changes compared with albumentations, imaug and kornia, at 1280x720 on one thread.

Geometric, photometric and blur operations use the peer's interpolation and border, and the outputs are compared: where a
peer computes the same thing, no pixel may differ by more than one grey level. Weather has no common definition, so only the
time is compared, with a new seed in every repeat, so that no cache helps. kornia works on float tensors; the conversion from
bytes is not included. CPU time, interleaved repeats, medians.

    python bench/transformations.py [--json] [--repeats N] [--only WORD]
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import torch

from swerve.core.seeding import rng_for
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Image
from swerve.transformations.affine import Rotate, Scale, Shear, Translate, ZoomOut
from swerve.transformations.blur import AverageBlur, BilateralBlur, GaussianBlur, MedianBlur, MotionBlur
from swerve.transformations.exposure import OverExpose, RaiseValue, UnderExpose
from swerve.transformations.flare import LensFlare
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.weather import Fog, Rain, Snow
from swerve.world.source import World

# A script's own folder comes first on the path: a peer would import `bench/coverage.py` instead of the library.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

with warnings.catch_warnings():  # importing the peers raises warnings of their own
    warnings.simplefilter("ignore")
    import albumentations as album
    import imgaug.augmenters as iaa
    import kornia

WIDTH, HEIGHT = 1280, 720
SLICE = 0.01  # CPU seconds; shorter calls are timed several at once
FEW, HOPELESS = 3, 4  # a call 4 times slower than the fastest is measured only 3 times
SLOWEST = 0.1  # CPU seconds; the limit of every change except the bilateral blur
Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One operation: our change, the peers' calls, which of them give the same output, and our goals."""

    name: str
    change: Transformation
    peers: dict[str, Call]
    same: tuple[str, ...] = ()
    at_most: dict[str, float] = field(default_factory=dict)  # our time relative to that peer, or to the "fastest" peer


def frame() -> Array:
    """A rendered road with camera noise."""
    world = World(drives=1)
    pixels = world[world.keys()[0]].inputs["camera"].pixels  # type: ignore[attr-defined]
    large = cv2.resize(pixels, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC).astype(np.float32)
    grain = rng_for("bench").normal(0, 6, large.shape).astype(np.float32)
    return np.clip(large + cv2.GaussianBlur(grain, (3, 3), 0), 0, 255).astype(np.uint8)


def rows(pixels: Array) -> Iterator[Row]:
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255
    yield from photometric(pixels, tensor)
    yield from geometric(pixels, tensor)
    yield from blurring(pixels, tensor)
    yield from weather(pixels, tensor)


def by_album(change: object, pixels: Array) -> Call:
    return lambda: change(image=pixels)["image"]  # type: ignore[operator]


def by_imaug(change: object, pixels: Array) -> Call:
    return lambda: change(image=pixels)  # type: ignore[operator]


ALL = {"fastest": 1.05}
ALWAYS = {"fastest": 1.0}  # of brightness and contrast, which nearly every campaign has
SAME = ("albumentations", "imaug", "kornia")


def photometric(pixels: Array, tensor: torch.Tensor) -> Iterator[Row]:
    lighter = album.RandomBrightnessContrast((40 / 255, 40 / 255), (0, 0), p=1)
    peers = {
        "albumentations": by_album(lighter, pixels),
        "imaug": by_imaug(iaa.Add(40), pixels),
        "kornia": lambda: kornia.enhance.adjust_brightness(tensor, 40 / 255),
    }
    yield Row("brightness +40", Brighten(40), peers, SAME, ALWAYS)
    stronger = album.RandomBrightnessContrast((0, 0), (0.4, 0.4), p=1)
    peers = {
        "albumentations": by_album(stronger, pixels),
        "imaug": by_imaug(iaa.Multiply(1.4), pixels),
        "kornia": lambda: kornia.enhance.adjust_contrast(tensor, 1.4),
    }
    yield Row("contrast x1.4", Contrast(1.4), peers, SAME, ALWAYS)
    # imaug shifts bytes of HLS and HSV, where hue and saturation are less exact than in our tables.
    for name, change, by in (("over-exposure 0.4", OverExpose(0.4), 102), ("under-exposure 0.1", UnderExpose(0.1), -26)):
        shifted = iaa.WithColorspace("HLS", "RGB", iaa.WithChannels(1, iaa.Add(by)))
        yield Row(name, change, {"imaug": by_imaug(shifted, pixels)}, (), ALL)
    raised = iaa.WithColorspace("HSV", "RGB", iaa.WithChannels(2, iaa.Add(26)))
    yield Row("HSV value +0.1", RaiseValue(0.1), {"imaug": by_imaug(raised, pixels)}, (), ALL)


def geometric(pixels: Array, tensor: torch.Tensor) -> Iterator[Row]:
    lean = {"shear": {"x": float(np.degrees(np.arctan(0.3))), "y": 0}}  # both peers shear the axis, not the rows
    for name, change, album_takes, imaug_takes in (
        ("rotate 9", Rotate(9), {"rotate": 9}, {"rotate": -9}),
        ("translate 30, 30", Translate(30, 30), *[{"translate_px": {"x": 30, "y": 30}}] * 2),
        ("translate 30.5, 30", Translate(30.5, 30), None, None),
        ("scale 1.5", Scale(1.5, 1.5), *[{"scale": 1.5}] * 2),
        ("shear -0.3", Shear(-0.3), *[lean] * 2),
        ("zoom out 25%", ZoomOut(), *[{"scale": 0.8}] * 2),
    ):
        matrix = torch.from_numpy(_kornia_matrix(change)).float()[None]
        peers = {"kornia": lambda m=matrix: kornia.geometry.transform.warp_affine(tensor, m, (HEIGHT, WIDTH))}
        if album_takes and imaug_takes:
            fixed = {key: _pair(value) for key, value in album_takes.items()}
            linear = album.Affine(**fixed, interpolation=cv2.INTER_LINEAR, border_mode=cv2.BORDER_CONSTANT, p=1)
            peers["albumentations"] = by_album(linear, pixels)
            peers["imaug"] = by_imaug(iaa.Affine(**imaug_takes, order=1, mode="constant", backend="cv2"), pixels)
        # imaug shears about another point.
        yield Row(name, change, peers, tuple(peer for peer in peers if (name, peer) != ("shear -0.3", "imaug")), ALL)


def _pair(value: object) -> object:
    return {key: (item, item) for key, item in value.items()} if isinstance(value, dict) else (value, value)


def _kornia_matrix(change: Transformation) -> Array:
    """Our matrix in kornia's coordinates, where pixel i lies at i."""
    matrix: Array = change._matrix(WIDTH, HEIGHT)  # type: ignore[attr-defined]
    matrix[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5
    return matrix


def blurring(pixels: Array, tensor: torch.Tensor) -> Iterator[Row]:
    filters = kornia.filters
    for size in (3, 5):
        peers = {
            "albumentations": by_album(album.Blur((size, size), p=1), pixels),
            "imaug": by_imaug(iaa.AverageBlur(size), pixels),
            "kornia": lambda k=size: filters.box_blur(tensor, (k, k)),
        }
        yield Row(f"average {size}", AverageBlur(size), peers, SAME, ALL)
    sigma = 0.3 * ((5 - 1) * 0.5 - 1) + 0.8  # OpenCV's formula for 5 pixels; ours uses its table, so outputs differ
    peers = {
        "albumentations": by_album(album.GaussianBlur((5, 5), (sigma, sigma), p=1), pixels),
        "imaug": by_imaug(iaa.GaussianBlur(sigma), pixels),
        "kornia": lambda: filters.gaussian_blur2d(tensor, (5, 5), (sigma, sigma)),
    }
    yield Row("gaussian 5", GaussianBlur(5), peers, (), ALL)
    peers = {
        "albumentations": by_album(album.MedianBlur((5, 5), p=1), pixels),
        "imaug": by_imaug(iaa.MedianBlur(5), pixels),
        "kornia": lambda: filters.median_blur(tensor, (5, 5)),
    }
    yield Row("median 5", MedianBlur(5), peers, ("albumentations", "imaug"), ALL)
    peers = {"imaug": by_imaug(iaa.BilateralBlur(9, 75, 75), pixels)}
    yield Row("bilateral 9", BilateralBlur(9, 75, 75), peers, ("imaug",), ALL)
    for angle in (0, 30, 45):
        along = album.MotionBlur((15, 15), allow_shifted=False, angle_range=(angle, angle), direction_range=(0, 0), p=1)
        peers = {
            "albumentations": by_album(along, pixels),
            "imaug": by_imaug(iaa.MotionBlur(15, angle=90 - angle, direction=0), pixels),
            "kornia": lambda a=angle: filters.motion_blur(tensor, 15, float(a), 0.0),
        }
        # For other angles the peers draw three different lines; ours, a rotated row of pixels, equals imaug's.
        yield Row(f"motion 15 at {angle}", MotionBlur(15, angle), peers, SAME if angle == 0 else ("imaug",), ALL)


def weather(pixels: Array, tensor: torch.Tensor) -> Iterator[Row]:
    peers = {
        "albumentations": by_album(album.RandomFog(fog_coef_range=(0.5, 0.5), p=1), pixels),
        "imaug": by_imaug(iaa.imgcorruptlike.Fog(severity=2), pixels),
    }
    yield Row("fog", Fog(120), peers, (), {"albumentations": 0.1, "imaug": 1 / 3})
    peers = {
        "albumentations": by_album(album.RandomRain(p=1), pixels),
        "imaug": by_imaug(iaa.Rain(drop_size=(0.1, 0.2), speed=(0.2, 0.3)), pixels),
        "kornia": lambda: _kornia_rain(tensor),
    }
    yield Row("rain", Rain(0.5), peers, (), {"imaug": 1 / 3})
    peers = {
        "albumentations": by_album(album.RandomSnow(p=1), pixels),
        "imaug": by_imaug(iaa.imgcorruptlike.Snow(severity=2), pixels),
        "kornia": lambda: kornia.augmentation.RandomSnow(p=1.0)(tensor),
    }
    yield Row("snow", Snow(2), peers, (), {"imaug": 1 / 3})
    peers = {"albumentations": by_album(album.RandomSunFlare(p=1), pixels)}
    yield Row("lens flare", LensFlare(0.3, 0.2, 0.8), peers, (), ALL)


def _kornia_rain(tensor: torch.Tensor) -> object:
    drops = {"drop_height": (20, 40), "drop_width": (-10, 10), "number_of_drops": (500, 500)}
    return kornia.augmentation.RandomRain(p=1.0, **drops)(tensor)


def ours(row: Row, pixels: Array) -> Call:
    """A call that applies the change, with another seed each time if it has one."""
    image = Image(pixels)
    if not hasattr(row.change, "seed"):
        return lambda: row.change.map(image).pixels
    seeds = itertools.count()
    return lambda: dataclasses.replace(row.change, seed=next(seeds)).map(image).pixels  # type: ignore[call-arg]


def as_bytes(output: object) -> Array:
    if isinstance(output, torch.Tensor):
        output = np.rint(output[0].permute(1, 2, 0).clamp(0, 1).numpy() * 255).astype(np.uint8)
    return np.asarray(output)


def largest_difference(ours: Array, peer: Array) -> int:
    """The largest difference in grey levels."""
    return int(cv2.absdiff(ours, peer).max())


def check_same(row: Row, pixels: Array) -> None:
    for name in row.same:
        apart = largest_difference(ours(row, pixels)(), as_bytes(row.peers[name]()))  # type: ignore[arg-type]
        assert apart <= 1, f"{row.name}: {apart} grey levels from {name}"


def measure(row: Row, pixels: Array, repeats: int) -> dict[str, object]:
    """Medians of CPU seconds, with all sides interleaved."""
    calls = {"ours": ours(row, pixels), **row.peers}
    once = {name: max(seconds(call, 1), 1e-6) for name, call in calls.items()}
    numbers = {name: max(1, min(50, int(SLICE / cost))) for name, cost in once.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats):
        for name, call in calls.items():
            if turn < FEW or once[name] < HOPELESS * min(once.values()):
                taken[name].append(seconds(call, numbers[name]))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    mine = medians.pop("ours")
    fastest = min(medians, key=medians.__getitem__)
    best = {"name": row.name, "ours": mine, "peer": fastest, "peer_seconds": medians[fastest]}
    return {**best, "ratio": mine / medians[fastest], "peers": medians, "missed": missed(row, mine, medians)}


def missed(row: Row, mine: float, medians: dict[str, float]) -> list[str]:
    """The goals that this row misses."""
    against = {**medians, "fastest": min(medians.values())}
    ratios = {name: (mine / against[name], goal) for name, goal in row.at_most.items()}
    found = [f"{ratio:.2f} of {name}, goal {goal:.2f}" for name, (ratio, goal) in ratios.items() if ratio > goal]
    slow = mine > SLOWEST and not isinstance(row.change, BilateralBlur)
    return [*found, f"{mine:.3f} CPU s, goal {SLOWEST}"] if slow else found


def seconds(call: Call, number: int) -> float:
    start = time.process_time()
    for _ in range(number):
        call()
    return (time.process_time() - start) / number


def table(results: list[dict[str, object]]) -> str:
    lines = [f"{'CPU ms':22}{'ours':>9}{'albument.':>11}{'imaug':>9}{'kornia':>9}{'ours ÷ fastest':>16}"]
    for row in results:
        peers = row["peers"]
        cells = "".join(f"{1000 * peers[n]:>{w}.2f}" if n in peers else f"{'–':>{w}}" for n, w in WIDTHS)  # type: ignore[operator,index]
        note = "  MISSED: " + "; ".join(row["missed"]) if row["missed"] else ""  # type: ignore[arg-type]
        lines.append(f"{row['name']:22}{1000 * row['ours']:9.2f}{cells}{row['ratio']:16.3f}{note}")  # type: ignore[operator,str-format]
    missed = sum(bool(row["missed"]) for row in results)
    goals = "brightness and contrast ≤ 1.00 of the fastest; other photometric, geometric, blur, flare ≤ 1.05; "
    goals += "fog ≤ 0.1 of albumentations; weather ≤ 0.33 of imaug"
    verdict = f"missed by {missed} of {len(results)} changes" if missed else "met"
    return "\n".join([*lines, f"goals: {goals}; all but bilateral ≤ 100: {verdict}"])


WIDTHS = (("albumentations", 11), ("imaug", 9), ("kornia", 9))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    pixels, results = frame(), []
    for row in rows(pixels):
        if options.only in row.name:
            check_same(row, pixels)
            results.append(measure(row, pixels, options.repeats))
    print(json.dumps(results) if options.json else table(results))
    return 1 if any(row["missed"] for row in results) else 0


if __name__ == "__main__":
    sys.exit(main())
