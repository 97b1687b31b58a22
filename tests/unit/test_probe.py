from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from swerve.errors import InputError
from swerve.system import Activations
from swerve.systems.probe import INPUT, layers_of, probe


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
    assert np.isfinite(found.low[0])
    assert np.isnan([found.low[1], found.high[1], *found.mean[1]]).all()


def test_dense_steps_are_averaged() -> None:
    net, batch = randomly(nn.Linear(3, 4)), noise(2, 5, 3)
    found = probe(net, batch, ["Linear"])[1]["Linear"]
    np.testing.assert_allclose(found.mean, net(batch).detach().numpy().mean(axis=1), rtol=1e-5)


def test_unknown_layers_are_refused() -> None:
    with pytest.raises(InputError, match=r"Modular has no layer 'look\.1'; did you mean 'look\.5'"):
        probe(Modular(), noise(1, 3, 14, 14), ["look.1"])


def test_idle_layers_are_named() -> None:
    net = nn.Sequential(nn.Linear(3, 3))
    net.add_module("spare", nn.Linear(3, 3))
    net.forward = net[0].forward
    with pytest.raises(InputError, match="layer 'spare' took no part in the forward pass"):
        probe(net, noise(1, 3), ["spare"])


def test_packed_sequences_are_refused() -> None:
    packed = nn.utils.rnn.pack_sequence([noise(3, 2), noise(2, 2)])
    net = nn.LSTM(2, 2)
    net.forward_plain, net.forward = net.forward, lambda batch: net.forward_plain(packed)
    with pytest.raises(InputError, match="layer 'LSTM' must put out a plain batch of sequences"):
        probe(net, noise(2, 3, 2), ["LSTM"])


def test_uneven_rows_are_refused() -> None:
    net = nn.Sequential(nn.Linear(3, 2))
    net.forward = lambda batch: net[0](batch[:1].expand(3, 3))
    with pytest.raises(InputError, match="put out 3 rows for 2 inputs"):
        probe(net, noise(2, 3), ["0"])
