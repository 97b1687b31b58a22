"""Fine-tuning on a toy: a net that looks at the left half alone learns from brightened frames to look at both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.relation import Rule
from swerve.core.seeding import digest_of, rng_for
from swerve.core.space import Over, Range
from swerve.core.values import Image, Steering
from swerve.relations.steering import same_angle
from swerve.retrain.before_after import MSE, compare
from swerve.retrain.dataset import DrawnFollowups, Prepared, prepare
from swerve.retrain.finetune import finetune, torch_of
from swerve.retrain.split import Cut, split_source
from swerve.search.sweep import Sweep
from swerve.systems.torch import TorchSystem
from swerve.testing.fakes import FakeSystem
from swerve.train.loop import Recipe
from swerve.transformations.photometric import Brighten

SCALE = 30.0


@dataclass(frozen=True)
class Halves:
    """Frames whose right half is grey; the angle is how much brighter the left half is."""

    count: int = 60

    def keys(self) -> Sequence[str]:
        return [f"h-{index}" for index in range(self.count)]

    def group(self, key: str) -> str:
        return key

    def __getitem__(self, key: str) -> Case:
        left = int(rng_for("halves", key).integers(60, 140))
        pixels = np.full((4, 8, 3), 100, np.uint8)
        pixels[:, :4] = left
        return Case(key, {"camera": Image(pixels)}, (Steering((left - 100) / 100 * SCALE),), group=key)

    def fingerprint(self) -> str:
        return digest_of("halves", self.count)


def read(case: Case) -> torch.Tensor:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return torch.tensor([image.pixels[:, half].mean() / 100 - 1 for half in (slice(4), slice(4, 8))], dtype=torch.float32)


def say(row: torch.Tensor) -> Steering:
    return Steering(row.item() * SCALE)


def lopsided() -> TorchSystem:
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0.0]]))
        net.bias.zero_()
    return TorchSystem(net, read, say)


def prepared(system: TorchSystem) -> Prepared:
    rules = (Rule("bright", Over(Brighten, beta=Range(20, 80)), same_angle(1.0)),)
    campaign = Campaign(Halves(), system, rules, Sweep(per_case=1))
    return prepare(campaign, split_source(campaign.source, Cut(test=0.3, val=0.2)), DrawnFollowups(campaign, rules), mix=1.0)


FAST = Recipe(passes=60, rate=0.05, patience=10)


def test_changed_data_improves() -> None:
    before = lopsided()
    sets = prepared(before)
    tuned = finetune(before, sets.training, sets.val, recipe=FAST)
    rows = {row.data: row for row in compare(before, tuned.system, sets.tested()) if row.measure == MSE}
    assert rows["original"].before == pytest.approx(0, abs=1e-9)
    assert rows["synthetic, bright"].before > 0.03  # type: ignore[operator]
    assert rows["synthetic, bright"].after < 0.1 * rows["synthetic, bright"].before  # type: ignore[operator]
    assert rows["synthetic, bright"].change.high < 0  # type: ignore[operator]
    assert rows["synthetic, bright"].test.p < 0.001  # type: ignore[operator]


def test_both_halves_are_learnt() -> None:
    sets = prepared(lopsided())
    tuned = finetune(lopsided(), sets.training, sets.val, recipe=FAST)
    left, right = tuned.system.net.state_dict()["weight"][0].tolist()
    assert (left, right) == pytest.approx((1, -1), abs=0.2)


def test_same_seed_same_weights() -> None:
    sets, system = prepared(lopsided()), lopsided()
    before, short = torch.get_rng_state(), replace(FAST, passes=3, batch=8)
    one, two, other = (finetune(system, sets.training, sets.val, recipe=short, seed=seed) for seed in (1, 1, 2))
    assert one.system.fingerprint() == two.system.fingerprint() != other.system.fingerprint()
    assert torch.equal(torch.get_rng_state(), before)


def test_original_is_left_alone() -> None:
    system = lopsided()
    before, sets = system.fingerprint(), prepared(system)
    tuned = finetune(system, sets.training, sets.val, recipe=FAST)
    assert system.fingerprint() == before != tuned.system.fingerprint()
    assert not tuned.system.net.training


class Misled(Halves):
    """Labels that say 40 degrees of everything."""

    def __getitem__(self, key: str) -> Case:
        return replace(super().__getitem__(key), truth=(Steering(40.0),))


def test_patience_ends_training() -> None:
    perfect = lopsided()
    tuned = finetune(perfect, Misled(20), Halves(10), recipe=Recipe(passes=50, rate=0.5, patience=4))
    assert len(tuned.errors) == 5
    assert tuned.ended == "the validation error did not improve for 4 passes"


def test_never_worse_than_start() -> None:
    perfect = lopsided()
    tuned = finetune(perfect, Misled(20), Halves(10), recipe=Recipe(passes=5, rate=0.5, patience=5))
    assert tuned.best == 0
    assert tuned.system.fingerprint() == perfect.fingerprint()
    assert min(tuned.errors[1:]) > tuned.errors[0]


def test_unchanged_network_is_described() -> None:
    tuned = finetune(lopsided(), Misled(20), Halves(10), recipe=Recipe(passes=5, rate=0.5, patience=4))
    ended = "the validation error did not improve for 4 passes"
    assert tuned.describe() == f"no pass improved validation: the network is unchanged; {ended}"


def test_kept_pass_is_described() -> None:
    sets = prepared(lopsided())
    tuned = finetune(lopsided(), sets.training, sets.val, recipe=replace(FAST, passes=3))
    first, last = tuned.errors[0], tuned.errors[3]
    assert tuned.describe() == f"pass 3 of 3 was kept: validation error {first:.3g} → {last:.3g} rad²; all 3 passes done"


class Doubtful(Halves):
    """Halves whose every second case is a follow-up of another, with a label of 40 degrees."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        odd = int(key.rpartition("-")[2]) % 2
        return replace(case, truth=(Steering(40.0),), parent="another") if odd else case


def test_originals_are_guarded() -> None:
    """Learning the follow-ups lowers the validation error and raises that of the originals."""
    free = finetune(lopsided(), Misled(20), Doubtful(20), recipe=Recipe(passes=4, rate=0.2, patience=9))
    assert free.best > 0
    assert free.originals == ()
    held = finetune(lopsided(), Misled(20), Doubtful(20), recipe=Recipe(passes=4, rate=0.2, patience=9), worse=0.05)
    assert held.best == 0
    assert held.errors == free.errors
    assert held.system.fingerprint() == lopsided().fingerprint()
    assert held.originals[0] == pytest.approx(0.0, abs=1e-9)  # the network was right on them
    assert len(held.originals) == len(held.errors)
    assert min(held.originals[1:]) > 1e-3
    passes = ", ".join(str(number) for number, error in enumerate(held.errors) if error < held.errors[0])
    assert held.describe() == (
        f"the network is unchanged; pass {passes} had a smaller validation error, "
        f"but raised that of untouched cases by more than 5%; {held.ended}"
    )


def test_pass_within_the_limit_is_kept() -> None:
    sets = prepared(lopsided())
    constant = lopsided()
    with torch.no_grad():
        constant.net.weight.zero_()  # type: ignore[union-attr, operator]
    tuned = finetune(constant, sets.training, sets.val, recipe=FAST, worse=0.0)
    assert tuned.best > 0
    assert tuned.originals[tuned.best] <= tuned.originals[0]
    assert "untouched" not in tuned.describe()


def test_only_follow_ups_cannot_be_guarded() -> None:
    class Made(Halves):
        def __getitem__(self, key: str) -> Case:
            return replace(super().__getitem__(key), parent="another")

    with pytest.raises(InputError, match="untouched cases in the validation set, which has only follow-ups"):
        finetune(lopsided(), Halves(4), Made(4), worse=0.1)


def test_best_pass_is_kept() -> None:
    sets = prepared(lopsided())
    long = finetune(lopsided(), sets.training, sets.val, recipe=Recipe(passes=12, rate=0.4, patience=12))
    assert long.errors[long.best] == min(long.errors)
    assert 0 < long.best < 12
    short = finetune(lopsided(), sets.training, sets.val, recipe=Recipe(passes=long.best, rate=0.4, patience=12))
    assert short.system.fingerprint() == long.system.fingerprint()


def test_errors_are_in_radians() -> None:
    constant = lopsided()
    with torch.no_grad():
        constant.net.weight.zero_()  # type: ignore[union-attr, operator]
    tuned = finetune(constant, Halves(20), Halves(10), recipe=Recipe(passes=1))
    angles = np.radians([Halves(10)[key].truth[0].degrees for key in Halves(10).keys()])  # type: ignore[attr-defined]
    assert tuned.errors[0] == pytest.approx(np.mean(angles**2), rel=1e-5)


class Bursting(nn.Linear):
    """No number as soon as its bias has moved."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return super().forward(given) * (float("nan") if self.bias else 1.0)


def test_burst_loss_is_told() -> None:
    net = Bursting(2, 1)
    with torch.no_grad():
        net.bias.zero_()
    tuned = finetune(TorchSystem(net, read, say), Misled(20), Halves(10), recipe=Recipe(passes=9, batch=4))
    assert tuned.ended == "the loss was not a finite number in pass 1; try a smaller rate"
    assert tuned.best == 0
    assert tuned.system.net.state_dict()["bias"].item() == 0


def test_offset_words_are_understood() -> None:
    shifted = TorchSystem(lopsided().net, read, lambda row: Steering(5.0 - row.item() * SCALE))
    tuned = finetune(shifted, Halves(30), Halves(15), recipe=Recipe(passes=80, rate=0.1, patience=80))
    assert tuned.errors[tuned.best] < 0.01 * tuned.errors[0]


def test_bent_words_are_refused() -> None:
    bent = TorchSystem(lopsided().net, read, lambda row: Steering(row.item() ** 2))
    with pytest.raises(InputError, match="the angle from 'say' must be a linear function of the network's output"):
        finetune(bent, Halves(4), Halves(4))


def test_several_outputs_are_refused() -> None:
    wide = TorchSystem(nn.Linear(2, 3), read, lambda row: Steering(row[0].item()))
    with pytest.raises(InputError, match="has 3 outputs"):
        finetune(wide, Halves(4), Halves(4))


def test_other_systems_are_refused() -> None:
    with pytest.raises(InputError, match="FakeSystem is not a torch network and cannot be fine-tuned; export"):
        torch_of(FakeSystem())


def test_wrapped_network_is_found() -> None:
    from swerve.zoo.steering import DaveOrig

    packaged = DaveOrig()
    assert torch_of(packaged) is packaged.system


class Torn(Halves):
    def __getitem__(self, key: str) -> Case:
        if self.count == 3 or key == "h-1":
            raise UnreadableCase(f"{key} is torn")
        return super().__getitem__(key)


def test_torn_cases_are_told() -> None:
    tuned = finetune(lopsided(), Torn(8), Halves(4), recipe=Recipe(passes=1))
    assert tuned.skipped == (("h-1", "h-1 is torn"),)


def test_empty_training_gets_its_line() -> None:
    line = r"the training set is empty: none of its 3 cases can be used \(the first one: h-0 is torn\)"
    with pytest.raises(InputError, match=line):
        finetune(lopsided(), Torn(3), Halves(4))
    with pytest.raises(InputError, match="the validation set is empty: none of its 0 cases"):
        finetune(lopsided(), Halves(4), Halves(0))


class Unlabelled(Halves):
    def __getitem__(self, key: str) -> Case:
        return replace(super().__getitem__(key), truth=())


def test_missing_label_is_named() -> None:
    with pytest.raises(InputError, match="case 'h-0' has no steering angle, and no other value;"):
        finetune(lopsided(), Unlabelled(4), Halves(4))


def test_unlike_inputs_are_refused() -> None:
    uneven = TorchSystem(lopsided().net, lambda case: torch.zeros(2 + int(case.key[-1])), say)
    with pytest.raises(InputError, match=r"'h-1': all inputs of the network must have the same shape, got 2 and 3"):
        finetune(uneven, Halves(4), Halves(4))


def test_dropout_follows_the_seed() -> None:
    system = TorchSystem(nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1)), read, say)
    recipe = Recipe(passes=2, rate=0.05, batch=4)
    tuned = []
    for seed in (11, 12):
        torch.manual_seed(seed)  # what somebody else draws with
        tuned.append(finetune(system, Misled(20), Misled(10), recipe=recipe).system.fingerprint())
    assert tuned[0] == tuned[1] != system.fingerprint()


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.line = nn.BatchNorm1d(2), nn.Linear(2, 1)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        said: torch.Tensor = self.line(self.norm(given))
        return said


def test_statistics_stay_as_they_were() -> None:
    torch.manual_seed(0)
    system = TorchSystem(Normed(), read, say)
    tuned = finetune(system, Halves(9), Halves(4), recipe=Recipe(passes=2, rate=0.01, batch=4))
    before, after = system.net.state_dict(), tuned.system.net.state_dict()
    assert torch.equal(after["norm.running_mean"], before["norm.running_mean"])
    assert not torch.equal(after["line.weight"], before["line.weight"])


@pytest.mark.parametrize(
    "wrong", [{"passes": 0}, {"batch": 0}, {"patience": 0}, {"rate": 0.0}, {"rate": 11.0}, {"rate": float("nan")}]
)
def test_wrong_recipe_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Recipe(**wrong)  # type: ignore[arg-type]


class Noted:
    def __init__(self) -> None:
        self.stages: list[str] = []

    def begin(self, stage: str, total: int | None) -> None:
        self.stages.append(f"{stage} {total}")

    def advance(self, done: int, found: int) -> None:
        del done, found


def test_progress_is_told() -> None:
    noted = Noted()
    finetune(lopsided(), Halves(6), Halves(3), recipe=Recipe(passes=2), progress=noted)
    assert noted.stages == ["reading training set 6", "reading validation set 3", "pass 1 of 2 6", "pass 2 of 2 6"]
