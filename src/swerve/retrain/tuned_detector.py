"""Fine-tuning of the torch detector of a campaign on pictures with boxes, by the code that trains the zoo's."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, fields, replace

from torch import nn

from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.system import System
from swerve.execution.engine import Progress
from swerve.retrain.dataset import Skips, stream
from swerve.systems.detections import SeparateOutputs
from swerve.systems.network import Network
from swerve.systems.steps import Divide
from swerve.systems.torch import LiveTorch, Torch
from swerve.train.detectors import FURTHER, DetectorRecipe, fit_detector
from swerve.train.labelled_pictures import FIRST, pictures_of
from swerve.train.loop import Checkpoint, Fitted


@dataclass(frozen=True)
class TunedDetector:
    """A fine-tuned detector, its network, and how its training went; validation errors are 1 - mAP."""

    system: System
    net: nn.Module
    fitted: Fitted
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def precisions(self) -> list[float]:
        """mAP on the validation set, first of the initial weights, then of every pass."""
        return [1 - error for error in self.fitted.errors]

    def describe(self) -> str:
        """The pass that was kept and why training stopped, in words."""
        scores, best = self.precisions, self.fitted.best
        kept = f"pass {best} of {len(scores) - 1} was kept: validation mAP {scores[0]:.3f} → {scores[best]:.3f}"
        return f"{kept if best else 'no pass improved validation: the network is unchanged'}; {self.fitted.stopped}"


def torch_detector_of(system: object) -> Torch | None:
    """The torch network with boxes as its only answer that `system` is or wraps, if any."""
    inner = system if isinstance(system, Torch) else getattr(system, "system", None)
    if isinstance(inner, Torch) and len(inner.say) == 1 and isinstance(inner.say[0], SeparateOutputs):
        return inner
    return None


def finetune_detector(
    system: object,
    train: Source,
    val: Source,
    *,
    recipe: DetectorRecipe = FURTHER,
    seed: int = 0,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> TunedDetector:
    """A copy of `system` trained on `train`; its initial weights compete with those of every pass."""
    network = torch_detector_of(system)
    if network is None:
        raise InputError(f"{type(system).__name__} is not a torch detector whose answers are decoded by 'detections'")
    kinds, skipped, net = _trainable_kinds(network), Skips(), deepcopy(network.engine.net)  # type: ignore[attr-defined]
    pictures, held_out = (pictures_of(stream(source, skipped), kinds) for source in (train, val))
    fitted = fit_detector(
        net,
        pictures,
        held_out,
        kinds=kinds,
        recipe=replace(recipe, patience=recipe.passes),
        rng=rng_for(seed, "retrain", "detector"),
        seed=seed,
        initial=True,
        progress=progress,
        checkpoint=checkpoint,
    )
    settings = {one.name: getattr(network, one.name) for one in fields(Network)}
    return TunedDetector(LiveTorch(module=net, **settings), net, fitted, tuple(skipped))


def _trainable_kinds(network: Torch) -> tuple[str, ...]:
    """The names of its kinds; raises unless it is read and decoded as detectors are trained."""
    (say,) = network.say
    assert isinstance(say, SeparateOutputs)
    if network.read != (Divide(),) or say.first != FIRST or say.normalised:
        raise InputError(
            "only a detector that reads whole pictures from 0 to 1 and numbers its kinds from 1 can be fine-tuned: "
            'read = ["divide"] and say = [{ use = "detections", first = 1, kinds = [...] }]; for others, export the set '
            "with --export and train with --command"
        )
    return tuple(say.kinds)
