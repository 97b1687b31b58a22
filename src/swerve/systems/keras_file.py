"""Keras models from files that a stranger may have made: described by JSON that is checked, weights from arrays alone."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from swerve.config import limits
from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.sources.strict import ParseError, parse_json
from swerve.systems.h5 import H5, read_h5, read_h5_file
from swerve.systems.keras_structure import keras_library, plain_name, rebuilt
from swerve.systems.network import library
from swerve.systems.weights import check_archive, model_file

MODEL_WEIGHTS, CONFIG = "model.weights.h5", "config.json"


def model_in(path: Path) -> Any:
    """The network of a `.keras` file or of a whole-model `.h5`."""
    model_file(path, (".keras", ".h5", ".hdf5"))
    if path.suffix.lower() == ".keras":
        return _made(*_archived(path), path)
    found = read_h5_file(path)
    config = found.attributes[""].get("model_config")
    if config is None:
        raise InputError(
            f"{path}: holds weights alone; give the structure too, as structure = ... or net = 'module:factory'"
        )
    return _made(_json(str(config), path), found, path)


def model_of(structure: Path, weights: Path) -> Any:
    """The network that a JSON file describes, with weights from another file."""
    described = _json(model_file(structure, (".json",)).read_bytes(), structure)
    return _made(described, read_h5_file(weights), structure, weights)


def _made(described: Any, found: H5, path: Path, weights: Path | None = None) -> Any:
    try:
        with keras_library().device("meta"):  # where numbers take no memory
            wanted = rebuilt(described).count_params()
        if wanted > (held := sum(array.size for array in found.arrays.values())):
            raise InputError(f"describes a network of {wanted:,} numbers, its weights are {held:,}")
        made = rebuilt(described)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    fill(made, found, weights or path)
    return made


def _archived(path: Path) -> tuple[Any, H5]:
    names = check_archive(path)
    if not {MODEL_WEIGHTS, CONFIG} <= set(names):
        raise InputError(f"{path}: not a .keras file: it has no {CONFIG} or no {MODEL_WEIGHTS}")
    try:
        with zipfile.ZipFile(path) as archive:
            config, weights = archive.read(CONFIG), archive.read(MODEL_WEIGHTS)
    except Exception as error:  # a torn archive makes zlib say anything
        raise InputError(f"{path}: not a sound archive: {error}") from error
    return _json(config, path), read_h5(weights, path)


def _json(text: bytes | str, path: Path) -> Any:
    if len(text) > limits.MANIFEST:
        raise InputError(f"{path}: a description of {len(text):,} bytes, at most {limits.MANIFEST:,} are read")
    try:
        return parse_json(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: its description is not UTF-8 text") from error
    except ParseError as error:
        raise InputError(f"{path}: its description does not read: {error.reason} (line {error.line})") from error


def fill(model: Any, found: H5, path: Path) -> None:
    """Put the weights of a file into a model; raises `InputError` unless all are there and of the right shapes."""
    top = "model_weights" if "model_weights" in found.attributes else ""
    if found.texts(top, "layer_names"):
        _fill_by_layer(model, found, top, path)
    else:
        _fill_by_path(model, found, path)
    _settle(model)


def _settle(layer: Any) -> None:
    """Let the layers that compute with something made of their weights, which need not be a view of them, make it anew."""
    if hasattr(layer, "finalize_state"):
        layer.finalize_state()
    for part in getattr(layer, "layers", ()):
        _settle(part)


def _fill_by_layer(model: Any, found: H5, top: str, path: Path) -> None:
    """The form of Keras 1 and 2, and of whole-model `.h5` files: layer by layer."""
    stored: dict[str, list[Array]] = {}
    for name in found.texts(top, "layer_names"):
        group = f"{top}/{name}".lstrip("/")
        arrays = [found.arrays.get(f"{group}/{item}") for item in found.texts(group, "weight_names")]
        if any(array is None for array in arrays):
            raise InputError(f"{path}: the weights of layer '{name}' are not all there")
        stored[plain_name(name)] = [array for array in arrays if array is not None]
    wanted = {layer.name: layer for layer in model.layers if layer.weights}
    given = {name: arrays for name, arrays in stored.items() if arrays}
    if wanted.keys() - given.keys() and len(wanted) == len(given):  # a rebuilt model may have names of its own
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
        raise InputError(f"{path}: layer '{layer.name}' has weights of {_told(shapes)}, expected {_told(wanted)}")
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(np.asarray(array, np.float32))


def _of_keras_1(layer: Any, arrays: Sequence[Array], wanted: int) -> Sequence[Array]:
    """Kernels with the channels in front, and gates one by one, as later versions have them."""
    if wanted == 3 and len(arrays) in (9, 12):  # input, state and bias of each gate; a GRU's three, an LSTM's four
        gates = (0, 2, 1, 3) if len(arrays) == 12 else (0, 1, 2)
        return [np.concatenate([arrays[3 * gate + part] for gate in gates], axis=-1) for part in range(3)]
    if getattr(layer, "data_format", "") == "channels_first" and arrays and arrays[0].ndim == 4:
        return [arrays[0].transpose(2, 3, 1, 0), *arrays[1:]]
    return arrays


def _told(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join("x".join(map(str, shape)) or "a number" for shape in shapes) or "nothing"


def _fill_by_path(model: Any, found: H5, path: Path) -> None:
    """The form of Keras 3: Keras itself finds its way through a copy made of nothing but the arrays."""
    if not model.built:
        raise InputError(f"{path}: the network is not built yet; let the factory call it once")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.weights.h5"
        with library("h5py", "keras").File(copy, "w") as file:
            for name in found.attributes:
                file.require_group(name or "/")
            for name, array in found.arrays.items():
                file[name] = array
        try:
            model.load_weights(copy)
        except Exception as error:  # names and shapes that do not fit
            told = " ".join(str(error).split())
            raise InputError(f"{path}: these are not the weights of {model.name}: {told}") from error
