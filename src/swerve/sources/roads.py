"""Rendered country roads with a known steering angle: cases without a download."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import cv2
import numpy as np

from swerve.case import Case
from swerve.seeding import digest_of, rng_for
from swerve.values import Array, Image, Steering

WIDTH, HEIGHT = 320, 160
RATE = 20.0  # frames per second
FOCAL = 250.0  # pixels: a view of 65 degrees
LOOKAHEAD, WHEELBASE, STEERING_RATIO = 12.0, 2.8, 15.0
MOST = 9999  # keys count with four digits

TILE = 256  # pixels of the noise tile that every texture is read from
LARGEST = 32_000.0
NEAREST, FARTHEST = 4.0, 130.0  # metres: what stands nearer is out of view, what stands farther a few pixels
SLOTS = 64  # roadside places before the row of trees repeats

# Zenith, horizon and light of a clear, a hazy, an overcast and an evening sky.
WEATHERS = (
    ((74, 128, 202), (186, 212, 234), (1.04, 1.02, 0.97)),
    ((128, 164, 204), (214, 222, 224), (1.00, 0.98, 0.94)),
    ((150, 158, 168), (204, 208, 210), (0.86, 0.88, 0.91)),
    ((96, 112, 164), (236, 200, 168), (1.02, 0.92, 0.82)),
)
VERGES = ((92, 124, 58), (112, 136, 64), (84, 108, 66), (134, 126, 74), (132, 106, 78), (190, 168, 122))
LEAVES = ((62, 92, 44), (78, 104, 48), (54, 84, 56), (106, 100, 46), (126, 88, 42))
PAINTS = ((236, 236, 230), (222, 220, 210), (232, 190, 74))


@dataclass(frozen=True)
class Roads:
    """Seeded drives along rendered two-lane roads, with the wheel angle a pure-pursuit driver would hold.

    Frames of a drive follow each other at 20 Hz; splits share no scene.
    """

    drives: int = 20
    frames: int = 2
    seed: int = 7
    split: str = "test"

    def __post_init__(self) -> None:
        for name, low, high in (("drives", 1, MOST), ("frames", 1, MOST), ("seed", 0, 2**63)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{name} must be a whole number from {low} to {high}, got {value!r}")
        if not isinstance(self.split, str) or not re.fullmatch("[a-z][a-z0-9_]*", self.split):
            raise ValueError(f"split must be a lower-case word such as 'train' or 'test', got {self.split!r}")

    def keys(self) -> Sequence[str]:
        """`test-0003/0001`: split, drive and frame, in driving order."""
        return [self._key(drive, frame) for drive in range(self.drives) for frame in range(self.frames)]

    def group(self, key: str) -> str:
        """The drive of `key`."""
        self._place(key)
        return key.partition("/")[0]

    def __getitem__(self, key: str) -> Case:
        drive, frame = self._place(key)
        scene = _scene(self.seed, self.split, drive)
        at = frame * scene.speed / RATE
        pixels = _render(scene, at, rng_for("roads", self.seed, key))
        return Case(key, {"camera": Image(pixels)}, (Steering(_steer(scene.path, at)),), group=self.group(key))

    def fingerprint(self) -> str:
        """A hash of the fields and of everything that draws."""
        fields = (self.drives, self.frames, self.seed, self.split)
        return digest_of("Roads", *fields, _own_source(), np.__version__, cv2.__version__)

    def _key(self, drive: int, frame: int) -> str:
        return f"{self.split}-{drive:04d}/{frame:04d}"

    def _place(self, key: str) -> tuple[int, int]:
        numbers = re.fullmatch(rf"{self.split}-([0-9]{{4}})/([0-9]{{4}})", key)
        drive, frame = map(int, numbers.groups()) if numbers else (MOST, MOST)
        if drive >= self.drives or frame >= self.frames:
            first, last = self._key(0, 0), self._key(self.drives - 1, self.frames - 1)
            raise KeyError(f"no road {key!r}: keys run from {first} to {last}")
        return drive, frame


@cache
def _own_source() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


@dataclass(frozen=True)
class _Path:
    """A lane of curvature `bend + wave·sin(pulse·s + phase)` and a car weaving about its centre; left is positive."""

    bend: float  # 1/m
    wave: float  # 1/m
    pulse: float  # 1/m
    phase: float
    drift: float  # m
    sway: float  # 1/m
    start: float

    def offset(self, at: float) -> float:
        """Metres of the car left of the lane centre."""
        return self.drift * math.sin(self.sway * at + self.start)

    def slant(self, at: float) -> float:
        """Tangent of the car's heading against the lane's."""
        return self.drift * self.sway * math.cos(self.sway * at + self.start)

    def heading(self, s: Array) -> Array:
        """The first integral of the curvature."""
        return self.bend * s - self.wave / self.pulse * np.cos(self.pulse * s + self.phase)

    def shift(self, s: Array) -> Array:
        """The second integral of the curvature."""
        return self.bend * s**2 / 2 - self.wave / self.pulse**2 * np.sin(self.pulse * s + self.phase)

    def lane(self, at: float, ahead: Array) -> tuple[Array, Array]:
        """Where the lane centre lies `ahead` of a car at `at`, metres to its left, and the slope there."""
        here = np.asarray(at)
        turn = self.heading(at + ahead) - self.heading(here)
        left = self.shift(at + ahead) - self.shift(here) - self.heading(here) * ahead
        return left - self.offset(at) - self.slant(at) * ahead, turn - self.slant(at)


def _steer(path: _Path, at: float) -> float:
    """Steering-wheel degrees that take the rear axle through the lane centre at the lookahead distance."""
    ahead = np.asarray(LOOKAHEAD)
    for _ in range(3):  # the point on the circle of that radius, not on the line across it
        left = path.lane(at, ahead)[0]
        ahead = np.sqrt(np.maximum(LOOKAHEAD**2 - left**2, 1.0))
    bearing = math.atan2(float(left), float(ahead))
    wheels = math.atan(2 * WHEELBASE * math.sin(bearing) / LOOKAHEAD)
    return math.degrees(wheels) * STEERING_RATIO


@dataclass(frozen=True)
class _Scene:
    """Every number of one drive; colours are 3x1x1, RGB of 0..255."""

    path: _Path
    speed: float  # m/s
    horizon: float  # pixel row
    height: float  # m of the camera
    lane: float  # m of width
    zenith: Array
    skyline: Array
    light: Array
    clouds: float
    sight: float  # m until haze takes two thirds
    verge: Array
    asphalt: Array
    gravel: Array
    leaves: Array
    paints: tuple[Array, Array]  # of the centre and of the edges
    strokes: tuple[float, float]  # m of width
    dash: tuple[float, float]  # m painted, m of period
    paved: float  # m of asphalt outside the edge line
    roughness: float
    hills: Array
    spacing: float  # m between trees
    trees: Array  # side and slot: place, distance, height, kind
    posts: float  # m between delineators, 0 for none
    texture: Array  # where in the noise tile this drive reads


@lru_cache(maxsize=16)
def _scene(seed: int, split: str, drive: int) -> _Scene:
    rng = rng_for("roads", seed, split, drive)
    zenith, skyline, light = WEATHERS[rng.integers(len(WEATHERS))]
    grey = rng.uniform(72, 138)
    return _Scene(
        path=_path(rng),
        speed=rng.uniform(10, 22),
        horizon=rng.uniform(60, 70),
        height=rng.uniform(1.3, 1.5),
        lane=rng.uniform(3.2, 3.8),
        zenith=_near(rng, zenith),
        skyline=_near(rng, skyline),
        light=_colour(light) * np.float32(rng.uniform(0.8, 1.12)),
        clouds=rng.uniform(0.0, 1.0),
        sight=rng.uniform(120, 600),
        verge=_near(rng, VERGES[rng.integers(len(VERGES))]),
        asphalt=_near(rng, (grey, grey, grey * 1.03), 4),
        gravel=_near(rng, (grey * 0.5 + 76, grey * 0.5 + 68, grey * 0.5 + 54)),
        leaves=_near(rng, LEAVES[rng.integers(len(LEAVES))]),
        paints=(_near(rng, PAINTS[rng.integers(3)], 5), _near(rng, PAINTS[rng.integers(2)], 5)),
        strokes=(rng.uniform(0.12, 0.2), rng.uniform(0.12, 0.26)),
        dash=(rng.uniform(3, 5), rng.uniform(8, 13)),
        paved=rng.uniform(0.2, 0.7),
        roughness=rng.uniform(0.3, 1.0),
        hills=rng.uniform((0.0, 0.01, 0.0), (0.12, 0.05, 2 * np.pi)).astype(np.float32),
        spacing=rng.uniform(7, 40),
        trees=rng.uniform(0, 1, (2, SLOTS, 4)),
        posts=float(rng.choice([0.0, 25.0, 33.0])),
        texture=rng.uniform(0, TILE, 2).astype(np.float32),
    )


def _path(rng: np.random.Generator) -> _Path:
    turns = rng.uniform(0, 2 * np.pi, 2)
    bend = float(np.clip(rng.normal(0, 0.0078), -0.02, 0.02))
    wave, drift = rng.uniform(0, 0.005), rng.uniform(0.05, 0.55)
    pulse, sway = 2 * np.pi / rng.uniform(150, 350), 2 * np.pi / rng.uniform(60, 120)
    return _Path(bend, wave, pulse, turns[0], drift, sway, turns[1])


def _colour(rgb: Sequence[float] | Array) -> Array:
    return np.asarray(rgb, np.float32).reshape(3, 1, 1)


def _near(rng: np.random.Generator, rgb: Sequence[float], spread: float = 10) -> Array:
    return _colour(rgb + rng.uniform(-spread, spread, 3))


def _render(scene: _Scene, at: float, rng: np.random.Generator) -> Array:
    top = math.ceil(scene.horizon)
    canvas = np.empty((3, HEIGHT, WIDTH), np.float32)  # colour first: numpy is slow along an axis of three
    canvas[:, :top] = _sky(scene, at, np.arange(top, dtype=np.float32)[:, None])
    canvas[:, top:] = _ground(scene, at, np.arange(top, HEIGHT, dtype=np.float32)[:, None] + 0.5)
    for thing, left in _roadside(scene, at):
        _stand(canvas, scene, thing, left)
    canvas *= scene.light
    canvas += 2.0 * rng.standard_normal((HEIGHT, WIDTH), np.float32)
    return cv2.merge(list(np.clip(canvas, 0, 255, out=canvas).astype(np.uint8)))


@cache
def _tile() -> Array:
    """Noise around 0 with a spread near 1 that repeats without a seam."""
    waves = np.fft.fftfreq(TILE)
    size = np.hypot(waves[:, None], waves[None, :])
    white = np.fft.fft2(rng_for("roads", "tile").standard_normal((TILE, TILE)))
    soft = np.fft.ifft2(white / np.maximum(size, 2 / TILE) * (size > 0)).real
    return np.asarray(soft / soft.std(), np.float32)


def _noise(x: Array, y: Array) -> Array:
    """The tile read at `x`, `y` in pixels of it, repeated for ever."""
    # remap counts in 16 bits; what lies beyond is too far to show any grain.
    near = np.clip(x, -LARGEST, LARGEST), y % TILE
    across, down = (np.ascontiguousarray(part, np.float32) for part in np.broadcast_arrays(*near))
    return cv2.remap(_tile(), across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)


def _mix(under: Array, over: Array, share: Array | float) -> Array:
    mixed = (over - under) * share
    mixed += under
    return mixed


def _columns() -> Array:
    """How far left of the middle each column looks, as a tangent."""
    return ((WIDTH / 2 - np.arange(WIDTH, dtype=np.float32) - 0.5) / FOCAL)[None, :]


def _sky(scene: _Scene, at: float, rows: Array) -> Array:
    heading = float(scene.path.heading(np.asarray(at))) + scene.path.slant(at)
    rise = (scene.horizon - rows) / FOCAL
    far = 1 / (rise + 0.07)
    x, y = scene.texture
    puffs = _noise(x + 60 * heading % TILE + 9 * _columns() * (3 + far), y + 13 * far)
    cover = np.clip((puffs - 1.3 + 1.6 * scene.clouds) * 0.7, 0, 0.85) * np.clip(rise * 14, 0, 1)
    sky = _mix(scene.skyline, scene.zenith, np.clip(rise * 4, 0, 1) ** 0.7)
    sky = _mix(sky, 0.35 * scene.skyline + 160, cover)
    return _far_view(scene, sky, heading + _columns(), rows)


def _far_view(scene: _Scene, sky: Array, bearings: Array, rows: Array) -> Array:
    """Hills and the tree line, each fainter the farther it stands; they turn as the car does."""
    high, low, phase = scene.hills
    x, y = scene.texture
    ridges = (
        (high * (0.6 + 0.4 * np.sin(2.1 * bearings + phase)) + 0.01 * _noise(30 * bearings % TILE, y), 0.7),
        (high * (0.3 + 0.3 * np.sin(3.7 * bearings + 2 * phase)) + 0.01 * _noise(50 * bearings % TILE, x), 0.5),
        (low * (0.6 + 0.3 * _noise(160 * bearings % TILE, x + y)), 0.25),
    )
    for ridge, faint in ridges:
        colour = _mix(scene.leaves, scene.skyline * 0.9, faint)
        sky = _mix(sky, colour, np.clip(rows - scene.horizon + FOCAL * ridge + 0.5, 0, 1))
    return sky


def _ground(scene: _Scene, at: float, rows: Array) -> Array:
    ahead = FOCAL * scene.height / (rows - scene.horizon)
    centre, slope = scene.path.lane(at, ahead)
    left = _columns() * ahead
    side = np.asarray((left - centre) / np.hypot(1, slope), np.float32)
    # Metres one pixel spans across the road: what keeps far markings from flickering.
    blur = np.hypot(np.asarray(ahead / FOCAL, np.float32), np.gradient(side, axis=0))
    ground = _earth(scene, at + ahead, side, blur)
    ground = _mix(ground, _tarmac(scene, at + ahead, side, blur), _stripe(side - scene.lane / 2, _half(scene), blur))
    for share, paint in _markings(scene, at + ahead, side, blur):
        ground = _mix(ground, paint, share)
    return _mix(ground, scene.skyline, np.asarray(_haze(scene, ahead), np.float32))


def _haze(scene: _Scene, ahead: Array) -> Array:
    # Never all of it, or the ground would end in a bright line below the hills.
    return 0.55 * (1 - np.exp(-ahead / scene.sight))


def _half(scene: _Scene) -> float:
    return scene.lane + scene.paved


def _stripe(side: Array, half: float | Array, blur: Array) -> Array:
    """How much of each pixel a stripe around `side` 0 covers."""
    return np.clip((half - np.abs(side)) / blur + 0.5, 0, np.minimum(1, 2 * half / blur))


def _grain(scene: _Scene, along: Array, side: Array, size: float, blur: Array) -> Array:
    """Noise lying on the ground with grains of `size` metres, gone where a pixel is coarser."""
    x, y = scene.texture
    return _noise(x + side / size, y + along / size) * np.clip(1.5 - blur / size, 0, 1)


def _earth(scene: _Scene, along: Array, side: Array, blur: Array) -> Array:
    fine = _grain(scene, along, side, 0.06, blur)
    broad = _grain(scene, along, side, 0.7, blur / 4)
    earth = scene.verge * (1 + 0.10 * fine + 0.07 * broad)
    shoulder = _half(scene) + 0.5 + 0.15 * broad
    share = 0.8 * _stripe(side - scene.lane / 2, shoulder, blur + 0.5)
    return _mix(earth, scene.gravel * (1 + 0.1 * fine), share)


def _tarmac(scene: _Scene, along: Array, side: Array, blur: Array) -> Array:
    fine = scene.roughness * _grain(scene, along, side, 0.03, blur)
    worn = _grain(scene, along, side, 0.4, blur / 4)
    from_wheels = np.abs(np.abs((side + scene.lane / 2) % scene.lane - scene.lane / 2) - 0.8)
    tracks = np.exp(-((from_wheels / 0.3) ** 2))
    return scene.asphalt * (1 + 0.05 * fine + 0.03 * worn - 0.05 * tracks)


def _markings(scene: _Scene, along: Array, side: Array, blur: Array) -> Iterator[tuple[Array, Array]]:
    """The share of paint and its colour, of the dashed centre and of both edges."""
    (centre, edge), (middle, rim) = scene.paints, scene.strokes
    fade = 0.92 - 0.12 * np.abs(_grain(scene, along, side, 0.1, blur))
    yield fade * _stripe(side - scene.lane / 2, middle / 2, blur) * _dashes(along, *scene.dash), centre
    yield fade * _stripe(np.abs(side - scene.lane / 2) - scene.lane, rim / 2, blur), edge


def _dashes(along: Array, painted: float, period: float) -> Array:
    """The painted share of the stretch each row of pixels spans."""
    span = np.maximum(np.abs(np.gradient(along, axis=0)), 1e-3)
    ends = [(s // period) * painted + np.minimum(s % period, painted) for s in (along - span / 2, along + span / 2)]
    return np.asarray((ends[1] - ends[0]) / span, np.float32)


@dataclass(frozen=True)
class _Thing:
    """Something upright by the road: where, how high in metres, and its picture."""

    ahead: float
    side: float
    tall: float
    sprite: Array  # RGBA, 0..1


def _roadside(scene: _Scene, at: float) -> Iterator[tuple[_Thing, float]]:
    """Things from far to near, each with its metres to the left of the car."""
    seen = (thing for thing in _things(scene, at) if thing.ahead >= NEAREST)
    things = sorted(seen, key=lambda thing: -thing.ahead)
    centres, slopes = scene.path.lane(at, np.array([thing.ahead for thing in things]))
    sides = np.array([thing.side for thing in things]) * np.hypot(1, slopes)
    yield from zip(things, (centres + sides).tolist(), strict=True)


def _things(scene: _Scene, at: float) -> Iterator[_Thing]:
    for way, row in zip((-1, 1), scene.trees, strict=True):
        for place in _places(at, scene.spacing):
            jitter, out, tall, kind = row[place % SLOTS]
            ahead = (place + 0.8 * jitter) * scene.spacing - at
            side = scene.lane / 2 + way * (_half(scene) + 3 + 16 * out**2)
            yield _Thing(ahead, side, 4 + 6 * tall, _tree(int(kind * 6)))
        for place in _places(at, scene.posts):
            yield _Thing(place * scene.posts - at, scene.lane / 2 + way * (_half(scene) + 0.6), 1.0, _post())


def _places(at: float, spacing: float) -> range:
    return range(math.floor(at / spacing), math.ceil((at + FARTHEST) / spacing)) if spacing else range(0)


def _stand(canvas: Array, scene: _Scene, thing: _Thing, left: float) -> None:
    """Blend `thing` into the canvas at its place, in its size, through the haze."""
    scale = FOCAL / thing.ahead
    high, wide = thing.sprite.shape[:2]
    tall = thing.tall * scale
    size = max(round(tall * wide / high), 1), max(round(tall), 2)
    x, y = round(WIDTH / 2 - left * scale - size[0] / 2), round(scene.horizon + scene.height * scale) - size[1]
    x0, x1, y0, y1 = max(x, 0), min(x + size[0], WIDTH), max(y, 0), min(y + size[1], HEIGHT)
    if x0 >= x1 or y0 >= y1:
        return
    smooth = cv2.INTER_AREA if size[1] < high else cv2.INTER_LINEAR
    small = cv2.resize(thing.sprite, size, interpolation=smooth)[y0 - y : y1 - y, x0 - x : x1 - x]
    *rgb, alpha = cv2.split(small)
    colour = _mix(np.stack(rgb) * 255, scene.skyline, float(_haze(scene, np.asarray(thing.ahead))))
    canvas[:, y0:y1, x0:x1] = _mix(canvas[:, y0:y1, x0:x1], colour, alpha)


@cache
def _tree(kind: int) -> Array:
    """A broad-leaved tree or a conifer, lit from above."""
    down, across = np.mgrid[0:1:96j, -0.5:0.5:64j].astype(np.float32)
    rough = _noise(across * 70 + 40 * kind, down * 100 + 17 * kind)
    wide = 0.43 * down / 0.85 if kind % 3 == 2 else 0.46 * np.sqrt(np.clip(1 - ((down - 0.42) / 0.42) ** 2, 0, 1))
    crown = np.clip((wide * (1 + 0.16 * rough) - np.abs(across)) * 40, 0, 1) * (down < 0.86)
    trunk = np.clip((0.035 - np.abs(across)) * 60, 0, 1) * (down > 0.5)
    shade = 1.15 - 0.55 * down + 0.16 * rough
    colour = _mix(_colour((0.30, 0.24, 0.18)), _colour(LEAVES[kind % len(LEAVES)]) / 255 * shade, crown)
    return np.dstack([*colour, np.maximum(crown, trunk)]).astype(np.float32)


@cache
def _post() -> Array:
    """A white delineator post with a black band and a reflector."""
    sprite = np.ones((60, 8, 4), np.float32)
    sprite[..., :3] = 0.9
    sprite[8:26, :, :3] = 0.12
    sprite[12:22, 2:6, :3] = (0.85, 0.75, 0.6)
    return sprite
