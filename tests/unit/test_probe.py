from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import Activations, Traced
from swerve.core.values import Steering
from swerve.coverage.layers import CoverageWarning, Spanned, layout_of
from swerve.systems.network import INPUT
from swerve.systems.probe import layers_of, probe
from swerve.systems.torch import TorchSystem


def randomly(net: nn.Module, seed: int = 0) -> nn.Module:
    """The network in evaluation mode with weights of its own seed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
    return net.eval()


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


class Recalled(nn.Module):
    """Remembers what it said."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def keep(self, **said: torch.Tensor) -> None:
        self.calls += 1
        self.said = {name: item.detach().clone() for name, item in said.items()}


class Functional(Recalled):
    """Activations as functions: after a convolution, a normalisation, a pooling, in place, and none at all."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.normed, self.pooled = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3), nn.Conv2d(5, 6, 3)
        self.norm, self.bare, self.added = nn.BatchNorm2d(5), nn.Conv2d(6, 7, 1), nn.Conv2d(7, 7, 1)
        self.dense, self.out = nn.Linear(7 * 4, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        plain = functional.relu(self.plain(x))
        normed = torch.tanh(self.norm(self.normed(plain)))
        pooled = functional.max_pool2d(self.pooled(normed), 2).relu_()
        bare = self.bare(pooled)
        added = self.added(bare)
        unchanged = added.clone()
        added += bare
        dense = functional.elu(
            self.dense(functional.adaptive_avg_pool2d(functional.relu(added), 2).flatten(1)), inplace=True
        )
        out = self.out(dense)
        self.keep(plain=plain, normed=normed, pooled=pooled, bare=bare, added=unchanged, dense=dense, out=out)
        return out


class Modular(Recalled):
    """The same manners as modules in sequences, with names of sub-models."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(3, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.5),
            nn.Conv2d(4, 5, 3),
            nn.ELU(True),
        )
        self.steer = nn.Sequential(nn.Flatten(), nn.Linear(80, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.look[:3](x)
        dropped = self.look[3:5](first)
        second = self.look[5:](dropped)
        dense = self.steer[:4](second)
        out = self.steer[4:](dense)
        self.keep(
            **{"look.0": first, "look.4": dropped, "look.5": second, "steer.1": dense, "steer.4": out},
        )
        return out


def expected(output: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = output.double().numpy()
    means = [[unit.mean() for unit in row] for row in rows]
    return np.array(means), np.array([row.min() for row in rows]), np.array([row.max() for row in rows])


def same(found: Activations, output: torch.Tensor) -> None:
    for got, wanted in zip((found.mean, found.low, found.high), expected(output), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [Functional, Modular])
@pytest.mark.parametrize("seed", range(3))
def test_activations_are_those_computed(make, seed: int) -> None:
    net, batch = randomly(make(), seed), noise(4, 3, 14, 14)
    output, found = probe(net, batch, layers_of(net))
    assert torch.equal(output, net(batch))
    for name, said in net.said.items():
        same(found[name], said)
    same(found[INPUT], batch)


def test_layers_go_by_type() -> None:
    assert layers_of(Modular()) == [INPUT, "look.0", "look.4", "look.5", "steer.1", "steer.2", "steer.4"]
    assert layers_of(nn.LSTM(3, 4)) == ["LSTM"]
    kinds = {name: part.kind for name, part in probe(Modular().eval(), noise(1, 3, 14, 14), layers_of(Modular()))[1].items()}
    assert kinds == {INPUT: "input", "look.0": "convolution", "look.4": "dropout"} | {
        "look.5": "convolution", "steer.1": "dense", "steer.2": "dropout", "steer.4": "dense"
    }  # fmt: skip


class Sequence(nn.Module):
    def __init__(self, first: bool, kind: type[nn.RNNBase] = nn.LSTM) -> None:
        super().__init__()
        self.recurrent = kind(3, 4, batch_first=first)
        self.dense = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = self.recurrent(x if self.recurrent.batch_first else x.transpose(0, 1))[0]
        return self.dense(steps[:, -1] if self.recurrent.batch_first else steps[-1])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("first", [True, False])
def test_sequences_keep_their_steps(kind, first: bool) -> None:
    net, batch = randomly(Sequence(first, kind)), noise(5, 7, 3)
    found = probe(net, batch, ["recurrent", "dense"])[1]["recurrent"]
    with torch.no_grad():
        steps = net.recurrent(batch if first else batch.transpose(0, 1))[0]
    wanted = (steps if first else steps.transpose(0, 1)).numpy()
    assert (found.kind, found.passes) == ("recurrent", 1)
    np.testing.assert_array_equal(found.mean, wanted)
    np.testing.assert_array_equal(found.low, wanted.min(axis=(1, 2)))


class Frames(nn.Module):
    """An encoder over every frame of a window, either as one tall batch or one frame after the other, then a cell."""

    def __init__(self, tall: bool) -> None:
        super().__init__()
        self.tall = tall
        self.look, self.cell = nn.Conv2d(3, 4, 3), nn.GRUCell(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inputs, frames = x.shape[:2]
        if self.tall:
            seen = functional.relu(self.look(x.flatten(0, 1))).mean((2, 3)).reshape(inputs, frames, 4)
        else:
            seen = torch.stack([functional.relu(self.look(x[:, frame])).mean((2, 3)) for frame in range(frames)], 1)
        state = torch.zeros(inputs, 6)
        for frame in range(frames):
            state = self.cell(seen[:, frame], state)
        return state


@pytest.mark.parametrize("tall", [True, False])
def test_frames_become_passes(tall: bool) -> None:
    net, batch = randomly(Frames(tall)), noise(2, 5, 3, 6, 6)
    _, found = probe(net, batch, layers_of(net))
    assert (found["look"].passes, found[INPUT].passes) == (5, 5)
    with torch.no_grad():
        same(found["look"], functional.relu(net.look(batch.flatten(0, 1))))
    same(found[INPUT], batch.flatten(0, 1))


def test_cells_are_unrolled() -> None:
    net, batch = randomly(Frames(True)), noise(2, 5, 3, 6, 6)
    output, found = probe(net, batch, ["cell"])
    assert found["cell"].mean.shape == (2, 5, 6)
    np.testing.assert_array_equal(found["cell"].mean[:, -1], output.numpy())


def test_only_the_named_layers_come() -> None:
    _, found = probe(randomly(Modular()), noise(1, 3, 14, 14), ["steer.1", "look.0"])
    assert list(found) == ["steer.1", "look.0"]


def test_batch_costs_one_pass() -> None:
    net = randomly(Functional())
    probe(net, noise(4, 3, 14, 14), layers_of(net))
    assert net.calls == 1


def test_answers_need_no_gradient() -> None:
    output, _ = probe(randomly(Modular()), noise(1, 3, 14, 14), ["look.0"])
    assert not output.requires_grad


def hooks(net: nn.Module) -> int:
    return sum(len(module._forward_hooks) for module in net.modules())


def test_no_hook_stays_behind() -> None:
    net = randomly(Modular())
    probe(net, noise(1, 3, 14, 14), layers_of(net))
    assert hooks(net) == 0


def test_failure_leaves_no_hook() -> None:
    net = randomly(Modular())
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        probe(net, noise(1, 3, 20, 20), layers_of(net))
    assert hooks(net) == 0


def test_half_precision_is_read() -> None:
    net = randomly(nn.Sequential(nn.Linear(3, 4), nn.ReLU())).bfloat16()
    _, found = probe(net, noise(2, 3).bfloat16(), ["0"])
    assert found["0"].mean.dtype == np.float32
    assert (found["0"].mean >= 0).all()


def test_broken_numbers_are_seen() -> None:
    net = randomly(nn.Sequential(nn.Conv2d(1, 2, 1), nn.Tanh()))
    batch = torch.ones(2, 1, 3, 3)
    batch[1, 0, 2, 2] = float("nan")
    found = probe(net, batch, ["0"])[1]["0"]
    assert isinstance(found, Spanned)
    assert np.isfinite(found.low[0])
    assert np.isnan([found.low[1], found.high[1], *found.mean[1]]).all()
    batch[1, 0, 2, 2] = float("inf")
    found = probe(randomly(nn.Conv2d(1, 2, 1)), batch, ["Conv2d"])[1]["Conv2d"]
    assert np.isinf([found.low[1], found.high[1]]).any()


def test_dense_steps_are_averaged() -> None:
    net, batch = randomly(nn.Linear(3, 4)), noise(2, 5, 3)
    found = probe(net, batch, ["Linear"])[1]["Linear"]
    np.testing.assert_allclose(found.mean, net(batch).detach().numpy().mean(axis=1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 8), (2, 5, 8), (2, 5, 6, 8), (2, 4, 5, 6, 8)])
def test_dense_units_come_last(shape: tuple[int, ...]) -> None:
    net, batch = randomly(nn.Sequential(nn.Linear(8, 16), nn.GELU())), noise(*shape)
    found = probe(net, batch, ["0"])[1]["0"]
    wanted = net(batch).detach().numpy().reshape(2, -1, 16).mean(axis=1)
    np.testing.assert_allclose(found.mean, wanted, rtol=1e-4, atol=1e-6)


class Branches(nn.Module):
    """A convolution, a dense layer of something else, then dropouts of what each of them said, and of neither."""

    def __init__(self) -> None:
        super().__init__()
        self.look, self.feel = nn.Conv2d(3, 6, 3), nn.Linear(3, 5)
        self.seen, self.felt, self.turned = nn.Dropout(), nn.Dropout(), nn.Dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen, felt = self.look(x).relu(), self.feel(x.permute(0, 2, 3, 1)).relu()
        seen, felt = self.seen(seen), self.felt(felt)
        return self.turned(seen.flatten(2).transpose(1, 2)).sum((1, 2)) + felt.sum((1, 2, 3))


DROPPED = (
    (nn.Sequential(nn.Conv1d(3, 6, 3), nn.ReLU(), nn.Dropout()), (2, 3, 20), {"2": 6}),
    (nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Dropout2d()), (2, 3, 9, 9), {"2": 6}),
    (nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Dropout()), (2, 7, 3), {"2": 6}),
    (nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Dropout()), (2, 7, 8, 3), {"2": 6}),
    (nn.Sequential(nn.Conv2d(3, 6, 3), nn.Flatten(), nn.Dropout()), (2, 3, 5, 5), {"2": 54}),
    (nn.Sequential(nn.Dropout2d(), nn.Conv2d(3, 6, 3)), (2, 3, 5, 7), {"0": 3}),
    (Branches(), (2, 3, 11, 11), {"seen": 6, "felt": 5, "turned": 6}),
)


@pytest.mark.parametrize(("net", "shape", "units"), DROPPED)
def test_dropout_follows_its_layer(net: nn.Module, shape: tuple[int, ...], units: dict[str, int]) -> None:
    for layers in (list(units), layers_of(net)):  # whether the layer before is traced or not
        found = probe(randomly(net), noise(*shape), layers)[1]
        assert {name: found[name].mean.shape for name in units} == {name: (2, width) for name, width in units.items()}


ACTIVE = (
    *(nn.LogSigmoid(), nn.Threshold(0.1, -1.0), nn.Threshold(0.1, -1.0, True), nn.Hardshrink(), nn.Softshrink()),
    *(nn.Tanhshrink(), nn.Softmin(1), nn.Softmax(1), nn.PReLU(), nn.ReLU6(True), nn.Softsign(), nn.Hardswish(True)),
    *(nn.GELU(), nn.SiLU(True), nn.Mish(), nn.CELU(), nn.Softplus(), nn.Hardtanh(), nn.LeakyReLU(0.1, True)),
)


@pytest.mark.parametrize("activation", ACTIVE, ids=lambda module: type(module).__name__)
def test_every_activation_is_followed(activation: nn.Module) -> None:
    net = randomly(nn.Sequential(nn.Conv2d(3, 4, 1), activation))
    output, found = probe(net, noise(2, 3, 5, 5), ["0"])
    same(found["0"], output)


FLAT = {
    "flatten": [nn.Flatten()],
    "normalised": [nn.Flatten(), nn.BatchNorm1d(24), nn.Dropout()],
    "unflattened": [nn.Flatten(), nn.Unflatten(1, (8, 3))],
    "pooled first": [nn.MaxPool2d(2, 1, 1), nn.Flatten()],
}


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("between", FLAT.values(), ids=FLAT)
def test_activation_may_follow_flat(between: list[nn.Module], inplace: bool) -> None:
    size = 3 if isinstance(between[0], nn.MaxPool2d) else 2
    net = randomly(nn.Sequential(nn.Conv2d(3, 6, 1), *between, nn.ReLU(inplace)))
    output, found = probe(net, noise(2, 3, 2, 2), ["0"])
    same(found["0"], output.reshape(2, 6, size, size))


def test_flat_pooling_ends_the_search() -> None:
    net = randomly(nn.Sequential(nn.Conv2d(3, 6, 1), nn.Flatten(), nn.Unflatten(1, (1, 24)), nn.MaxPool1d(2), nn.ReLU()))
    _, found = probe(net, noise(2, 3, 2, 2), ["0"])
    same(found["0"], net[0](noise(2, 3, 2, 2)).detach())


class Aside(nn.Module):
    """Looks at a flat view of what it said, or changes it through one, before the activation."""

    def __init__(self, change: bool) -> None:
        super().__init__()
        self.look, self.change = nn.Conv2d(3, 4, 1), change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        said = self.look(x)
        self.own = said.clone()
        flat = said.view(len(x), -1)
        return flat.mul_(3) if self.change else said.relu() + flat.mean()


def test_views_aside_take_nothing() -> None:
    net, batch = randomly(Aside(change=False)), noise(2, 3, 5, 5)
    _, found = probe(net, batch, ["look"])
    same(found["look"], net.own.relu())


def test_change_through_views_comes_later() -> None:
    net, batch = randomly(Aside(change=True)), noise(2, 3, 5, 5)
    _, found = probe(net, batch, ["look"])
    same(found["look"], net.own)


def test_long_rows_have_one_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swerve.systems.probe.CACHED", 40)
    net, batch = randomly(nn.Sequential(nn.Conv2d(3, 4, 1), nn.Tanh())), noise(7, 3, 2, 2)
    output, found = probe(net, batch, ["0"])
    same(found["0"], output)


def test_unknown_layers_are_refused() -> None:
    with pytest.raises(InputError, match=r"Modular has no layer 'look\.1'; did you mean 'look\.5'"):
        probe(Modular(), noise(1, 3, 14, 14), ["look.1"])


class Attentive(nn.Module):
    """An attention, whose last projection torch never calls, and a head that is for training only."""

    def __init__(self) -> None:
        super().__init__()
        self.look, self.attend = nn.Conv2d(3, 8, 3), nn.MultiheadAttention(8, 2, batch_first=True)
        self.aux, self.out = nn.Linear(8, 4), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.look(x).relu().flatten(2).transpose(1, 2)
        return self.out(self.attend(tokens, tokens, tokens)[0].mean(1))


def system_of(net: nn.Module, batch: torch.Tensor) -> TorchSystem:
    """The network on one picture after the other, known by their numbers."""
    return TorchSystem(randomly(net), lambda case: batch[int(case.key)], lambda row: Steering(float(row.flatten()[0])))


def test_idle_layers_are_left_out() -> None:
    net, batch = randomly(Attentive()), noise(1, 3, 6, 6)
    assert list(probe(net, batch, layers_of(net))[1]) == [INPUT, "look", "out"]
    with pytest.warns(CoverageWarning, match=r"coverage excludes attend\.out_proj, aux"):
        layout = layout_of(system_of(net, batch), Case("0", {}))
    assert layout.names == ("look", "out")
    assert layout_of(system_of(net, batch), Case("0", {}), under="look").neurons == 8


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_stacks_are_told(kind) -> None:
    with pytest.warns(CoverageWarning, match="layer '.*' returns only the outputs of the last of its 3 layers"):
        probe(kind(3, 4, num_layers=3, batch_first=True), noise(2, 5, 3), [kind.__name__])


def test_empty_batches_trace_nothing() -> None:
    system = system_of(Modular(), noise(1, 3, 14, 14))
    assert list(system([])) == []
    assert system.trace([], system.layers()) == Traced([], {})


def test_packed_sequences_are_refused() -> None:
    packed = nn.utils.rnn.pack_sequence([noise(3, 2), noise(2, 2)])
    net = nn.LSTM(2, 2)
    net.forward_plain, net.forward = net.forward, lambda batch: net.forward_plain(packed)
    with pytest.raises(InputError, match="layer 'LSTM' must return a plain batch of sequences"):
        probe(net, noise(2, 3, 2), ["LSTM"])


def test_uneven_rows_are_refused() -> None:
    net = nn.Sequential(nn.Linear(3, 2))
    net.forward = lambda batch: net[0](batch[:1].expand(3, 3))
    with pytest.raises(InputError, match="returned 3 rows for 2 inputs"):
        probe(net, noise(2, 3), ["0"])
