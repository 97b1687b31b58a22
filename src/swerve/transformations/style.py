"""Pictures in another condition that a translator has learnt, such as night, and the space of its styles."""

# TACTIC (ICML 2021): an environmental condition is a style vector of MUNIT

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_number
from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.space import Over
from swerve.core.system import System
from swerve.core.transformation import ANYTHING, Transformation
from swerve.core.values import Array, Image
from swerve.transformations.photometric import ImageChange
from swerve.translation.packaged import STYLES, packaged

if TYPE_CHECKING:
    from swerve.translation.generator import Generator

DIGITS = 4  # of a style's numbers: finer ones give the same picture


@dataclass(frozen=True)
class Style(ImageChange):
    """The picture in a style of a trained translator; where things are stays the same, and so do all labels.

    Args:
        translator: a file that `swerve style train` has written.
        vector: the numbers of the style; none for a translator of kind `unit`.
    """

    translator: Asset
    vector: tuple[float, ...] = ()
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def __post_init__(self) -> None:
        super().__post_init__()
        for number in self.vector:
            check_number("vector", number)
        object.__setattr__(self, "vector", tuple(round(float(number), DIGITS) + 0.0 for number in self.vector))
        generator = _generator(self.translator)
        if len(self.vector) != generator.numbers:
            raise InputError(f"{self.translator}: its styles have {generator.numbers} numbers, got {len(self.vector)}")

    def image(self, value: Image) -> Image:
        """The picture in the style."""
        if not value.pixels.size:
            return value
        return Image(_generator(self.translator).translated(value.pixels, self.vector, key=value.digest))

    def words(self) -> str:
        """Such as "style 'night' (1.2 0.3 …)"."""
        shown = " ".join(f"{number:.1f}" for number in self.vector)
        return f"style '{_generator(self.translator).about.name}'" + (f" ({shown})" if shown else "")

    def simpler(self) -> Iterator[Transformation]:
        """None: no style leaves the picture as it was."""
        return iter(())


@dataclass(frozen=True)
class Reconstructed(ImageChange):
    """The picture encoded and decoded as what it is: the control for every style, as this alone moves answers."""

    translator: Asset
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def image(self, value: Image) -> Image:
        """The picture as the translator knows it."""
        return Image(_generator(self.translator).reconstructed(value.pixels)) if value.pixels.size else value

    def words(self) -> str:
        """Such as "reconstructed by 'night'"."""
        return f"reconstructed by '{_generator(self.translator).about.name}'"


@dataclass(frozen=True)
class Styles:
    """The styles of a translator, drawn as in its training; `norm` bounds their length, beyond which nothing was learnt.

    A style of eight normal numbers is longer than 4 once in 25 draws.
    """

    translator: Asset
    norm: float = 4.0
    reads: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("norm", self.norm, 0, above=True)

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        """A random style."""
        del case, system
        where = self.coordinates(0)
        return where.change(where.draw(rng))

    def grid(self) -> Sequence[Transformation]:
        """The only style of a translator without style vectors, or nothing."""
        return () if _generator(self.translator).numbers else (Style(self.translator),)

    def coordinates(self, seed: int) -> StyleCoordinates:
        """The style vectors, for a search for conditions."""
        del seed
        numbers = _generator(self.translator).numbers
        if not numbers:
            raise InputError(f"{self.translator}: a translator of kind 'unit' has no styles to search in")
        return StyleCoordinates(self.translator, numbers, self.norm)


def packaged_styles(style: Annotated[str, OneOfNames(*STYLES)] = "night", norm: float = 4.0) -> Styles:
    """The styles of a translator that comes with Swerve: `night`, `sunshine`, `rain`, `snow` or `snow-night`."""
    check_known("style", style, STYLES)
    return Styles(Asset(packaged(style)), norm)


def packaged_reconstruction(style: Annotated[str, OneOfNames(*STYLES)] = "night") -> Over:
    """The control for `packaged_styles`."""
    check_known("style", style, STYLES)
    return Over(Reconstructed, translator=Asset(packaged(style)))


@dataclass(frozen=True)
class StyleCoordinates:
    """Style vectors of a length of at most `norm`."""

    translator: Asset
    numbers: int
    norm: float
    scale: float = 1.0
    neutral: Array | None = None
    ends: tuple[float, float] | None = None

    @property
    def names(self) -> Sequence[str]:
        """What each number of a vector stands for: nothing that has a name."""
        return [f"style {place}" for place in range(1, self.numbers + 1)]

    def draw(self, rng: np.random.Generator) -> Array:
        """A style as in training."""
        return self.inside(rng.standard_normal(self.numbers))

    def inside(self, vector: Array) -> Array:
        """`vector`, shortened if it is too long."""
        length = float(np.linalg.norm(vector))
        return vector * (self.norm / length) if length > self.norm else vector

    def change(self, vector: Array) -> Transformation:
        """The style."""
        return Style(self.translator, tuple(float(number) for number in vector))

    def on_bounds(self, vector: Array) -> Sequence[str]:
        """The length of a style that is as long as allowed."""
        length = float(np.linalg.norm(vector))
        return [f"length {length:.1f}"] if math.isclose(length, self.norm, rel_tol=0.01) else []

    def in_words(self, place: int, vector: Array) -> str:
        """Such as "style 3: 1.2"."""
        return f"style {place + 1}: {vector[place]:.1f}"


def _generator(translator: Asset) -> Generator:
    from swerve.translation.generator import generator_of  # imports torch

    return generator_of(translator)
