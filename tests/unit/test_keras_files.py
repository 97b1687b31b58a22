"""Keras networks from files: rebuilt from descriptions of every version, and filled with their weights."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.systems.h5 import H5, read_h5_file
from swerve.systems.keras import KerasEngine
from swerve.systems.keras_file import assign_weights, load_model, load_parts
from swerve.systems.keras_structure import keras_library, rebuild

keras = keras_library()
layers = keras.layers
HERE = Path("model")
pytestmark = pytest.mark.usefixtures("one_thread")


def batch(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def numbers(said: Any) -> Array:
    return said.detach().numpy()


def spec(kind: str, name: str, inbound: Sequence[str] = (), **config: Any) -> dict[str, Any]:
    """A layer as Keras 2 wrote it down."""
    nodes = [[[source, 0, 0, {}] for source in inbound]] if inbound else []
    return {"class_name": kind, "name": name, "config": {"name": name, "trainable": True, **config}, "inbound_nodes": nodes}


def sequential(*specs: Mapping[str, Any], listed: bool = True) -> dict[str, Any]:
    return {"class_name": "Sequential", "config": list(specs) if listed else {"name": "made", "layers": list(specs)}}


def functional(*specs: Mapping[str, Any], out: Sequence[str], given: str = "in") -> dict[str, Any]:
    ends = {"input_layers": [[given, 0, 0]], "output_layers": [[name, 0, 0] for name in out]}
    return {"class_name": "Model", "keras_version": "2.0.2", "config": {"name": "made", "layers": list(specs), **ends}}


def picture(name: str = "in", shape: Sequence[int] = (8, 8, 3)) -> dict[str, Any]:
    return spec("InputLayer", name, batch_input_shape=[None, *shape], dtype="float32", sparse=False)


def small() -> Any:
    """A network of Keras' own making."""
    keras.utils.set_random_seed(1)
    x = given = keras.Input((8, 8, 3), name="in")
    x = layers.Conv2D(4, 3, padding="same", activation="relu", name="look")(x)
    x = layers.BatchNormalization(name="norm")(layers.MaxPooling2D(name="pool")(x))
    x = layers.Dropout(0.5, name="drop")(layers.Flatten(name="flat")(x))
    return keras.Model(
        given, [layers.Dense(1, name="turn")(x), layers.Dense(2, activation="softmax", name="go")(x)], name="made"
    )


def written(model: Any, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras writes in a way that NumPy will not like much longer
        if path.suffix == ".json":
            path.write_text(model.to_json())
        else:
            (model.save_weights if path.name.endswith(".weights.h5") else model.save)(path)
    return path


def alike(one: Any, other: Any, given: Array) -> None:
    for first, second in zip(*(KerasEngine(model).run(given).values() for model in (one, other)), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["x.keras", "x.h5"])
def test_whole_models_come_back(tmp_path, name):
    alike(load_model(written(small(), tmp_path / name)), small(), batch(2, 8, 8, 3))


@pytest.mark.parametrize("name", ["x.weights.h5", "x.h5"])
def test_structure_and_weights_come_back(tmp_path, name):
    structure, weights = written(small(), tmp_path / "x.json"), written(small(), tmp_path / name)
    alike(load_parts(structure, weights), small(), batch(2, 8, 8, 3))


def test_sequences_and_parts_come_back(tmp_path):
    keras.utils.set_random_seed(2)
    inner = keras.Sequential([keras.Input((8, 8, 3)), layers.SeparableConv2D(4, 3), layers.LeakyReLU(0.2)], name="inner")
    x = given = keras.Input((8, 8, 3))
    x = layers.Reshape((6, 24))(keras.ops.relu(inner(x) + layers.DepthwiseConv2D(3, padding="same")(inner(x) * inner(x))))
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True))(
        layers.TimeDistributed(layers.Dense(5, activation="elu"))(x)
    )
    made = keras.Model(given, layers.GlobalAveragePooling1D()(x))
    alike(load_model(written(made, tmp_path / "x.keras")), made, batch(2, 8, 8, 3))


def trained(model: Any) -> Any:
    """The model after a step of training, with all that it remembers of that."""
    model.compile(optimizer="adam", loss="mse", jit_compile=False)
    said = model(batch(4, *model.input_shape[1:]))
    model.fit(
        batch(4, *model.input_shape[1:]), [numbers(part) for part in said] if isinstance(said, list) else said, verbose=0
    )
    return model


@pytest.mark.parametrize("name", ["x.keras", "x.h5"])
def test_trained_models_come_back(tmp_path, name):
    made = trained(small())
    alike(load_model(written(made, tmp_path / name)), made, batch(2, 8, 8, 3))


@pytest.mark.parametrize("name", ["x.weights.h5", "x.h5"])
def test_trained_weights_come_back(tmp_path, name):
    made = trained(small())
    structure, weights = written(made, tmp_path / "x.json"), written(made, tmp_path / name)
    alike(load_parts(structure, weights), made, batch(2, 8, 8, 3))


def normalised() -> Any:
    norm = layers.Normalization(name="norm")
    norm.adapt(batch(20, 6, 6, 3, seed=9) * 3 + 5)
    return norm


PREPARED: dict[str, Any] = {
    "resized": lambda: layers.Resizing(6, 5),
    "resized by another way": lambda: layers.Resizing(6, 5, interpolation="nearest", crop_to_aspect_ratio=True),
    "rescaled": lambda: layers.Rescaling(1 / 127.5, offset=-1.0),
    "rescaled by channel": lambda: layers.Rescaling([1.0, 2.0, 3.0]),
    "normalised by weights": normalised,
    "normalised by numbers": lambda: layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 5.0, 6.0]),
    "cropped": lambda: layers.CenterCrop(4, 6),
    "turned": lambda: layers.Permute((2, 1, 3)),
    "bent": lambda: layers.LeakyReLU(negative_slope=0.3),
    "bent by weights": lambda: layers.PReLU(alpha_initializer="glorot_uniform", shared_axes=[1, 2]),
    "capped": lambda: layers.ReLU(max_value=0.5, negative_slope=0.1),
    "by its square": lambda: layers.RMSNormalization(),
    "as it is": lambda: layers.Identity(),
}


@pytest.mark.parametrize("name", ["x.keras", "x.h5"])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", PREPARED)
def test_preparing_layers_come_back(tmp_path, kind, inside, name):
    keras.utils.set_random_seed(4)
    first = PREPARED[kind]()
    if inside:
        first = keras.Sequential([keras.Input((8, 8, 3)), first], name="inner")
    made = keras.Sequential([keras.Input((8, 8, 3)), first, layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(1)])
    alike(load_model(written(made, tmp_path / name)), made, batch(2, 8, 8, 3))


def test_what_is_made_of_weights_is_made_anew(tmp_path):
    parts = [keras.Sequential([keras.Input((6, 6, 3)), keras.Sequential([normalised()])]) for _ in range(2)]
    weights = written(parts[0], tmp_path / "x.h5")
    inner = parts[1].layers[0].layers[0]
    inner.mean, inner.variance = inner.mean.clone() * 0, inner.variance.clone() * 0
    assign_weights(parts[1], read_h5_file(weights), weights)
    alike(*parts, batch(2, 6, 6, 3))


@pytest.mark.parametrize("name", ["x.keras", "x.h5"])
@pytest.mark.parametrize("frozen", ["model", "layer"])
def test_frozen_parts_come_back(tmp_path, name, frozen):
    """What is frozen stands behind the rest among a part's weights, and all four of a normalisation look the same."""
    inner = keras.Sequential([keras.Input((8, 8, 3)), *(layers.BatchNormalization() for _ in range(2))], name="inner")
    for number, weight in enumerate(inner.weights):
        weight.assign(np.full(3, 1.0 + number))
    (inner if frozen == "model" else inner.layers[0]).trainable = False
    made = keras.Sequential([keras.Input((8, 8, 3)), inner, layers.Flatten(), layers.Dense(1)])
    alike(load_model(written(made, tmp_path / name)), made, batch(2, 8, 8, 3))


def test_new_hard_sigmoid_stays_new(tmp_path):
    made = keras.Sequential([keras.Input((3,)), layers.Dense(4, activation="hard_sigmoid")])
    alike(load_model(written(made, tmp_path / "x.keras")), made, batch(5, 3))


def test_old_hard_sigmoid_has_its_own_slope():
    made = rebuild(sequential(spec("Activation", "a", activation="hard_sigmoid", batch_input_shape=[None, 5])))
    said = numbers(made(np.array([[-3.0, -1.0, 0.0, 2.0, 3.0]], np.float32)))
    np.testing.assert_allclose(said, [[0.0, 0.3, 0.5, 0.9, 1.0]], rtol=1e-6)


def legacy(path: Path, stored: Mapping[str, Sequence[Array]], version: str = "2.0.2", **attributes: Any) -> Path:
    """Weights as Keras 1 and 2 wrote them."""
    with h5py.File(path, "w") as file:
        file.attrs.update(
            {"layer_names": [name.encode() for name in stored], "keras_version": version.encode(), **attributes}
        )
        for name, arrays in stored.items():
            group = file.create_group(name)
            group.attrs["weight_names"] = [f"{name}/w{number}:0".encode() for number in range(len(arrays))]
            for number, array in enumerate(arrays):
                group[f"{name}/w{number}:0"] = array
    return path


KERNEL, BIAS = batch(3, 3, 3, 4, seed=1), batch(4, seed=2)


def old_network(**conv: Any) -> dict[str, Any]:
    return functional(
        picture(),
        spec("Conv2D", "look", ["in"], filters=4, kernel_size=[3, 3], padding="valid", activation="linear", **conv),
        spec("Conv2D", "skip", ["in"], filters=4, kernel_size=[3, 3], padding="valid", activation="tanh"),
        spec("Activation", "bend", ["look"], activation="relu"),
        spec("Add", "sum", ["bend", "skip"]),
        out=["sum"],
    )


def by_hand(given: Array) -> Array:
    """The old network, by numpy."""
    windows = np.lib.stride_tricks.sliding_window_view(given, (3, 3), axis=(1, 2))  # n, rows, columns, channels, 3, 3
    seen = np.einsum("nrcihw,hwio->nrco", windows, KERNEL) + BIAS
    return np.maximum(seen, 0) + np.tanh(-seen)


def test_old_functional_models_are_rebuilt(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(old_network()))
    weights = legacy(tmp_path / "x.h5", {"in": [], "look": [KERNEL, BIAS], "bend": [], "skip": [-KERNEL, -BIAS], "sum": []})
    made = load_parts(tmp_path / "x.json", weights)
    np.testing.assert_allclose(numbers(made(batch(2, 8, 8, 3))), by_hand(batch(2, 8, 8, 3)), rtol=1e-4, atol=1e-5)


def test_order_decides_where_names_differ(tmp_path):
    weights = legacy(tmp_path / "x.h5", {"conv2d_7": [KERNEL, BIAS], "conv2d_9": [-KERNEL, -BIAS]})
    made = rebuild(old_network())
    assign_weights(made, read_h5_file(weights), weights)
    np.testing.assert_allclose(numbers(made(batch(2, 8, 8, 3))), by_hand(batch(2, 8, 8, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ({"look": [KERNEL, BIAS], "skip": [KERNEL]}, "layer 'skip' has weights of 3x3x3x4, expected 3x3x3x4, 4"),
        (
            {"look": [KERNEL.transpose(3, 0, 1, 2), BIAS], "skip": [KERNEL, BIAS]},
            "'look' has weights of 4x3x3x3, 4, expected",
        ),
        ({"look": [KERNEL, BIAS]}, "layer 'skip' has weights of nothing"),
        (
            {"look": [KERNEL, BIAS], "skip": [KERNEL, BIAS], "more": [BIAS]},
            "not the weights of made: it has no layer 'more'",
        ),
    ],
)
def test_other_weights_are_told(tmp_path, stored, told):
    weights = legacy(tmp_path / "x.h5", stored)
    with pytest.raises(InputError, match=f"x.h5: .*{told}"):
        assign_weights(rebuild(old_network()), read_h5_file(weights), weights)


def test_missing_arrays_are_told(tmp_path):
    weights = legacy(tmp_path / "x.h5", {"look": [KERNEL, BIAS], "skip": [KERNEL, BIAS]})
    with h5py.File(weights, "a") as file:
        del file["skip/skip/w1:0"]
    with pytest.raises(InputError, match="some weights of layer 'skip' are missing"):
        assign_weights(rebuild(old_network()), read_h5_file(weights), weights)


def test_new_weights_must_fit_too(tmp_path):
    weights = written(keras.Sequential([keras.Input((3,)), layers.Dense(4)]), tmp_path / "x.weights.h5")
    with pytest.raises(InputError, match=r"x\.weights\.h5: these are not the weights of"):
        assign_weights(small(), read_h5_file(weights), weights)


def test_keras_1_models_are_rebuilt(tmp_path):
    """Convolution2D with the channels in front, a dense layer and a memory, all under their old names."""
    described = sequential(
        spec(
            "Convolution2D", "look", nb_filter=4, nb_row=3, nb_col=3, border_mode="valid", subsample=[1, 1], bias=True,
            dim_ordering="th", init="glorot_uniform", W_regularizer=None, activation="relu",
            batch_input_shape=[None, 3, 8, 8],
        ),
        spec("Reshape", "rows", target_shape=[12, 12]),
        spec("LSTM", "keep", output_dim=2, inner_activation="hard_sigmoid", activation="tanh", dropout_W=0.1, dropout_U=0.0,
             inner_init="orthogonal", forget_bias_init="one", consume_less="cpu", return_sequences=False, stateful=False),
        spec("Dense", "turn", output_dim=1, activation="linear", bias=True, input_dim=None),
    )  # fmt: skip
    gates = {gate: [batch(12, 2, seed=n), batch(2, 2, seed=10 + n), batch(2, seed=20 + n)] for n, gate in enumerate("icfo")}
    stored = {
        "look": [KERNEL.transpose(3, 2, 0, 1), BIAS],
        "keep": [array for gate in "icfo" for array in gates[gate]],
        "turn": [batch(2, 1), batch(1)],
    }
    made = rebuild(described)
    assign_weights(made, read_h5_file(legacy(tmp_path / "x.h5", stored, "1.2.2")), HERE)
    given = batch(3, 3, 8, 8)
    windows = np.lib.stride_tricks.sliding_window_view(given, (3, 3), axis=(2, 3))
    seen = np.maximum(np.einsum("nirchw,hwio->norc", windows, KERNEL) + BIAS[:, None, None], 0).reshape(3, 12, 12)
    state, memory = np.zeros((3, 2)), np.zeros((3, 2))
    for step in seen.transpose(1, 0, 2):
        raw = {gate: step @ w + state @ u + b for gate, (w, u, b) in gates.items()}
        hard = {gate: np.clip(0.2 * raw[gate] + 0.5, 0, 1) for gate in "ifo"}
        memory = hard["f"] * memory + hard["i"] * np.tanh(raw["c"])
        state = hard["o"] * np.tanh(memory)
    np.testing.assert_allclose(numbers(made(given)), state @ stored["turn"][0] + stored["turn"][1], rtol=1e-4, atol=1e-5)


def test_old_gates_come_before_the_reset():
    made = rebuild(sequential(spec("GRU", "keep", units=2, batch_input_shape=[None, 4, 3])))
    assert made.layers[-1].reset_after is False


@pytest.mark.parametrize(("mode", "wanted"), [("sum", "Add"), ("concat", "Concatenate"), ("ave", "Average")])
def test_old_merges_are_rebuilt(mode, wanted):
    merge = spec("Merge", "both", ["in", "bend"], mode=mode, concat_axis=-1)
    made = rebuild(functional(picture(), spec("Activation", "bend", ["in"], activation="relu"), merge, out=["both"]))
    assert type(made.layers[-1]).__name__ == wanted


def test_order_of_layers_is_free():
    described = old_network()
    described["config"]["layers"].reverse()
    assert rebuild(described).count_params() == 2 * (108 + 4)


@pytest.mark.parametrize("listed", [True, False])
def test_parts_may_be_models(listed):
    inner = {**sequential(picture(), spec("Flatten", "flat"), listed=listed), "name": "inner"}
    made = rebuild(sequential(inner, spec("Dense", "turn", units=1), listed=listed))
    assert made.output_shape == (None, 1)


def test_names_are_made_fit(tmp_path):
    made = rebuild(sequential(spec("Dense", "a/b", units=1, batch_input_shape=[None, 3])))
    assign_weights(made, read_h5_file(legacy(tmp_path / "x.h5", {"a/b": [batch(3, 1), batch(1)]})), HERE)
    assert made.layers[-1].name == "a_b"


CODE = {"function": ["4wEAAAA=", None, None], "function_type": "lambda"}
FLAT: dict[str, Any] = {"batch_input_shape": [None, 3]}
STEPS: dict[str, Any] = {"batch_input_shape": [1, 3, 3]}
INNER = spec("Lambda", "s", **CODE)
REFUSED: dict[str, tuple[Any, str]] = {
    "lambda": (sequential(spec("Lambda", "scale", **FLAT, **CODE)), "layer 'scale' is a Lambda, which contains code"),
    "inner lambda": (sequential(spec("TimeDistributed", "t", layer=INNER, **STEPS)), "layer 's' is a Lambda"),
    "operator": (
        functional(picture(), spec("TFOpLambda", "tf", ["in"]), out=["tf"]),
        "'tf' is a TFOpLambda, which contains code",
    ),
    "own class": (sequential(spec("MyLayer", "mine", **FLAT)), "'mine' is a MyLayer, which cannot be rebuilt"),
    "own activation": (
        sequential(spec("Activation", "a", activation="os.system", **FLAT)),
        "unknown activation 'os.system'",
    ),
    "memory kept": (sequential(spec("LSTM", "l", units=2, stateful=True, **STEPS)), "stateful = True is not supported"),
    "unknown argument": (sequential(spec("Dense", "d", units=2, warp=9, **FLAT)), "layer 'd' .Dense. cannot be rebuilt"),
    "no shape": (sequential(spec("Dense", "d", units=2)), "has no valid input shape"),
    "odd shape": (sequential(spec("Dense", "d", units=2, batch_input_shape=[None, -3])), "has no valid input shape"),
    "circle": (
        functional(picture(), spec("Add", "a", ["in", "b"]), spec("ReLU", "b", ["a"]), out=["b"]),
        "'a' depends on a layer",
    ),
    "no model": ({"class_name": "Optimizer", "config": {}}, "the structure is a Optimizer, expected Sequential"),
    "nothing": ([], "not the structure of a Keras model"),
    "half": ({"class_name": "Model", "config": {}}, "not the structure of a Keras model"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refusals_name_the_layer(kind):
    described, told = REFUSED[kind]
    with pytest.raises(InputError, match=told):
        rebuild(described)


def test_refusals_tell_the_way_out(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(REFUSED["lambda"][0]))
    weights = legacy(tmp_path / "x.h5", {})
    with pytest.raises(InputError, match=r"x\.json: layer 'scale' .* use net = 'module:factory' instead"):
        load_parts(tmp_path / "x.json", weights)


def test_calls_with_numbers_are_refused(tmp_path):
    given = keras.Input((3,))
    with pytest.raises(InputError, match="is called with a number"):
        load_model(written(keras.Model(given, layers.Dense(2)(given * 2.0)), tmp_path / "x.keras"))


def test_giants_take_no_memory(tmp_path):
    described = sequential(spec("Dense", "wide", units=10**7, batch_input_shape=[None, 10**5]))
    (tmp_path / "x.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match=r"x\.json: the structure has 1,000,010,000,000 parameters, but the weights only 4"):
        load_parts(tmp_path / "x.json", legacy(tmp_path / "x.h5", {"wide": [BIAS]}))


@pytest.mark.parametrize("text", ["", "{", "[1, NaN]", '{"class_name": "Model", "class_name": "Model"}', "\ud800"])
def test_torn_descriptions_are_told(tmp_path, text):
    (tmp_path / "x.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(InputError, match=r"x\.json: the structure is not"):
        load_parts(tmp_path / "x.json", legacy(tmp_path / "x.h5", {}))


def test_weights_alone_are_no_model(tmp_path):
    with pytest.raises(InputError, match="contains only weights; set structure"):
        load_model(legacy(tmp_path / "x.h5", {"look": [BIAS]}))


def test_archives_need_both_parts(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.keras", "w") as file:
        file.writestr("config.json", "{}")
    with pytest.raises(InputError, match=r"not a \.keras file: config\.json or model\.weights\.h5 is missing"):
        load_model(tmp_path / "x.keras")


def test_unbuilt_networks_are_told():
    with pytest.raises(InputError, match="is not built; call it once in the factory"):
        assign_weights(keras.Sequential([layers.Dense(2)]), H5({}, {"": {}}), HERE)
