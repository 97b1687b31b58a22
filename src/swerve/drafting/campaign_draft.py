"""A campaign drafted from a model and data: what is known of both, what is assumed, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from swerve.config.toml import Builder
from swerve.config.trust import PYTHON_FILE, Trust
from swerve.core.case import Source
from swerve.core.convention import Convention
from swerve.core.errors import InputError
from swerve.core.names import names
from swerve.core.values import Boxes2D, Steering
from swerve.drafting.fit import Fit, fit_boxes, fit_steering, kinds_of, labelled, table_of
from swerve.drafting.guess import Guess, Guesses, given, values_of
from swerve.drafting.likely_outputs import LIGHT, are_lights
from swerve.drafting.signature import DETECTOR_SIZES, signatures
from swerve.drafting.source_draft import draft_source
from swerve.systems.detector import kind_names
from swerve.systems.model_file import TORCH
from swerve.systems.network import Network

STEERING, DETECTION = "steering", "detection"
SUFFIXES = {".onnx": "onnx", ".h5": "keras", ".hdf5": "keras", ".keras": "keras"}
UNKNOWN = Convention("radians", "left", "wheel", None)  # of a model without labelled frames: the commonest
Review = Callable[[str, Guesses], Guesses]  # what the user makes of a table's guesses


@dataclass(frozen=True)
class Wanted:
    """What the user says of a campaign: the model, the data, and any keys of [source], [system] and of the decoder."""

    model: str
    data: Path
    net: str = ""
    size: tuple[int, int] | None = None
    source: Mapping[str, Any] = field(default_factory=dict)
    system: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trusted(self) -> list[str]:
        """The Python file of the network, which the user named and so agreed to run."""
        file = (self.net or self.model).rpartition(":")[0]
        return [file] if file.endswith(PYTHON_FILE) else []


@dataclass(frozen=True)
class Draft:
    """The tables of a campaign; `task` decides which rules it has."""

    source: Guesses
    system: Guesses
    say: Guesses  # of the one decoder; empty if the system answers by itself
    task: str
    kinds: str = "same"  # of boxes that are compared
    right: str = ""  # how well the model does on labelled cases, in words
    useful: bool = True

    @property
    def assumed(self) -> list[tuple[str, str, Guess]]:
        """What nobody told: table, key, guess."""
        tables = {"source": self.source, "system": self.system, "say": self.say}
        return [(name, key, guess) for name, table in tables.items() for key, guess in table.items() if guess.assumed]


def draft_campaign(wanted: Wanted, review: Review = lambda _, guesses: guesses) -> Draft:
    """The draft for a model and data; `review` may change the guesses of a table before others follow from them."""
    source_table = review("source", {**draft_source(wanted.data, wanted.source), **given(wanted.source)})
    source: Source = Builder("source:", Path.cwd()).component(values_of(source_table), Source)
    if wanted.model in names("systems"):
        return _ready_made(wanted, source, source_table)
    base = _system(wanted)
    table = {**base, **given(wanted.system)}
    trust = Trust.of(wanted.trusted)
    network = Builder("system:", Path.cwd(), trust).component({**values_of(table), "read": [], "say": []})
    if not isinstance(network, Network):
        raise InputError(f"{wanted.model}: not a network with 'read' and 'say'; write the file by hand (docs/systems.md)")
    return _of_network(network, source, source_table, table, wanted, review)


def _ready_made(wanted: Wanted, source: Source, source_table: Guesses) -> Draft:
    """A system that needs no steps and no decoders, such as those of the zoo."""
    system = {"use": Guess(wanted.model), **given(wanted.system)}
    boxed = bool(kinds_of(labelled(source, Boxes2D.slot)))
    return Draft(source_table, system, {}, DETECTION if boxed else STEERING)


def _system(wanted: Wanted) -> dict[str, Guess]:
    """The [system] table without steps and decoders, by the name of the model's file."""
    path = Path(wanted.model)
    ending = path.suffix.lower()
    if PYTHON_FILE in wanted.model or (":" in wanted.model and not path.exists()):
        return {"use": Guess("torch"), "net": Guess(wanted.model)}
    if ending in (*TORCH, ".safetensors"):
        if not wanted.net:
            raise InputError(f"{path}: has only weights; name the network's class too: --net nets.py:MyNetwork")
        return {"use": Guess("torch"), "net": Guess(wanted.net), "weights": Guess(wanted.model)}
    if ending == ".json":
        raise InputError(f"{path}: a structure needs its weights: --system use=keras --system weights=FILE.h5")
    if ending not in SUFFIXES and not path.exists():
        raise InputError(f"{path}: no such file, and no system of that name (`swerve list systems`)")
    return {"use": Guess(SUFFIXES.get(ending, "onnx")), "model": Guess(wanted.model)}


def _of_network(
    network: Network, source: Source, source_table: Guesses, table: Guesses, wanted: Wanted, review: Review
) -> Draft:
    shapes = signatures(network, wanted.size)
    if shapes[0].layout != network.layout:
        network = replace(network, layout=shapes[0].layout)
        table = {**table, "layout": Guess(shapes[0].layout, "height, width and channels, in that order")}
    boxed = labelled(source, Boxes2D.slot)
    angles = labelled(source, Steering.slot)
    declared = getattr(source, "convention", None)
    label = declared if isinstance(declared, Convention) else UNKNOWN
    detectors = sorted(shapes, key=lambda shape: shape.size not in DETECTOR_SIZES)
    fit = fit_boxes(network, detectors, boxed, wanted.answer) if boxed or not angles else None
    task = DETECTION if fit else STEERING
    fit = fit or fit_steering(network, shapes, angles, label)
    if fit is None:
        outputs = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes[0].outputs.items())
        raise InputError(
            f"the outputs ({outputs}) are no angle and of no known detector; write 'say' by hand (docs/systems.md)"
        )
    say = review("say", {**_say(fit, task), **given(wanted.answer)})
    system = {**table, **_steps(fit), **given(wanted.system)}
    own = kinds_of(boxed)
    also, kinds = _naming(own, say) if task == DETECTION and own else ({}, "same")
    return Draft({**source_table, **also}, system, say, task, kinds, fit.right, fit.useful)


def _steps(fit: Fit) -> dict[str, Guess]:
    tested = f"the best of those tried: {fit.right}" if fit.right and fit.useful else ""
    why = tested or "the commonest; try others if the model's own error is high"
    return {"read": Guess([table_of(step) for step in fit.read], why, assumed=not tested)}


def _say(fit: Fit, task: str) -> dict[str, Guess]:
    if task == DETECTION:
        return {key: Guess(value) for key, value in fit.say.items()}
    tested = "as the answers fit the labels best" if fit.right and fit.useful else ""
    told = {"unit": tested, "positive": tested, "kind": "as in [source]" if fit.right else ""}
    return {key: Guess(value, told.get(key, ""), assumed=key in told and not told[key]) for key, value in fit.say.items()}


def _naming(own: Sequence[str], say: Guesses) -> tuple[dict[str, Guess], str]:
    """What [source] has to say so that labels and answers have the same kinds; otherwise kinds are not compared."""
    known = kind_names(say["kinds"].value)
    common = [kind for kind in own if kind in known]
    if common:
        return ({"kinds": Guess(common, "those that the network knows")} if len(common) < len(own) else {}), "same"
    if LIGHT in known and are_lights(own):
        return {"rename": Guess(dict.fromkeys(own, LIGHT), "the network does not tell states apart")}, "same"
    return {}, "any"
