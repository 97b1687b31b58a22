"""Keras networks as systems, by Keras 3 on its torch backend."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from swerve.core.errors import InputError
from swerve.core.seeding import digest_of
from swerve.core.values import Array
from swerve.systems.function import identity_of, state_of
from swerve.systems.h5 import read_h5_file
from swerve.systems.keras_file import fill, model_in, model_of
from swerve.systems.keras_probe import layers_of, probe
from swerve.systems.keras_structure import keras_library
from swerve.systems.network import CHANNELS, Engine, Network, Pass, Rows
from swerve.systems.torch import outputs_of


@dataclass(frozen=True, kw_only=True)
class Keras(Network):
    """A Keras network: a whole `model`, a `structure` with `weights`, or a factory `net`, with `weights` or its own.

    Args:
        model: a `.keras` file, or an `.h5` file of the whole model.
        structure: a JSON file as `model.to_json()` writes it, of any version of Keras.
        weights: an `.h5` file.
        net: the factory, in TOML as `module:factory`.
        arguments: what the factory is called with.
    """

    model: Path | None = None
    structure: Path | None = None
    weights: Path | None = None
    net: Callable[..., Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    layout: str = "hwc"

    @cached_property
    def engine(self) -> Engine:
        given = [name for name in ("model", "structure", "net") if getattr(self, name) is not None]
        if len(given) != 1 or (self.model and self.weights) or (self.structure and not self.weights):
            raise InputError("a Keras network is a model, a structure with weights, or a net; give one of the three")
        keras_library()
        if self.net is not None:
            return KerasEngine(self._made(self.net), state_of(self.net), layout=self.layout)
        if self.model is not None:
            return KerasEngine(model_in(self.model), layout=self.layout)
        assert self.structure
        assert self.weights
        return KerasEngine(model_of(self.structure, self.weights), layout=self.layout)

    def _made(self, net: Callable[..., Any]) -> Any:
        keras = keras_library()
        # Names are counted through a whole process; a network's must not depend on what was made before it.
        with contextlib.suppress(ImportError, AttributeError):  # not a public part of Keras
            importlib.import_module("keras.src.utils.naming").reset_uids()
        made = net(**self.arguments)
        if not isinstance(made, keras.Model):
            raise InputError(f"the factory must return a Keras model, it returned {type(made).__name__}")
        if self.weights is not None:
            fill(made, read_h5_file(self.weights), self.weights)
        return made


class KerasEngine:
    """A Keras model; `origin` is what else its fingerprint goes by, `layout` that of the pictures it is shown."""

    def __init__(self, model: Any, origin: object = None, *, layout: str = "hwc") -> None:
        inputs = getattr(model, "inputs", None) or [None]
        if len(inputs) != 1:
            raise InputError(f"the network takes {len(inputs)} inputs, expected one")
        self.model, self.origin, self.channels = model, origin, CHANNELS[layout]
        self.batch: int | None = inputs[0].shape[0] if inputs[0] is not None else None

    def run(self, batch: Array) -> Mapping[str, Rows]:
        with torch.inference_mode():
            return self._named(self.model(self._input(batch), training=False), len(batch))

    def layers(self) -> Sequence[str]:
        return layers_of(self.model)

    def trace(self, batch: Array, layers: Sequence[str]) -> Pass:
        said, found = probe(self.model, self._input(batch), layers, channels=self.channels)
        return self._named(said, len(batch)), found

    def fingerprint(self) -> str:
        """A hash of every layer's kind and arguments and of all weights."""
        hasher = hashlib.sha256(digest_of(self.origin, self._structure()).encode())
        for variable in self.model.weights:
            numbers = np.ascontiguousarray(variable.value.detach().cpu().numpy())
            hasher.update(f"{variable.path} {numbers.dtype} {numbers.shape};".encode())
            hasher.update(numbers.data)
        return hasher.hexdigest()

    def _structure(self) -> str:
        try:
            text: str = self.model.to_json()
        except NotImplementedError:  # a class of the user's, which only its source describes
            text = repr(identity_of(type(self.model)))
        return text

    def _input(self, batch: Array) -> Any:
        return keras_library().ops.convert_to_tensor(np.ascontiguousarray(batch, np.float32))

    def _named(self, said: Any, inputs: int) -> Mapping[str, Rows]:
        """Outputs by the names of the layers that they come from."""
        found = outputs_of(said, inputs)
        names = list(getattr(self.model, "output_names", None) or [])
        alike = len(names) == len(set(names)) == len(found) and not isinstance(said, Mapping)
        return dict(zip(names, found.values(), strict=True)) if alike else found
