"""How translators learn: the losses of MUNIT and UNIT on pictures of two kinds, none of which belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from swerve.core.arguments import check_known, check_number, check_whole
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.train.loop import Checkpoint, Recipe, Task, fit
from swerve.translation.edges import edge_correlation
from swerve.translation.generator import SOURCE, TARGET, check_size
from swerve.translation.looks import look_distance
from swerve.translation.translator import (
    KINDS,
    MUNIT,
    PUBLISHED,
    UNIT,
    Critic,
    Design,
    Translator,
    pictures_of,
    pixels_of,
    split,
)

SLIM = Design()
BETAS = (0.5, 0.999)  # of Adam, as in both papers
AXIS = 1.5  # how far one number of a style is moved, to see whether it does anything
DRAWN = 4  # pictures in a batch of the warm-up, and of real and of translated ones for a discriminator
PRIOR = 0.01  # weight of the squared numbers of styles
BLURRED = 0.3  # deviation that is added to a partner's style, so that near styles look alike


@dataclass(frozen=True)
class StyleRecipe:
    """How a translator is trained; what the papers do otherwise is in `docs/tactic.md`.

    Args:
        kind: `munit`, or `unit`, whose decoders have no style and whose content is noisy in training.
        width: of the pictures; `height` likewise, both multiples of 4.
        steps: of each of the `passes`, after which the look of translated pictures is measured.
        warm: first steps, in which pictures are only reconstructed.
        pool: translated pictures of earlier steps that a discriminator sees again.
        back: one step in so many translates in the other direction, too.
        steady: of the moving average of the weights, which is what is kept.
        paired: whether picture k of the target shows the same place as picture k of the source: the network then learns to
            translate a picture to its partner, in the partner's style, and random styles begin after the warm-up.
        one_cycle: whether `rate` is the peak of a schedule, instead of constant.
        mixed: whether products are computed in bfloat16, which is faster where the processor has it.
    """

    kind: str = MUNIT
    design: Design = SLIM
    width: int = 128
    height: int = 72
    passes: int = 16
    steps: int = 75
    batch: int = 2
    rate: float = 4e-4
    warm: int = 150
    critic: int = 32
    pool: int = 40
    back: int = 3
    steady: float = 0.998
    reconstruction: float = 10.0
    content: float = 1.0
    style: float = 4.0
    realism: float = 2.0
    cycle: float = 0.0
    noise: float = 0.0
    prior: float = 0.0
    axes: float = 1.0
    axis_effect: float = 0.06  # levels, of 2, by which each number of a style should move a picture
    paired: bool = False
    one_cycle: bool = False
    mixed: bool = False

    def __post_init__(self) -> None:
        check_known("kind of translator", self.kind, KINDS)
        for name in ("passes", "steps", "batch", "critic", "back"):
            check_whole(name, getattr(self, name), 1)
        check_number("rate", self.rate, 0, 1, above=True)
        check_number("steady", self.steady, 0, 1)
        check_size(self.width, self.height)

    @property
    def loop(self) -> Recipe:
        """Passes and rates of the training loop."""
        return Recipe(self.passes, self.batch, self.rate, 1e-4, self.passes, self.one_cycle, BETAS)


RECIPES: Mapping[str, StyleRecipe] = MappingProxyType(
    {
        MUNIT: StyleRecipe(),
        UNIT: StyleRecipe(UNIT, Design(style=0), style=0.0, axes=0.0, cycle=10.0, noise=1.0, prior=0.01),
    }
)

# A partner teaches more in a step than two discriminators do, so these join late, and there is no way back. Partners differ
# among themselves, so a number of a style needs less of a push to matter.
_PAIRED = StyleRecipe(passes=22, warm=1200, rate=8e-4, steady=0.99, axes=0.3, axis_effect=0.03, paired=True, one_cycle=True)
PAIRED: Mapping[str, StyleRecipe] = MappingProxyType(
    {
        MUNIT: _PAIRED,
        UNIT: replace(
            _PAIRED, kind=UNIT, passes=16, warm=900, design=Design(style=0), style=0.0, axes=0.0, noise=0.3, prior=0.01
        ),
    }
)


def published(recipe: StyleRecipe) -> StyleRecipe:
    """The recipe with the networks of the papers in their widths."""
    return replace(recipe, design=replace(PUBLISHED, style=recipe.design.style), critic=PUBLISHED.width)


def has_fast_bfloat16() -> bool:
    """Whether products of bfloat16 are fast: on a graphics processor, or with instructions for them."""
    if torch.cuda.is_available():
        return True
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16"))


@dataclass(frozen=True, eq=False)
class PictureSets:
    """Pictures of two kinds to learn from and to measure with, each number x rows x columns x RGB bytes."""

    source: Array
    target: Array
    val_source: Array
    val_target: Array


class StyleLearner(nn.Module):
    """A translator with its moving average, two discriminators, and the pictures that they see again."""

    seen: Tensor
    seen_count: Tensor
    step: Tensor

    def __init__(self, recipe: StyleRecipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.net = Translator(recipe.design)
        guided = recipe.design.guided
        self.critics = nn.ModuleList(Critic(recipe.critic, guided=guided) for _ in (SOURCE, TARGET))
        for part in (self.net, self.critics):
            part.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as pictures are
        self.average = deepcopy(self.net).requires_grad_(False)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(2, max(1, recipe.pool), recipe.height, recipe.width, 3, dtype=torch.uint8))
        self.register_buffer("seen_count", torch.zeros(2, dtype=torch.int64))

    @property
    def device(self) -> torch.device:
        """Where it learns."""
        return self.step.device

    def follow(self) -> None:
        """Move the average towards the weights as the last step left them."""
        share = 1 - min(self.recipe.steady, (float(self.step) + 1) / (float(self.step) + 10))
        with torch.no_grad():
            for kept, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
                kept.lerp_(now, share)


@dataclass(eq=False)
class StyleLoss:
    """The loss of one step on pictures of both kinds."""

    learner: StyleLearner
    sets: PictureSets
    rng: np.random.Generator
    recipe: StyleRecipe = field(init=False)

    def __post_init__(self) -> None:
        self.recipe = self.learner.recipe

    def __call__(self, chosen: Array) -> Tensor:
        """The sum of all losses; those of the discriminators touch other weights than the rest, so one step serves all."""
        self.learner.follow()
        step = int(self.learner.step)
        self.learner.step += 1
        with torch.autocast(self.learner.device.type, torch.bfloat16, enabled=self.recipe.mixed):
            return self._loss(chosen, step)

    def _loss(self, chosen: Array, step: int) -> Tensor:
        recipe = self.recipe
        if recipe.paired:
            return self._partners(chosen, alone=step < recipe.warm)
        if step < recipe.warm:
            return self._warm_up()
        ours = self._some(self.sets.source, numbers=chosen)
        theirs = self._some(self.sets.target, len(chosen))
        loss = self._direction(ours, theirs, SOURCE)
        if step % recipe.back == 0:
            loss = loss + self._direction(theirs, ours, TARGET)
        return loss

    def _some(self, pixels: Array, count: int = 0, *, numbers: Array | None = None) -> Tensor:
        chosen = self.rng.integers(len(pixels), size=count) if numbers is None else numbers
        pictures = pictures_of(self._given(pixels[chosen]))
        return pictures.flip(3) if self.rng.random() < 0.5 else pictures

    def _given(self, numbers: Array) -> Tensor:
        """An array as a tensor where the network is."""
        return torch.from_numpy(numbers).to(self.learner.device)

    def _normal(self, shape: Sequence[int]) -> Tensor:
        return self._given(self.rng.standard_normal(tuple(shape)).astype(np.float32))

    def _styles(self, count: int) -> Tensor:
        return self._normal((count, self.recipe.design.style))

    def _noisy(self, content: Tensor) -> Tensor:
        if not self.recipe.noise:
            return content
        return content + self.recipe.noise * self._normal(content.shape)

    def _warm_up(self) -> Tensor:
        total = torch.zeros((), device=self.learner.device)
        for side, pixels in ((SOURCE, self.sets.source), (TARGET, self.sets.target)):
            pictures = self._some(pixels, DRAWN)
            again, style, _ = self._reconstruction(pictures, side)
            total = total + _apart(again, pictures) + PRIOR * (style**2).sum() / max(1, style.numel())
        return total

    def _reconstruction(self, pictures: Tensor, side: int) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        net = self.learner.net
        content, detail = split(net, pictures, side)
        style = net.style(pictures, side)
        return net.decode(self._noisy(content), style, detail, side), style, (content, detail)

    def _partners(self, chosen: Array, *, alone: bool) -> Tensor:
        """Reconstruct pictures and translate them to their partners, and unless `alone` in random styles, too."""
        recipe, net = self.recipe, self.learner.net
        ours, theirs = (pictures_of(self._given(pixels[chosen])) for pixels in (self.sets.source, self.sets.target))
        if self.rng.random() < 0.5:
            ours, theirs = ours.flip(3), theirs.flip(3)
        again, _, (content, detail) = self._reconstruction(ours, SOURCE)
        style = net.style(theirs, TARGET)
        partner = net.decode(self._noisy(content), style + BLURRED * self._styles(len(ours)), detail, TARGET)
        loss = recipe.reconstruction * (_apart(again, ours) + _apart(partner, theirs))
        loss = loss + PRIOR * (style**2).sum() / max(1, style.numel())
        return loss if alone else loss + self._invented(ours, theirs, (content, detail), SOURCE)

    def _direction(self, ours: Tensor, theirs: Tensor, side: int) -> Tensor:
        """Reconstruct pictures of both kinds, and translate `ours`, which are of the kind `side`, to the other."""
        again, _, code = self._reconstruction(ours, side)
        known = _apart(again, ours) + _apart(self._reconstruction(theirs, 1 - side)[0], theirs)
        return self.recipe.reconstruction * known + self._invented(ours, theirs, code, side)

    def _invented(self, ours: Tensor, theirs: Tensor, code: tuple[Tensor, Tensor], side: int) -> Tensor:
        """Translate `ours` in random styles: as real as `theirs`, with the content of `ours`, in the style drawn."""
        recipe, net, other = self.recipe, self.learner.net, 1 - side
        content, detail = code
        style = self._styles(len(ours))
        translated = net.decode(self._noisy(content), style, detail, other)
        content_again, detail_again = split(net, translated, other)
        loss = recipe.content * _apart(content_again, content)
        if recipe.style:
            loss = loss + recipe.style * _apart(net.style(translated, other), style)
        if recipe.cycle:
            home = net.decode(self._noisy(content_again), net.style(ours, side), detail_again, side)
            loss = loss + recipe.cycle * _apart(home, ours)
        if recipe.prior:
            loss = loss + recipe.prior * ((content**2).mean() + (content_again**2).mean())
        if recipe.axes:
            loss = loss + recipe.axes * self._idle_axes(translated, content, style, detail, other)
        return loss + recipe.realism * self._fooled(translated, other) + self._judged(theirs, translated.detach(), other)

    def _idle_axes(self, translated: Tensor, content: Tensor, style: Tensor, detail: Tensor, side: int) -> Tensor:
        """How much too little one number of the style, drawn for each picture, moves it: otherwise styles fall together."""
        count = len(style)
        moved = torch.zeros_like(style)
        signs = self._given(self.rng.choice(np.array([-AXIS, AXIS], np.float32), count))
        moved[torch.arange(count), self._given(self.rng.integers(style.shape[1], size=count))] = signs
        other = self.learner.net.decode(content, style + moved, detail, side)
        effect = (other - translated).abs().mean((1, 2, 3)) / AXIS
        return (1 - effect / self.recipe.axis_effect).clamp(min=0).mean()

    def _fooled(self, translated: Tensor, side: int) -> Tensor:
        critic = self.learner.critics[side]
        frozen = {name: part.detach() for name, part in critic.named_parameters()}
        return torch.stack([((found - 1) ** 2).mean() for found in functional_call(critic, frozen, (translated,))]).sum()

    def _judged(self, real: Tensor, translated: Tensor, side: int) -> Tensor:
        """The discriminators' own loss, on more real pictures, and on translated ones of now and before."""
        pixels = self.sets.target if side == TARGET else self.sets.source
        more = self._some(pixels, max(0, DRAWN - len(real)))
        false = torch.cat([translated, self._seen_before(translated, side)])
        true = torch.cat([real, more])
        losses = []
        for found in self.learner.critics[side](torch.cat([true, false])):
            losses.append(((found[: len(true)] - 1) ** 2).mean() + (found[len(true) :] ** 2).mean())
        return torch.stack(losses).sum()

    def _seen_before(self, translated: Tensor, side: int) -> Tensor:
        """Translated pictures of earlier steps; those of now are remembered."""
        learner, size = self.learner, self.recipe.pool
        count = int(learner.seen_count[side])
        wanted = max(0, DRAWN - len(translated)) if count else 0
        places = self.rng.integers(min(count, size), size=wanted) if wanted and size else np.zeros(0, np.int64)
        before = pictures_of(learner.seen[side][self._given(places)])
        for pixels in pixels_of(translated) if size else ():
            at = count if count < size else int(self.rng.integers(size))
            learner.seen[side][at] = pixels
            count += 1
        learner.seen_count[side] = count
        return before


def _apart(one: Tensor, two: Tensor) -> Tensor:
    return (one - two).abs().mean()


@dataclass(frozen=True, eq=False)
class LearntStyle:
    """A trained translator, and the CPU minutes that its training took, those before an interruption included."""

    net: Translator
    minutes: float


def learn_style(
    sets: PictureSets,
    recipe: StyleRecipe,
    *,
    seed: int = 7,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    watch: Callable[[Translator], object] = bool,
) -> LearntStyle:
    """A trained translator; the same seed and threads give the same one, and torch's own generator is left alone.

    `watch` gets the translator as it is after every pass.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learner = StyleLearner(recipe).to("cuda" if torch.cuda.is_available() else "cpu")
        rng = rng_for(seed, "style", recipe.kind)

        def measured() -> float:
            watch(learner.average)
            return look_error(learner, sets)

        task = Task(_batches(len(sets.source), recipe, rng), StyleLoss(learner, sets, rng), measured)
        fitted = fit(learner, task, recipe.loop, rng=rng, progress=progress, checkpoint=checkpoint)
    average: Translator = learner.average
    return LearntStyle(average.cpu().eval(), fitted.minutes)


def _batches(count: int, recipe: StyleRecipe, rng: np.random.Generator) -> Callable[[int], Sequence[Array]]:
    return lambda _: [rng.integers(count, size=recipe.batch) for _ in range(recipe.steps)]


def look_error(learner: StyleLearner, sets: PictureSets) -> float:
    """How far translated pictures look from real ones of the target, and how much of the road's edges they lose.

    With pairs, edges should be kept as the partners keep them, neither better nor worse.
    """
    rng = rng_for(0, "look of translated pictures")
    styles = rng.standard_normal((len(sets.val_source), learner.recipe.design.style)).astype(np.float32)
    translated = translations(learner.average, sets.val_source, styles)
    wanted = edges_kept(sets.val_source, sets.val_target) if learner.recipe.paired else 1.0
    return look_distance(translated, sets.val_target) + abs(wanted - edges_kept(sets.val_source, translated))


def edges_kept(before: Array, after: Array) -> float:
    """The mean correlation of edges of pictures of the same places."""
    return float(np.mean([edge_correlation(*pair) for pair in zip(before, after, strict=True)]))


def translations(net: Translator, pixels: Array, styles: Array) -> Array:
    """Pictures of the source's kind, each in a style of its own."""
    found = []
    device = next(net.parameters()).device
    with torch.inference_mode():
        for start in range(0, len(pixels), DRAWN):
            content, detail = split(net, pictures_of(torch.from_numpy(pixels[start : start + DRAWN]).to(device)), SOURCE)
            style = torch.from_numpy(styles[start : start + DRAWN]).to(device)
            found.append(pixels_of(net.decode(content, style, detail, TARGET)).cpu().numpy())
    return np.concatenate(found)
