"""Training steps: a detector retrained on its pictures with changed ones mixed in, by each change, by all, and without."""

# TG-21, TG-21b, TG-25, TG-26

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from swerve.core.case import Case, Source
from swerve.core.seeding import digest_of, rng_for
from swerve.experiments import DATA, CampaignStep, Setting, Step, Subject, TrainingStep
from swerve.experiments.tigaug.light_campaigns import retested
from swerve.experiments.tigaug.light_mix import ALL, CONTROL, SHARE, LightMix
from swerve.methods.tigaug import LABEL, tigaug
from swerve.sources.writing import slug
from swerve.store.files import json_bytes, write_whole
from swerve.systems.weights import load
from swerve.train.detectors import FURTHER, DetectorRecipe, fit_detector
from swerve.train.labelled_pictures import pictures_of
from swerve.train.loop import Checkpoint, save_weights
from swerve.train.rendered_lights import CachedLights
from swerve.world.light_source import ALL as ALL_CONDITIONS
from swerve.world.light_source import LightWorld
from swerve.zoo.lights.light_detectors import LightDetector, light_net, packaged, untrained_net
from swerve.zoo.lights.light_frames import KINDS
from swerve.zoo.lights.light_learn import RECIPES
from swerve.zoo.lights.light_network import LightNet
from swerve.zoo.networks import folded

FRAMES = 2  # of each junction
PICTURES = "pictures"  # the folder of the rendered pictures
LEARNING = 0.3  # answers that take as long as training on one crop, estimated


@dataclass(frozen=True)
class LightLessons:
    """What is retrained: pictures, validation pictures and passes, names of subjects, and the changes of cleaned sets."""

    pictures: int
    aside: int
    passes: int
    subjects: tuple[str, ...]
    cleaned: tuple[str, ...]


@dataclass(frozen=True)
class TrainingArm:
    """A retrained detector: what is mixed in, and whether only natural pictures are."""

    mixed: str
    natural: bool = False

    @property
    def name(self) -> str:
        """Such as `fog` or `fog, natural`."""
        return f"{self.mixed}, natural" if self.natural else self.mixed

    @property
    def weights(self) -> str:
        """The file with its weights."""
        return f"retrained-{slug(self.name)}.safetensors"

    @property
    def step(self) -> str:
        """The step in which it is tested."""
        return f"after {self.name}"

    def tested_with(self, changes: Sequence[str]) -> tuple[str, ...]:
        """The changes that it is tested with: its own, or all."""
        return (self.mixed,) if self.mixed in changes else tuple(changes)


def arms(setting: Setting) -> Iterator[TrainingArm]:
    """The control, every change, all of them, and the cleaned sets."""
    changes = setting.size.changes
    yield from (TrainingArm(mixed) for mixed in (CONTROL, *changes, ALL))
    yield from (TrainingArm(mixed, natural=True) for mixed in setting.size.lessons.cleaned if mixed in changes)


def training_steps(subject: Subject, setting: Setting) -> Iterator[Step]:
    """A training of every arm, and its test; of the zoo's detectors that are to be retrained."""
    lessons: LightLessons = setting.size.lessons
    if subject.name not in lessons.subjects or not isinstance(subject.system, LightDetector):
        return
    for arm in arms(setting):
        train, trials = partial(_train, arm), _trials(subject, setting)
        yield TrainingStep(arm.weights, train, partial(_key, arm), trials=trials, when=afterwards)
        changes = arm.tested_with(setting.size.changes)
        make = partial(retested, weights=arm.weights, changes=changes)
        count = subject.count * (1 + len(changes))
        yield CampaignStep(arm.step, make, after=(arm.weights,), trials=count, when=afterwards)


def afterwards(results: object, one: object) -> bool:
    """Steps that follow when all detectors were tested, so that an experiment that is stopped has all of RQ1 first."""
    del results, one
    return True


def pictures(setting: Setting, streets: str, split: str, count: int) -> CachedLights:
    """Pictures of junctions in all conditions, rendered once into the experiment's folder."""
    world = LightWorld(-(-count // FRAMES), FRAMES, streets, split, ALL_CONDITIONS, seed=setting.seed)
    return CachedLights(world, setting.into.absolute() / DATA / PICTURES)


def recipe_of(name: str, setting: Setting) -> DetectorRecipe:
    """That of the zoo from new weights, or a short one from the detector's own."""
    if setting.options["scratch"]:
        return replace(RECIPES[name].loop, patience=RECIPES[name].loop.passes)
    return replace(FURTHER, passes=setting.size.lessons.passes, patience=setting.size.lessons.passes)


def _trials(subject: Subject, setting: Setting) -> float:
    lessons: LightLessons = setting.size.lessons
    recipe = recipe_of(subject.like, setting)
    learnt = 1.2 * lessons.pictures * recipe.repeats * LEARNING
    return recipe.passes * (learnt + 2.0 * lessons.aside)


def _train(arm: TrainingArm, one: Any, file: Path, checkpoint: Checkpoint) -> None:
    """The weights, and beside them the numbers of their training."""
    setting, seed, name = one.setting, one.setting.seed, one.detector
    mix, lessons = _mix(arm, one), one.setting.size.lessons
    train, val = (
        mix.merged(_cases(pictures(setting, one.streets, split, count)), share)
        for split, count, share in (("train", lessons.pictures, _share(arm, setting)), ("val", lessons.aside, 1.0))
    )
    net = _initial(one.subject.system, name, setting)
    fitted = fit_detector(
        net,
        pictures_of(iter(train), KINDS),
        pictures_of(iter(val), KINDS),
        kinds=KINDS,
        recipe=recipe_of(name, setting),
        rng=rng_for(seed, "retrain lights"),
        seed=seed,
        progress=setting.progress,
        checkpoint=checkpoint,
    )
    numbers = {"minutes": fitted.minutes, "pictures": len(train), "errors": fitted.errors, "best": fitted.best}
    write_whole(file.with_suffix(".json"), json_bytes(numbers))
    save_weights(folded(net), file)


def _share(arm: TrainingArm, setting: Setting) -> float:
    """What is added to the pictures; nothing to those of a detector that is trained anew without changed ones."""
    return 0.0 if arm.mixed == CONTROL and setting.options["scratch"] else SHARE


def _mix(arm: TrainingArm, one: Any) -> LightMix:
    if arm.mixed == CONTROL:
        return LightMix(None, seed=one.setting.seed)
    changes = arm.tested_with(one.setting.size.changes)
    campaign = tigaug(one.subject.source, one.subject.system, changes=changes, against=LABEL, natural=True)
    return LightMix(campaign, arm.natural, one.setting.seed)


def _initial(system: LightDetector, name: str, setting: Setting) -> LightNet:
    """New weights, or those of the detector with its normalisation folded away."""
    if not setting.options["scratch"]:
        net = load(lambda: light_net(name), system.weights or packaged(name))
        assert isinstance(net, LightNet)
        return net
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setting.seed)
        return untrained_net(name)


def _cases(source: Source) -> list[Case]:
    return [source[key] for key in source.keys()]


def _key(arm: TrainingArm, one: Any) -> str:
    """A hash of all that decides the weights."""
    lessons, recipe = asdict(one.setting.size.lessons), asdict(recipe_of(one.detector, one.setting))
    known = {name: lessons[name] for name in ("pictures", "aside")}
    world = pictures(one.setting, one.streets, "train", 1).fingerprint()
    changes = arm.tested_with(one.setting.size.changes)
    own = (one.subject.system.fingerprint(), one.streets, world, arm.name, changes, one.setting.options["scratch"])
    return digest_of(*own, known, recipe, one.setting.seed)
