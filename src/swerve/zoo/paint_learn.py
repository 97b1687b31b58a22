"""How painters learn: the losses of pix2pixHD on windows of labelled pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from swerve.core.arguments import check_number, check_whole
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.train.loop import Checkpoint, Fitted, Recipe, Task, fit, shuffled
from swerve.translation.painter import FeatureCritic, Painter, PainterDesign
from swerve.translation.painting import Painting
from swerve.translation.window_batch import WindowBatch, batch_of
from swerve.zoo.paint_data import ObjectWindows, WindowSets

BETAS = (0.5, 0.999)  # of Adam, as in the paper
LOOKS = 10  # clusters of appearance for each kind, as in the paper
AT_ONCE = 16
FEWEST_LOOKS = 4  # objects of a kind, below which it is not drawn


@dataclass(frozen=True)
class PainterRecipe:
    """How a painter is trained; what the paper does otherwise is in `docs/iatg.md`.

    Args:
        side: of the square windows, a multiple of 16.
        critic: width of the discriminators.
        features: weight of the distance between what a discriminator finds in real and in painted pictures; 10 in the paper.
        levels: weight of the distance between their colours; the paper has a perceptual loss in its place.
        coarse: weight of the same for the picture of the coarse generator, which the paper trains first.
    """

    side: int = 96
    passes: int = 12
    batch: int = 8
    rate: float = 4e-4
    width: int = 16
    residuals: int = 4
    finer: int = 1
    appearance: int = 3
    critic: int = 24
    features: float = 10.0
    levels: float = 8.0
    coarse: float = 4.0
    average: float = 0.995
    bfloat16: bool = False

    def __post_init__(self) -> None:
        for name in ("side", "critic"):
            check_whole(name, getattr(self, name), 1)
        for name in ("features", "levels", "coarse"):
            check_number(name, getattr(self, name), 0)
        _ = self.loop

    @property
    def loop(self) -> Recipe:
        """Passes and rates of the training loop."""
        numbers = {"average": self.average, "one_cycle": True, "betas": BETAS}
        return Recipe(self.passes, self.batch, self.rate, 1e-4, self.passes, **numbers)  # type: ignore[arg-type]

    def design(self, classes: int) -> PainterDesign:
        """The network for so many classes."""
        return PainterDesign(classes, self.width, self.residuals, self.finer, self.appearance)

    def further(self, start: Painting) -> PainterRecipe:
        """The same for a network as large as `start`, to be trained further."""
        design = start.about.design
        sizes = {name: getattr(design, name) for name in ("width", "residuals", "finer", "appearance")}
        return replace(self, side=start.about.side, **sizes)


class PainterLearner(nn.Module):
    """A painter and its discriminators."""

    def __init__(self, recipe: PainterRecipe, classes: int) -> None:
        super().__init__()
        self.painter = Painter(recipe.design(classes))
        self.critic = FeatureCritic(classes + 1 + 3, recipe.critic)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, a=0.2)
                nn.init.zeros_(part.bias)  # type: ignore[arg-type]

    def begin_with(self, start: Painting, classes: Sequence[str]) -> None:
        """Take over the weights of a painter; those of a layer for a class go to the layer of the class of that name."""
        known = {name: place for place, name in enumerate(start.about.classes)}
        rest = range(len(known), start.about.design.inputs)  # outlines and appearance
        new = [place for place, name in enumerate(classes) if name in known]
        old = [known[classes[place]] for place in new]
        columns = [*new, *range(len(classes), len(classes) + len(rest))], [*old, *rest]
        own = dict(self.painter.named_parameters())
        with torch.no_grad():
            for name, part in start.net.named_parameters():
                if own[name].shape == part.shape:
                    own[name].copy_(part)
                else:
                    own[name][:, columns[0]] = part[:, columns[1]]


@dataclass(eq=False)
class PainterLoss:
    """The loss of one step; that of the discriminators touches other weights than the rest, so one step serves both."""

    learner: PainterLearner
    sets: WindowSets
    recipe: PainterRecipe
    rng: np.random.Generator
    classes: int = field(init=False)

    def __post_init__(self) -> None:
        self.classes = len(self.sets.classes)

    def __call__(self, chosen: Array) -> Tensor:
        """The sum of all losses."""
        batch = self._batch(chosen)
        painter, recipe = self.learner.painter, self.recipe
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bfloat16):
            maps = batch.maps(painter.encoder(batch.pictures, batch.regions))
            painted = painter(maps).float()
            small = painter.small(maps).float()
            fooled, features = self._fooled(batch, painted)
            judged = self._judged(batch, painted.detach())
        coarse = _apart(small, functional.avg_pool2d(batch.pictures, 2))
        levels = recipe.levels * _apart(painted, batch.pictures) + recipe.coarse * coarse
        return fooled + recipe.features * features + levels + judged

    def _batch(self, chosen: Array) -> WindowBatch:
        windows = [self.sets.train.at(int(place)) for place in chosen]
        batch = batch_of(windows, self.classes)
        if self.rng.random() < 0.5:
            return WindowBatch(*(part.flip(-1) for part in (batch.pictures, batch.layers, batch.regions)))
        return batch

    def _fooled(self, batch: WindowBatch, painted: Tensor) -> tuple[Tensor, Tensor]:
        """How far discriminators are from taking painted pictures for real, and how differently they see both."""
        critic = self.learner.critic
        frozen = {name: part.detach() for name, part in critic.named_parameters()}
        found = functional_call(critic, frozen, (torch.cat([batch.layers, painted], 1),))
        with torch.no_grad():
            real = critic(torch.cat([batch.layers, batch.pictures], 1))
        fooled = torch.stack([((scale[-1].float() - 1) ** 2).mean() for scale in found]).sum()
        ours, theirs = ([layer.float() for scale in scales for layer in scale[:-1]] for scales in (found, real))
        return fooled, torch.stack([_apart(one, two) for one, two in zip(ours, theirs, strict=True)]).mean()

    def _judged(self, batch: WindowBatch, painted: Tensor) -> Tensor:
        losses = []
        both = torch.cat([torch.cat([batch.layers, part], 1) for part in (batch.pictures, painted)])
        count = len(painted)
        for scale in self.learner.critic(both):
            last = scale[-1].float()
            losses.append(((last[:count] - 1) ** 2).mean() + (last[count:] ** 2).mean())
        return 0.5 * torch.stack(losses).sum()


def _apart(one: Tensor, two: Tensor) -> Tensor:
    return (one - two).abs().mean()


def learn_painter(
    sets: WindowSets,
    recipe: PainterRecipe,
    *,
    seed: int = 7,
    start: Painting | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Painter, Fitted]:
    """A trained painter; the same seed and threads give the same one, and torch's own generator is left alone.

    With `start` it is that painter trained further; the recipe must be `recipe.further(start)`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learner = PainterLearner(recipe, len(sets.classes))
        if start:
            learner.begin_with(start, sets.classes)
        rng = rng_for(seed, "painter")
        loss = PainterLoss(learner, sets, recipe, rng)
        task = Task(
            shuffled(len(sets.train), recipe.batch, rng),
            loss,
            lambda: painted_error(learner.painter, sets.held, loss.classes),
        )
        fitted = fit(learner, task, recipe.loop, rng=rng, progress=progress, checkpoint=checkpoint)
    return learner.painter.eval(), fitted


def painted_error(painter: Painter, held: ObjectWindows, classes: int) -> float:
    """The mean difference between the colours of held-out windows and of their paintings, in shares of the levels."""
    painter.eval()
    errors = []
    with torch.inference_mode():
        for start in range(0, len(held), AT_ONCE):
            batch = batch_of([held.at(place) for place in range(start, min(start + AT_ONCE, len(held)))], classes)
            painted = painter(batch.maps(painter.encoder(batch.pictures, batch.regions)))
            errors += (painted - batch.pictures).abs().mean((1, 2, 3)).tolist()
    return float(np.mean(errors)) / 2


def looks_of(
    painter: Painter, windows: ObjectWindows, classes: int, *, seed: int
) -> Mapping[str, tuple[tuple[float, ...], ...]]:
    """For every kind the centres of the clusters that the appearances of its objects form."""
    rows = appearances(painter, windows, classes)
    kinds = sorted(set(windows.kind))
    found = {}
    for kind in kinds:
        own = rows[[place for place, name in enumerate(windows.kind) if name == kind]]
        if len(own) >= FEWEST_LOOKS:
            count = min(LOOKS, len(own) // 2)
            rng = rng_for(seed, "looks", kind)
            centres = kmeans2(own.astype(np.float64), count, minit="++", rng=rng)[0]
            found[kind] = tuple(tuple(round(float(number), 4) for number in row) for row in centres)
    return found


def appearances(painter: Painter, windows: ObjectWindows, classes: int) -> Array:
    """The appearance of the object of each window."""
    painter.eval()
    rows = []
    with torch.inference_mode():
        for start in range(0, len(windows), AT_ONCE):
            places = range(start, min(start + AT_ONCE, len(windows)))
            batch = batch_of([windows.at(place) for place in places], classes)
            every = painter.encoder(batch.pictures, batch.regions)
            for place, regions in zip(places, batch.regions, strict=True):
                own = regions.numpy()[windows.instances[place] == windows.number[place]]
                rows.append(every[int(own[0])].numpy())
    return np.stack(rows)
