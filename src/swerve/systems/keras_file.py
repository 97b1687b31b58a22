"""Untrusted Keras model files: the structure from checked JSON, the weights from plain arrays."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from swerve.config import limits
from swerve.core.errors import InputError
from swerve.core.extras import optional_package
from swerve.core.values import Array
from swerve.sources.strict import ParseError, parse_json
from swerve.systems.h5 import H5, read_h5, read_h5_file
from swerve.systems.keras_structure import keras_library, plain_name, rebuild
from swerve.systems.model_file import check_archive, model_file

MODEL_WEIGHTS, CONFIG = "model.weights.h5", "config.json"


def load_model(path: Path) -> Any:
    """The network in a `.keras` file or in an `.h5` file of a complete model."""
    model_file(path, (".keras", ".h5", ".hdf5"))
    if path.suffix.lower() == ".keras":
        return _build(*_archived(path), path)
    found = read_h5_file(path)
    config = found.attributes[""].get("model_config")
    if config is None:
        raise InputError(f"{path}: contains only weights; set structure = 'FILE' or net = 'module:factory' too")
    return _build(_json(str(config), path), found, path)


def load_parts(structure: Path, weights: Path) -> Any:
    """The network that a JSON file describes, with weights from another file."""
    described = _json(model_file(structure, (".json",)).read_bytes(), structure)
    return _build(described, read_h5_file(weights), structure, weights)


def _build(described: Any, found: H5, path: Path, weights: Path | None = None) -> Any:
    try:
        with keras_library().device("meta"):  # allocates no memory
            wanted = rebuild(described).count_params()
        if wanted > (held := sum(array.size for array in found.arrays.values())):
            raise InputError(f"the structure has {wanted:,} parameters, but the weights only {held:,}")
        model = rebuild(described)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    assign_weights(model, found, weights or path)
    return model


def _archived(path: Path) -> tuple[Any, H5]:
    names = check_archive(path)
    if not {MODEL_WEIGHTS, CONFIG} <= set(names):
        raise InputError(f"{path}: not a .keras file: {CONFIG} or {MODEL_WEIGHTS} is missing")
    try:
        with zipfile.ZipFile(path) as archive:
            config, weights = archive.read(CONFIG), archive.read(MODEL_WEIGHTS)
    except Exception as error:  # zlib may raise anything on a damaged archive
        raise InputError(f"{path}: invalid archive: {error}") from error
    return _json(config, path), read_h5(weights, path)


def _json(text: bytes | str, path: Path) -> Any:
    if len(text) > limits.MANIFEST:
        raise InputError(f"{path}: the structure has {len(text):,} bytes, at most {limits.MANIFEST:,} are read")
    try:
        return parse_json(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the structure is not UTF-8 text") from error
    except ParseError as error:
        raise InputError(f"{path}: the structure is not valid JSON: {error.reason} (line {error.line})") from error


def assign_weights(model: Any, found: H5, path: Path) -> None:
    """Load the weights of a file into a model; raises `InputError` unless all are present with the right shapes."""
    top = "model_weights" if "model_weights" in found.attributes else ""
    if found.texts(top, "layer_names"):
        _fill_by_layer(model, found, top, path)
    else:
        _fill_by_path(model, found, path)
    _finalise(model)


def _finalise(layer: Any) -> None:
    """Let layers recompute values that they derived from their weights, which need not be views of them."""
    if hasattr(layer, "finalize_state"):
        layer.finalize_state()
    for part in getattr(layer, "layers", ()):
        _finalise(part)


def _fill_by_layer(model: Any, found: H5, top: str, path: Path) -> None:
    """The format of Keras 1 and 2 and of `.h5` files of complete models: by layer."""
    stored: dict[str, list[Array]] = {}
    for name in found.texts(top, "layer_names"):
        group = f"{top}/{name}".lstrip("/")
        arrays = [found.arrays.get(f"{group}/{item}") for item in found.texts(group, "weight_names")]
        if any(array is None for array in arrays):
            raise InputError(f"{path}: some weights of layer '{name}' are missing")
        stored[plain_name(name)] = [array for array in arrays if array is not None]
    wanted = {layer.name: layer for layer in model.layers if layer.weights}
    given = {name: arrays for name, arrays in stored.items() if arrays}
    if wanted.keys() - given.keys() and len(wanted) == len(given):  # a rebuilt model may have other names
        given = dict(zip(wanted, given.values(), strict=True))
    for name, layer in wanted.items():
        _assign(layer, given.get(name, []), path, found.attributes.get(top, {}))
    if unused := given.keys() - wanted.keys():
        raise InputError(f"{path}: these are not the weights of {model.name}: it has no layer '{sorted(unused)[0]}'")


def _assign(layer: Any, arrays: Sequence[Array], path: Path, facts: Mapping[str, Any]) -> None:
    variables = [*layer.trainable_weights, *layer.non_trainable_weights]
    arrays = _of_keras_1(layer, arrays, len(variables)) if str(facts.get("keras_version", "1")).startswith("1") else arrays
    shapes, wanted = [array.shape for array in arrays], [tuple(variable.shape) for variable in variables]
    if shapes != wanted:
        raise InputError(
            f"{path}: layer '{layer.name}' has weights of {_format_shapes(shapes)}, expected {_format_shapes(wanted)}"
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(np.asarray(array, np.float32))


def _of_keras_1(layer: Any, arrays: Sequence[Array], wanted: int) -> Sequence[Array]:
    """Weights of Keras 1, with channels first and separate gates, in the layout of later versions."""
    if wanted == 3 and len(arrays) in (9, 12):  # input, state and bias of each gate; a GRU's three, an LSTM's four
        gates = (0, 2, 1, 3) if len(arrays) == 12 else (0, 1, 2)
        return [np.concatenate([arrays[3 * gate + part] for gate in gates], axis=-1) for part in range(3)]
    if getattr(layer, "data_format", "") == "channels_first" and arrays and arrays[0].ndim == 4:
        return [arrays[0].transpose(2, 3, 1, 0), *arrays[1:]]
    return arrays


def _format_shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join("x".join(map(str, shape)) or "a number" for shape in shapes) or "nothing"


def _fill_by_path(model: Any, found: H5, path: Path) -> None:
    """The format of Keras 3: Keras itself loads a copy that contains only the arrays."""
    if not model.built:
        raise InputError(f"{path}: the network is not built; call it once in the factory")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.weights.h5"
        with optional_package("h5py", "keras").File(copy, "w") as file:
            for name in found.attributes:
                file.require_group(name or "/")
            for name, array in found.arrays.items():
                file[name] = array
        try:
            model.load_weights(copy)
        except Exception as error:  # names or shapes do not match
            reason = " ".join(str(error).split())
            raise InputError(f"{path}: these are not the weights of {model.name}: {reason}") from error
