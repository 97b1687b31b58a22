"""Keras networks as systems, run by Keras 3 on its torch backend."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from swerve.core.arguments import OneOfNames
from swerve.core.errors import InputError
from swerve.core.seeding import digest_of
from swerve.core.system import Gradients, Window
from swerve.core.values import Array
from swerve.systems.function import identity_of, state_of
from swerve.systems.gradients import Pick, gradients_of
from swerve.systems.h5 import read_h5_file
from swerve.systems.keras_file import assign_weights, load_model, load_parts
from swerve.systems.keras_probe import catching, layers_of, probe
from swerve.systems.keras_structure import keras_library
from swerve.systems.network import CHANNELS, Engine, Network, Pass, Rows, check_shape
from swerve.systems.preprocessing import LAYOUTS
from swerve.systems.torch import outputs_of


@dataclass(frozen=True, kw_only=True)
class Keras(Network):
    """A Keras network: a complete `model`, a `structure` with `weights`, or a factory `net` with optional `weights`.

    Args:
        model: a `.keras` file, or an `.h5` file of the complete model.
        structure: a JSON file written by `model.to_json()` of any version of Keras.
        weights: an `.h5` file.
        net: the factory, in TOML as `module:factory`.
        arguments: the factory's arguments.
    """

    model: Path | None = None
    structure: Path | None = None
    weights: Path | None = None
    net: Callable[..., Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    layout: Annotated[str, OneOfNames(*LAYOUTS)] = "hwc"

    @cached_property
    def engine(self) -> Engine:
        given = [name for name in ("model", "structure", "net") if getattr(self, name) is not None]
        if len(given) != 1 or (self.model and self.weights) or (self.structure and not self.weights):
            raise InputError(
                "keras needs exactly one of: 'model'; 'structure' with 'weights'; 'net', optionally with 'weights'"
            )
        keras_library()
        if self.net is not None:
            return KerasEngine(self._build(self.net), state_of(self.net), layout=self.layout)
        if self.model is not None:
            return KerasEngine(load_model(self.model), layout=self.layout)
        assert self.structure
        assert self.weights
        return KerasEngine(load_parts(self.structure, self.weights), layout=self.layout)

    def _build(self, net: Callable[..., Any]) -> Any:
        keras = keras_library()
        # Keras numbers layer names per process; they must not depend on networks that were built before.
        with contextlib.suppress(ImportError, AttributeError):  # not a public API of Keras
            importlib.import_module("keras.src.utils.naming").reset_uids()
        model = net(**self.arguments)
        if not isinstance(model, keras.Model):
            raise InputError(f"the factory must return a Keras model, got {type(model).__name__}")
        if self.weights is not None:
            assign_weights(model, read_h5_file(self.weights), self.weights)
        return model


class KerasEngine:
    """A Keras model; `origin` also enters its fingerprint, `layout` is that of its input pictures."""

    def __init__(self, model: Any, origin: object = None, *, layout: str = "hwc") -> None:
        inputs = getattr(model, "inputs", None) or [None]
        if len(inputs) != 1:
            raise InputError(f"the network must have one input, it has {len(inputs)}")
        self.model, self.origin, self.channels = model, origin, CHANNELS[layout]
        sizes = () if inputs[0] is None else tuple(inputs[0].shape)
        self.batch: int | None = sizes[0] if sizes else None
        self.shape: tuple[int | None, ...] = sizes[1:]

    def run(self, batch: Array) -> Mapping[str, Rows]:
        with torch.inference_mode():
            return self._name_outputs(self.model(self._input(batch), training=False), len(batch))

    def layers(self) -> Sequence[str]:
        return layers_of(self.model)

    def trace(self, batch: Array, layers: Sequence[str]) -> Pass:
        outputs, found = probe(self.model, self._input(batch), layers, channels=self.channels)
        return self._name_outputs(outputs, len(batch)), found

    def gradients(self, batch: Array, layer: str, pick: Pick, windows: Sequence[Window]) -> Gradients:
        """Feature maps of a layer, and the derivative of the picked output by them."""
        catch, channels = catching(self.model, layer)
        run = partial(self.model, training=False)
        return gradients_of(run, self._input(batch), catch, pick, windows=windows, channels=channels)

    def fingerprint(self) -> str:
        """A hash of every layer's type and arguments, and of all weights."""
        hasher = hashlib.sha256(digest_of(self.origin, self._structure()).encode())
        for variable in self.model.weights:
            numbers = np.ascontiguousarray(variable.value.detach().cpu().numpy())
            hasher.update(f"{variable.path} {numbers.dtype} {numbers.shape};".encode())
            hasher.update(numbers.data)
        return hasher.hexdigest()

    def _structure(self) -> str:
        try:
            text: str = self.model.to_json()
        except NotImplementedError:  # a user's class, identified by its source code
            text = repr(identity_of(type(self.model)))
        return text

    def _input(self, batch: Array) -> Any:
        check_shape(batch, self.shape)
        return keras_library().ops.convert_to_tensor(np.ascontiguousarray(batch, np.float32))

    def _name_outputs(self, result: Any, inputs: int) -> Mapping[str, Rows]:
        """Outputs by the names of the layers that produce them."""
        found = outputs_of(result, inputs)
        names = list(getattr(self.model, "output_names", None) or [])
        match = len(names) == len(set(names)) == len(found) and not isinstance(result, Mapping)
        return dict(zip(names, found.values(), strict=True)) if match else found
