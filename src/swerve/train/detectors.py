"""Training of any torch detector: the loss comes from the network, the validation error is 1 - mAP.

A detector is a torch module as torchvision's are. In training mode it is called with a list of images (RGB from 0 to 1,
channels x rows x columns) and a list of targets, and returns its losses by name. In evaluation mode it is called with images
alone and returns for each a dict of `boxes` (n x 4: left, top, right, bottom in pixels), `labels` and `scores`. Labels are
counted from 1; 0 is the background. A target is a dict of `boxes`, `labels` and `ignore`, boxes that count neither way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from swerve.analysis.detection import average_precision
from swerve.core.arguments import check_whole
from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes2D
from swerve.execution.engine import Progress
from swerve.train.labelled_pictures import FIRST, CropRecipe, Crops, LabelledPicture, pictures_of
from swerve.train.loop import Checkpoint, Fitted, Recipe, Task, fit


@dataclass(frozen=True)
class DetectorRecipe:
    """Passes over all pictures, each shown `repeats` times a pass, and how they are cropped; see `Recipe` for the rest."""

    passes: int = 8
    repeats: int = 2
    batch: int = 16
    rate: float = 2e-3  # the peak of one cycle
    decay: float = 0.02
    patience: int = 8
    average: float = 0.998
    clip: float = 10.0
    bfloat16: bool = False  # whether the forward pass of training runs in it, which newer processors do faster
    crops: CropRecipe = field(default_factory=CropRecipe)

    def __post_init__(self) -> None:
        check_whole("repeats", self.repeats, 1, error=InputError)
        _ = self.loop  # checks the rest

    @property
    def loop(self) -> Recipe:
        """The numbers of the training loop."""
        return Recipe(
            passes=self.passes,
            batch=self.batch,
            rate=self.rate,
            decay=self.decay,
            patience=self.patience,
            one_cycle=True,
            average=self.average,
            clip=self.clip,
        )


# Further training of a detector: a quarter of the usual rate, as it may have no normalisation, and an average of the weights
# that follows a short training.
FURTHER = DetectorRecipe(
    repeats=1, batch=12, rate=5e-4, average=0.95, bfloat16=True, crops=CropRecipe(side=256, mosaic=0.25)
)


def train_detector(
    net: nn.Module,
    train: Source,
    val: Source,
    *,
    kinds: Sequence[str],
    recipe: DetectorRecipe | None = None,
    seed: int = 7,
    initial: bool = False,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fitted:
    """Train a torch detector on the labelled pictures of a source, and leave it with its best weights.

    Args:
        kinds: the names of its kinds in the order of its labels, without the background.
        initial: whether its initial weights compete with those of every pass, as for fine-tuning.
    """
    pictures, held_out = (pictures_of((source[key] for key in source.keys()), kinds) for source in (train, val))
    return fit_detector(
        net,
        pictures,
        held_out,
        kinds=kinds,
        recipe=recipe or DetectorRecipe(),
        rng=rng_for(seed, "detector", "samples"),
        seed=seed,
        initial=initial,
        progress=progress,
        checkpoint=checkpoint,
    )


def fit_detector(
    net: nn.Module,
    pictures: Sequence[LabelledPicture],
    val: Sequence[LabelledPicture],
    *,
    kinds: Sequence[str],
    recipe: DetectorRecipe,
    rng: np.random.Generator,
    seed: int = 7,
    initial: bool = False,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fitted:
    """The same on pictures in memory, with samples drawn from `rng`; torch's own generator is left alone."""
    if not pictures or not any(picture.care.any() for picture in val):
        raise InputError("training a detector needs pictures to train on, and pictures with boxes to validate on")
    task = detector_task(net, Crops(pictures, rng, recipe.crops), val, kinds=kinds, recipe=recipe)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return fit(net, task, recipe.loop, rng=rng, initial=initial, progress=progress, checkpoint=checkpoint)


def detector_task(
    net: nn.Module, crops: Crops, val: Sequence[LabelledPicture], *, kinds: Sequence[str], recipe: DetectorRecipe
) -> Task:
    """The sum of the network's losses on random crops; the validation error is 1 - mAP on whole pictures."""
    count = len(crops.pictures)

    def loss(chosen: Array) -> Tensor:
        images, targets = crops.batch(chosen)
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bfloat16):
            return total_loss(net(images, targets), net)

    def batches(_: int) -> Sequence[Array]:
        order = np.concatenate([crops.rng.permutation(count) for _ in range(recipe.repeats)])
        return np.array_split(order, -(-len(order) // recipe.batch))

    def validate() -> float:
        answers = [detected(net, picture.pixels, kinds) for picture in val]
        return 1 - (average_precision([picture.truth(kinds) for picture in val], answers).mean or 0.0)

    return Task(batches, loss, validate)


def total_loss(losses: object, net: nn.Module) -> Tensor:
    """The sum of the losses that a detector returned; raises `InputError` for anything else."""
    parts = list(losses.values()) if isinstance(losses, Mapping) else []
    if not parts or not all(isinstance(part, Tensor) and part.numel() == 1 for part in parts):
        raise InputError(
            f"{type(net).__name__} must return a dict of losses, one number each, when it is called in training mode with "
            f"images and targets; got {type(losses).__name__}"
        )
    return torch.stack([part.reshape(()) for part in parts]).sum()


def detected(net: nn.Module, pixels: Array, kinds: Sequence[str]) -> Boxes2D:
    """The boxes that a detector finds in a picture, with the names of their kinds."""
    image = torch.from_numpy(np.array(pixels)).movedim(-1, 0) / 255  # a copy: torch wants arrays that can be written
    with torch.inference_mode():
        found = net.eval()([image])
    answer = found[0] if isinstance(found, list) and len(found) == 1 else None
    if not isinstance(answer, Mapping) or not {"boxes", "labels", "scores"} <= answer.keys():
        raise InputError(
            f"{type(net).__name__} must return one dict of boxes, labels and scores for each image in evaluation mode"
        )
    boxes, labels, scores = (
        answer[name].detach().float().numpy().astype(np.float64) for name in ("boxes", "labels", "scores")
    )
    numbers = labels.astype(int) - FIRST
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(kinds)):
        raise InputError(f"{type(net).__name__} answered with a label that is not within 1 to {len(kinds)}")
    height, width = pixels.shape[:2]
    return Boxes2D(boxes.reshape(-1, 4), tuple(kinds[number] for number in numbers), scores, (width, height))
