"""Keras networks as systems, and what is seen inside of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from swerve.config.toml import Builder
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.values import Array, Image
from swerve.systems.decoders import SteeringDecoder
from swerve.systems.keras import Keras, KerasEngine
from swerve.systems.keras_structure import keras_library
from swerve.systems.network import INPUT
from swerve.systems.steps import Divide
from tests.unit.test_keras_files import HERE, batch, numbers, small, written

keras = keras_library()
layers = keras.layers
SAY = (SteeringDecoder(unit="degrees", positive="left", kind="wheel", index=0),)
pytestmark = pytest.mark.usefixtures("one_thread")


def looks(model: Any, layer: str, said: Array, given: Array) -> None:
    found = KerasEngine(model).trace(given, [layer])[1][layer]
    np.testing.assert_allclose(found.mean, said.mean(axis=tuple(range(1, said.ndim - 1))), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.low, said.reshape(len(said), -1).min(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.high, said.reshape(len(said), -1).max(axis=1), rtol=1e-6)


FOLLOWED: dict[str, tuple[list[Any], int]] = {
    "nothing": ([], 0),
    "layer": ([lambda: layers.ReLU(max_value=1.0)], 1),
    "own slope": ([lambda: layers.PReLU(alpha_initializer="ones")], 1),
    "activation": ([lambda: layers.Activation("gelu")], 1),
    "linear, then bent": ([lambda: layers.Activation("linear"), lambda: layers.ELU()], 2),
    "normalised": ([lambda: layers.BatchNormalization(gamma_initializer="glorot_uniform")], 1),
    "normalised, then bent": ([lambda: layers.LayerNormalization(), lambda: layers.Activation("tanh")], 2),
    "pooled, then bent": ([lambda: layers.MaxPooling2D(), lambda: layers.ReLU()], 2),
    "pooled to one, then bent": ([lambda: layers.GlobalAveragePooling2D(), lambda: layers.ReLU()], 2),
    "pooled": ([lambda: layers.AveragePooling2D(2)], 0),
    "dropped, then bent": ([lambda: layers.Dropout(0.5), lambda: layers.Softmax()], 2),
    "cropped, then bent": ([lambda: layers.Cropping2D(1), lambda: layers.ReLU()], 0),
}


@pytest.mark.parametrize("followed", FOLLOWED)
def test_layers_say_what_follows(followed):
    keras.utils.set_random_seed(3)
    after, told = FOLLOWED[followed]
    x = given = keras.Input((8, 8, 3))
    steps = [x := layers.Conv2D(4, 3, name="conv")(x), *(x := make()(x) for make in after)]
    model, part = keras.Model(given, x), keras.Model(given, steps[told])
    looks(model, "conv", numbers(part(batch(2, 8, 8, 3))), batch(2, 8, 8, 3))
    linear = followed in ("nothing", "normalised", "pooled", "cropped, then bent")
    assert KerasEngine(model).trace(batch(2, 8, 8, 3), ["conv"])[1]["conv"].activated is not linear


def test_functions_are_followed_too():
    x = given = keras.Input((8, 8, 3))
    model = keras.Model(given, keras.ops.relu(layers.Conv2D(4, 3, name="conv")(x)))
    looks(model, "conv", numbers(model(batch(2, 8, 8, 3))), batch(2, 8, 8, 3))


def test_own_activation_comes_first():
    x = given = keras.Input((8, 8, 3))
    bent = layers.Conv2D(4, 3, activation="sigmoid", name="conv")(x)
    model, part = keras.Model(given, layers.Activation("tanh")(bent)), keras.Model(given, bent)
    looks(model, "conv", numbers(part(batch(2, 8, 8, 3))), batch(2, 8, 8, 3))


def test_flat_layers_keep_their_units():
    x = given = keras.Input((8, 8, 3))
    model = keras.Model(given, layers.ReLU()(layers.Flatten()(layers.Conv2D(4, 3, name="conv")(x))))
    said = numbers(model(batch(2, 8, 8, 3))).reshape(2, 6, 6, 4)
    looks(model, "conv", said, batch(2, 8, 8, 3))


@pytest.mark.parametrize("kind", [layers.LSTM, layers.GRU, layers.SimpleRNN])
@pytest.mark.parametrize("whole", [True, False])
def test_memories_keep_their_steps(kind, whole):
    x = given = keras.Input((7, 5))
    layer = kind(3, return_sequences=whole, name="keep")
    model = keras.Model(given, layer(x))
    engine, data = KerasEngine(model), batch(2, 7, 5)
    said, found = engine.trace(data, ["keep"])
    assert (found["keep"].kind, found["keep"].mean.shape) == ("recurrent", (2, 7, 3))
    told = next(iter(said.values()))
    np.testing.assert_allclose(found["keep"].mean if whole else found["keep"].mean[:, -1], told, rtol=1e-6)
    np.testing.assert_array_equal(told, next(iter(engine.run(data).values())))
    assert layer.return_sequences is whole


def test_frames_become_passes():
    x = given = keras.Input((4, 8, 8, 3))
    conv = layers.Conv2D(2, 3, name="conv")
    model = keras.Model(given, layers.TimeDistributed(conv, name="each")(x))
    engine = KerasEngine(model)
    assert engine.layers() == [INPUT, "each.conv"]
    found = engine.trace(batch(3, 4, 8, 8, 3), engine.layers())[1]
    said = numbers(conv(batch(3, 4, 8, 8, 3).reshape(12, 8, 8, 3)))
    assert (found["each.conv"].passes, found[INPUT].passes) == (4, 4)
    np.testing.assert_allclose(found["each.conv"].mean, said.mean(axis=(1, 2)), rtol=1e-5, atol=1e-6)


def test_parts_have_their_own_names():
    inner = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3, name="look")], name="cnn")
    x = given = keras.Input((8, 8, 3))
    model = keras.Model(given, layers.Dense(1, name="turn")(layers.Dropout(0.5, name="drop")(layers.Flatten()(inner(x)))))
    engine = KerasEngine(model)
    assert engine.layers() == [INPUT, "cnn.look", "drop", "turn"]
    found = engine.trace(batch(2, 8, 8, 3), engine.layers())[1]
    assert [part.kind for part in found.values()] == ["input", "convolution", "dropout", "dense"]
    np.testing.assert_allclose(found[INPUT].mean, batch(2, 8, 8, 3).mean(axis=(1, 2)), rtol=1e-5, atol=1e-6)


def test_model_is_left_as_found():
    model = small()
    engine = KerasEngine(model)
    before = {layer.name: set(vars(layer)) for layer in model.layers}
    engine.trace(batch(2, 8, 8, 3), engine.layers())
    engine.shape = ()  # as if it were not known, so that the model itself fails
    with pytest.raises((ValueError, RuntimeError)):
        engine.trace(batch(2, 9, 9, 3), engine.layers())
    assert {layer.name: set(vars(layer)) for layer in model.layers} == before


def pictures(count: int) -> list[Case]:
    pixels = np.random.default_rng(4).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    return [Case(str(number), {"camera": Image(frame)}) for number, frame in enumerate(pixels)]


def system(**given: Any) -> Keras:
    return Keras(**{"read": (Divide(255.0),), "say": SAY, **given})


def test_outputs_bear_their_layers_names():
    assert list(KerasEngine(small()).run(batch(2, 8, 8, 3))) == ["turn", "go"]


def test_fixed_batches_are_fed_in_portions():
    def fixed() -> Any:
        keras.utils.set_random_seed(5)
        return keras.Sequential([keras.Input((8, 8, 3), batch_size=2), layers.Flatten(), layers.Dense(1)])

    made = system(net=fixed)
    assert made.engine.batch == 2
    one_by_one = [made([case])[0][0].degrees for case in pictures(5)]
    assert [answer[0].degrees for answer in made(pictures(5))] == pytest.approx(one_by_one, abs=1e-5)


def test_factories_may_take_weights(tmp_path):
    weights = written(small(), tmp_path / "x.weights.h5")

    def other() -> Any:
        model = small()
        model.set_weights([np.zeros(variable.shape, np.float32) for variable in model.weights])
        return model

    assert (
        system(net=other, weights=weights)(pictures(2)) == system(net=small)(pictures(2)) != system(net=other)(pictures(2))
    )


def unnamed() -> Any:
    keras.utils.set_random_seed(6)
    return keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(1)])


def test_names_do_not_depend_on_the_past():
    first, again = system(net=unnamed), system(net=unnamed)
    assert first.layers() == again.layers() == [INPUT, "conv2d", "dense"]
    assert first.fingerprint() == again.fingerprint()


def test_fingerprint_follows_the_files(tmp_path):
    path = written(small(), tmp_path / "x.keras")
    before = system(model=path).fingerprint()
    assert system(model=path).fingerprint() == before
    changed = small()
    changed.get_layer("turn").bias.assign([0.001])
    assert system(model=written(changed, path)).fingerprint() != before


@pytest.mark.parametrize("given", [{}, {"structure": HERE}, {"model": HERE, "weights": HERE}, {"model": HERE, "net": small}])
def test_one_way_must_be_chosen(given):
    with pytest.raises(InputError, match="exactly one of: 'model'; 'structure' with 'weights'; 'net'"):
        system(**given)


def test_factory_must_make_a_model():
    with pytest.raises(InputError, match="must return a Keras model, got dict"):
        system(net=dict)


def test_two_inputs_are_refused():
    ends = [keras.Input((3,)), keras.Input((3,))]
    with pytest.raises(InputError, match="the network must have one input, it has 2"):
        KerasEngine(keras.Model(ends, layers.Add()(ends)))


def test_other_backends_are_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(EnvironmentFault, match="Keras runs on jax; set KERAS_BACKEND=torch before it is imported"):
        keras_library()


def test_toml_makes_a_system(tmp_path):
    written(small(), tmp_path / "x.keras")
    say = {"use": "swerve.systems.decoders:SteeringDecoder", "unit": "degrees", "positive": "left", "kind": "wheel"}
    table = {"use": "swerve.systems.keras:Keras", "model": "x.keras", "read": [], "say": [say]}
    made = Builder(base=tmp_path).component(table)
    assert (made.layout, len(made(pictures(3)))) == ("hwc", 3)
    named = Builder(base=tmp_path).component({**table, "model": None, "net": "tests.unit.test_keras:small"})
    assert named(pictures(3)) == made(pictures(3))


def test_method_of_a_layer_s_own_is_kept():
    """A call that somebody has put on one layer is what a trace runs, and it is there again afterwards."""
    x = given = keras.Input((8, 8, 3))
    layer = layers.Conv2D(4, 3, name="conv")
    model = keras.Model(given, layer(x))
    plain = layer.call
    vars(layer)["call"] = own = lambda inputs: 2 * plain(inputs)
    looks(model, "conv", numbers(model(batch(2, 8, 8, 3))), batch(2, 8, 8, 3))
    assert vars(layer)["call"] is own


def test_layer_in_two_models_is_traced_under_both_names():
    layer = layers.LSTM(3, name="keep")
    inner = keras.Sequential([keras.Input((7, 5)), layer], name="inner")
    x = given = keras.Input((7, 5))
    model = keras.Model(given, layers.Concatenate()([inner(x), layer(x)]))
    engine, data = KerasEngine(model), batch(2, 7, 5)
    found = engine.trace(data, ["inner.keep", "keep"])[1]
    assert {name: part.mean.shape for name, part in found.items()} == {"inner.keep": (2, 14, 3), "keep": (2, 14, 3)}
    np.testing.assert_array_equal(found["keep"].mean, found["inner.keep"].mean)
    assert not vars(layer).keys() & {"call", "inner_loop"}
