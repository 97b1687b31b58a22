"""Training sets: labels follow their change, and what is tested is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.api import run as run_campaign
from swerve.core.campaign import Campaign
from swerve.core.case import Case, Source
from swerve.core.errors import InputError, NotApplicable, UnreadableCase
from swerve.core.relation import Rule
from swerve.core.space import Over, Range, Sequenced, Space
from swerve.core.transformation import Transformation, Unchanged
from swerve.core.values import Boxes2D, Image, Steering
from swerve.relations.steering import same_angle
from swerve.retrain.dataset import DrawnFollowups, Example, Examples, FoundFollowups, Joined, Prepared, prepare, stream
from swerve.retrain.split import GUARD, TEST, TRAIN, VAL, Cut, Split, split_source
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.store.view import Run
from swerve.testing.fakes import FakeSource, FakeSystem
from swerve.transformations.affine import Rotate
from swerve.transformations.photometric import Brighten
from tests.fixture_runs import Made, finding

ROTATE, BRIGHTEN = Over(Rotate, degrees=Range(1, 20)), Over(Brighten, beta=Range(5, 60))


@dataclass(frozen=True)
class Boxed(FakeSource):
    """Noise with a box."""

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        box = Boxes2D(np.array([[8, 3, 14, 8]]), ("car",), size=(self.width, self.height))
        return replace(case, truth=(*case.truth, box))


def campaign(source: Source | None = None, *changes: Space, **more: object) -> Campaign:
    rules = tuple(Rule(f"rule-{n}", change, same_angle(1.0)) for n, change in enumerate(changes or (BRIGHTEN,)))
    return Campaign(source or Boxed(count=30), FakeSystem(gain=0.5), rules, Sweep(per_case=2), **more)  # type: ignore[arg-type]


def made(given: Campaign | None = None, mix: float = 0.5, seed: int = 0) -> Prepared:
    given = given or campaign()
    return prepare(given, split_source(given.source, Cut(seed=seed)), DrawnFollowups(given, given.rules, seed), mix=mix)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 2.5))
def test_training_never_touches_test(seed: int, mix: float) -> None:
    prepared = made(mix=mix, seed=seed)
    tested = {prepared.test.group(key) for key in prepared.test.keys()}
    parents = {case.parent or case.key for case in stream(prepared.training)}
    assert not tested & {prepared.train.group(name) for name in prepared.train.keys()}
    assert not parents & {case.parent or case.key for held in prepared.tested().values() for case in stream(held)}


@pytest.mark.parametrize("count", [2, 3])
def test_every_case_has_each_rule_once_before_one_comes_again(count: int) -> None:
    given_campaign = campaign(None, *(BRIGHTEN, ROTATE, Over(Brighten, beta=Range(-60, -5)))[:count])
    keys = given_campaign.source.keys()
    drawn = DrawnFollowups(given_campaign, given_campaign.rules).of(keys, float(count))
    assert Counter((example.key, example.rule) for example in drawn) == Counter(
        (key, rule.name) for key in keys for rule in given_campaign.rules
    )
    first = Counter(example.rule for example in drawn[: len(keys)])
    assert len(first) == count  # not the same rule first for all


@settings(deadline=None)
@given(st.floats(0, 3))
def test_mix_leaves_split_alone(mix: float) -> None:
    given_campaign = campaign(FakeSource(count=12, width=4, height=4))
    prepared = made(given_campaign, mix=mix)
    assert prepared.split.sides == split_source(given_campaign.source).sides
    assert prepared.train.followups == round(mix * len(prepared.split.keys(TRAIN)))


def leaky(side: str) -> tuple[Split, Example]:
    split = split_source(Boxed(count=30))
    return split, Example(split.keys(side)[0], Brighten(20.0), "bright")


@pytest.mark.parametrize("side", [TEST, VAL])
def test_planted_leak_is_refused(side: str) -> None:
    split, example = leaky(side)
    told = rf"follow-up 'brightened by 20' of '{example.key}' cannot enter the train set: .* is in the {side} set"
    with pytest.raises(InputError, match=told):
        Examples(Boxed(count=30), (example,), split, TRAIN)


def test_guard_frame_is_refused() -> None:
    split = Cut("blocks", gap=2).split({f"{n}": "d" for n in range(40)})
    with pytest.raises(InputError, match="is in the guard set"):
        Examples(FakeSource(), (Example(split.keys("guard")[0]),), split, TRAIN)


def test_unknown_case_is_refused() -> None:
    split, _ = leaky(TEST)
    with pytest.raises(InputError, match="'elsewhere' is not in the split"):
        Examples(Boxed(count=30), (Example("elsewhere"),), split, TRAIN)


@dataclass(frozen=True)
class Claiming(FakeSource):
    """Every case says it comes from `parent` and drive `drive`."""

    parent: str | None = None
    drive: str = ""

    def group(self, key: str) -> str:
        return key

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        return replace(case, parent=self.parent, group=self.drive or case.group)


def test_hidden_parent_is_refused() -> None:
    split = split_source(FakeSource(count=30))
    source = Claiming(count=30, parent=split.keys(TEST)[0])
    train = Examples(source, (Example(split.keys(TRAIN)[0]),), split, TRAIN)
    with pytest.raises(InputError, match="itself a follow-up, cannot enter the train set"):
        list(stream(train))


@pytest.mark.parametrize("side", [TEST, VAL])
def test_hidden_drive_is_refused(side: str) -> None:
    split = split_source(FakeSource(count=30))
    source = Claiming(count=30, drive=split.keys(side)[0])
    train = Examples(source, (Example(split.keys(TRAIN)[0]),), split, TRAIN)
    with pytest.raises(InputError, match=f"belongs to drive '.*', which has cases in the {side} set"):
        list(stream(train))


def test_window_over_test_frame_is_refused() -> None:
    split = Cut("blocks", gap=0).split({key: "d" for key in FakeSource(count=60).keys()})
    windows = Windows(FakeSource(count=60, drive=60), 3)
    after_test = next(
        key
        for key, before in zip(FakeSource(count=60).keys()[2:], FakeSource(count=60).keys()[1:], strict=False)
        if split.sides[key] == TRAIN and split.sides[before] == TEST
    )
    with pytest.raises(
        InputError, match=rf"'{after_test}' cannot enter the train set: it contains frame '.*', which is in the test set"
    ):
        Examples(windows, (Example(after_test),), split, TRAIN)


def test_labels_follow_rotation() -> None:
    prepared = made(campaign(None, ROTATE))
    example = next(item for item in prepared.train.examples if item.change)
    case, source = prepared.train[example.name], Boxed(count=30)[example.key]
    assert example.change is not None
    assert case.truth == tuple(example.change.map(value) for value in source.truth)
    assert case.truth[1] != source.truth[1]
    assert case.truth[0] == source.truth[0]


def test_followups_say_their_origin() -> None:
    prepared = made()
    example = next(item for item in prepared.train.examples if item.change)
    case = prepared.train[example.name]
    assert (case.key, case.parent, case.group) == (example.name, example.key, example.key)
    assert case.facts["rule"] == "rule-0"
    assert str(case.facts["change"]).startswith("brighten")


def test_same_seed_same_set() -> None:
    one, two, other = (made(seed=seed).train for seed in (4, 4, 5))
    assert one.keys() == two.keys()
    assert one.fingerprint() == two.fingerprint() != other.fingerprint()


def test_larger_mix_keeps_smaller() -> None:
    few, many = (set(made(mix=mix).train.keys()) for mix in (0.2, 0.9))
    assert few < many


def test_several_draws_per_case() -> None:
    prepared = made(mix=2.0)
    parents = [example.key for example in prepared.train.examples if example.change]
    assert len(parents) == 2 * len(prepared.split.keys(TRAIN))
    assert set(parents) == set(prepared.split.keys(TRAIN))


def test_no_mix_no_followups() -> None:
    assert made(mix=0.0).train.followups == 0


@pytest.mark.parametrize("mix", [-0.1, float("nan"), float("inf")])
def test_wrong_mix_is_named(mix: float) -> None:
    with pytest.raises(InputError, match="'mix' must be a number of at least 0"):
        made(mix=mix)


def test_held_out_has_every_rule() -> None:
    prepared = made(campaign(None, ROTATE, BRIGHTEN))
    assert list(prepared.tested()) == ["original", "synthetic, rule-0", "synthetic, rule-1"]
    assert {len(held.examples) for held in prepared.synthetic.values()} == {len(prepared.test.examples)}


@dataclass(frozen=True)
class Odd(Transformation):
    """Cannot be made to an odd case."""

    preserves = ("*",)

    def applies(self, case: Case) -> str | None:
        return "odd" if int(case.key[-1]) % 2 else None

    def image(self, image: Image) -> Image:
        return Image(image.pixels // 2)


def test_unmakeable_is_made_up_for() -> None:
    prepared = made(campaign(None, Over(Odd)), mix=0.3)
    assert prepared.train.followups == round(0.3 * len(prepared.split.keys(TRAIN)))
    assert all(int(item.key[-1]) % 2 == 0 for item in prepared.train.examples if item.change)


BOTH = Sequenced((BRIGHTEN, Over(Odd)))


@dataclass(frozen=True)
class Sudden(Odd):
    """Finds out that it cannot be made only while it is made."""

    def applies(self, case: Case) -> str | None:
        return None

    def __call__(self, case: Case) -> Case:
        if int(case.key[-1]) % 2:
            raise NotApplicable("odd")
        return super().__call__(case)


@pytest.mark.parametrize("change", [BOTH, Over(Sudden)])
def test_told_number_is_real(change: Space) -> None:
    prepared = made(campaign(FakeSource(count=100), change), mix=0.3)
    skipped: list[tuple[str, str]] = []
    really = sum(case.parent is not None for case in stream(prepared.train, skipped))
    assert prepared.train.followups == really == round(0.3 * len(prepared.split.keys(TRAIN)))
    assert not skipped


class Fussy:
    """Admits cases of small number."""

    def admit(self, source: Case, followup: Case) -> str | None:
        return None if int(source.key[-2:]) < 20 else "unnatural"


def test_gate_refills_from_next() -> None:
    free, gated = made(mix=0.3).train, made(campaign(gate=Fussy()), mix=0.3).train
    assert free.followups == gated.followups
    natural = {name for name in free.keys() if "~" in name and int(name.partition("~")[0][-2:]) < 20}
    assert natural < set(gated.keys())


def test_fixed_change_is_drawn_once() -> None:
    prepared = made(campaign(None, Over(Unchanged)), mix=3.0)
    assert prepared.train.followups == len(prepared.split.keys(TRAIN))


@dataclass(frozen=True)
class Torn(FakeSource):
    """One case that does not read, and one that cannot be made."""

    def __getitem__(self, key: str) -> Case:
        if key.endswith("1"):
            raise UnreadableCase(f"{key}: torn")
        if key.endswith("2"):
            raise NotApplicable("cannot")
        return super().__getitem__(key)


def test_unreadable_cases_are_told() -> None:
    skipped: list[tuple[str, str]] = []
    assert len(list(stream(Torn(count=4), skipped))) == 2
    assert skipped == [("fake-00001", "fake-00001: torn"), ("fake-00002", "cannot")]


class Reading(FakeSource):
    """Counts how often it is read."""

    reads = 0

    def __getitem__(self, key: str) -> Case:
        type(self).reads += 1
        return super().__getitem__(key)


def test_cases_are_read_when_asked() -> None:
    split = split_source(Reading(count=30))
    train = Examples(Reading(count=30), tuple(map(Example, split.keys(TRAIN))), split, TRAIN)
    Reading.reads = 0
    cases = stream(train)
    next(cases)
    assert Reading.reads == 1


@dataclass(frozen=True)
class Unnamed(FakeSource):
    """Frames of one drive without a name, or only some of them."""

    count: int = 200
    only: tuple[str, ...] | None = None

    def keys(self) -> Sequence[str]:
        return super().keys() if self.only is None else self.only

    def group(self, key: str) -> str:
        return ""

    def __getitem__(self, key: str) -> Case:
        return replace(FakeSource(count=self.count)[key], group="")


def with_base(source: Source, split: Split, base: Source) -> Prepared:
    given_campaign = campaign(source)
    return prepare(given_campaign, split, DrawnFollowups(given_campaign, given_campaign.rules), base=base)


@pytest.mark.parametrize("side", [TEST, VAL, GUARD])
def test_base_of_another_side_is_refused(side: str) -> None:
    split = split_source(Unnamed(), Cut("blocks", gap=10))
    with pytest.raises(InputError, match=f"of the further training data cannot enter the train set: .* in the {side} set"):
        with_base(Unnamed(), split, Unnamed(only=split.keys(side)))


def test_base_of_train_side_is_taken() -> None:
    split = split_source(Unnamed(), Cut("blocks", gap=10))
    prepared = with_base(Unnamed(), split, Unnamed(only=split.keys(TRAIN)))
    assert len(list(stream(prepared.training))) == len(split.keys(TRAIN)) + prepared.train.followups


@dataclass(frozen=True)
class Disguised(Unnamed):
    """Follow-ups under names of their own."""

    def keys(self) -> Sequence[str]:
        return [f"aug-{key}" for key in super().keys()]

    def __getitem__(self, key: str) -> Case:
        return replace(Brighten(40.0)(super().__getitem__(key.removeprefix("aug-"))), key=key)


@pytest.mark.parametrize("side", [TEST, VAL, GUARD])
def test_base_of_followups_is_refused(side: str) -> None:
    split = split_source(Unnamed(), Cut("blocks", gap=10))
    prepared = with_base(Unnamed(), split, Disguised(only=split.keys(side)))
    with pytest.raises(InputError, match=f"'aug-.*', itself a follow-up, cannot enter the train set: .* in the {side} set"):
        next(stream(prepared.training))


@dataclass(frozen=True)
class Unsampled(FakeSource):
    """Frames under other names that say they belong to `drive`, at once or only when read."""

    said: str = ""
    shown: str = ""

    def keys(self) -> Sequence[str]:
        return ["further-0"]

    def group(self, key: str) -> str:
        return self.said

    def __getitem__(self, key: str) -> Case:
        return replace(super().__getitem__(key), group=self.shown)


@pytest.mark.parametrize("side", [TEST, VAL])
def test_base_of_held_drive_is_refused(side: str) -> None:
    source = FakeSource(count=40, drive=4)
    split = split_source(source)
    drive = split.groups[split.keys(side)[0]]
    with pytest.raises(InputError, match=f"'further-0' .* drive '{drive}', which has cases in the {side} set"):
        with_base(source, split, Unsampled(said=drive))
    prepared = with_base(source, split, Unsampled(shown=drive))
    with pytest.raises(InputError, match=f"'further-0' .* drive '{drive}', which has cases in the {side} set"):
        next(stream(prepared.training))


def test_base_of_cut_drive_is_refused() -> None:
    source = FakeSource(count=200, drive=200)
    split = split_source(source, Cut("blocks", gap=10))
    told = r"'further-0' .* belongs to drive 'drive-0', which has cases in the guard, test, val set"
    with pytest.raises(InputError, match=told):
        with_base(source, split, Unsampled(said="drive-0"))
    prepared = with_base(source, split, Unsampled(shown="drive-0"))
    with pytest.raises(InputError, match=told):
        next(stream(prepared.training))


def test_base_window_over_test_frame_is_refused() -> None:
    source = Unnamed()
    split = split_source(source, Cut("blocks", gap=0))
    with pytest.raises(
        InputError,
        match=r"further training data cannot enter the train set: it contains frame '.*', which is in the \w+ set",
    ):
        with_base(source, split, Renamed(Windows(source, 5)))


def test_base_of_window_frames_is_refused() -> None:
    windows = Windows(Unnamed(), 5)
    splits = (split_source(windows, Cut("blocks", gap=0, seed=seed)) for seed in range(99))
    split = next(split for split in splits if split.sides[windows.keys()[0]] == TEST)
    first = Unnamed().keys()[:1]  # held by a window, but the key of none
    with pytest.raises(InputError, match="is in the test set"):
        with_base(windows, split, Unnamed(only=first))
    prepared = with_base(windows, split, Disguised(only=first))
    with pytest.raises(InputError, match="itself a follow-up, cannot enter the train set: 'fake-00000' is in the test set"):
        next(stream(prepared.training))


@dataclass(frozen=True)
class Renamed:
    """Another source under names of its own."""

    source: Windows

    def keys(self) -> Sequence[str]:
        return [f"w-{key}" for key in self.source.keys()]

    def holds(self, key: str) -> Sequence[str]:
        return self.source.holds(key.removeprefix("w-"))

    def group(self, key: str) -> str:
        return ""

    def __getitem__(self, key: str) -> Case:
        return replace(self.source[key.removeprefix("w-")], key=key)

    def fingerprint(self) -> str:
        return self.source.fingerprint()


@dataclass(frozen=True)
class Elsewhere(FakeSource):
    """Other drives."""

    def keys(self) -> Sequence[str]:
        return [f"other-{index}" for index in range(self.count)]


def test_base_gives_the_originals() -> None:
    given_campaign = campaign()
    split = split_source(given_campaign.source)
    prepared = prepare(
        given_campaign, split, DrawnFollowups(given_campaign, given_campaign.rules), mix=0.66, base=Elsewhere(count=5)
    )
    keys = prepared.training.keys()
    assert keys[:5] == Elsewhere(count=5).keys()
    assert len(keys) == 5 + round(0.66 * len(split.keys(TRAIN)))
    assert all("~" in key for key in keys[5:])


def test_empty_training_gets_its_line() -> None:
    given_campaign = campaign()
    split = split_source(given_campaign.source)
    with pytest.raises(InputError, match="the training set is empty"):
        prepare(
            given_campaign, split, DrawnFollowups(given_campaign, given_campaign.rules), mix=0.0, base=Elsewhere(count=0)
        )


def test_joined_keys_must_differ() -> None:
    with pytest.raises(InputError, match="'fake-00000' is in two of the joined sources"):
        Joined((FakeSource(2), FakeSource(2)))


def test_findings_become_followups(tmp_path: Path) -> None:
    given_campaign = campaign(FakeSource(count=30))
    run_campaign(given_campaign, tmp_path / "run", report=False)
    run = Run(tmp_path / "run")
    split = split_source(given_campaign.source)
    prepared = prepare(given_campaign, split, FoundFollowups(run), mix=1.0)
    found = {(item.case, item.words) for item in run.findings()}
    ours = [item for item in prepared.train.examples if item.change]
    assert 0 < len(ours) <= len(split.keys(TRAIN))
    assert all((item.key, item.change.words()) in found for item in ours if item.change)
    shas = {item.input_sha for item in run.findings()}
    assert all(prepared.train[item.name].input_sha in shas for item in ours)


@pytest.mark.parametrize("seed", range(8))
def test_repeated_findings_count_once(tmp_path: Path, seed: int) -> None:
    again = [finding("a", rule, Rotate(9.0)) for rule in ("one", "two") for _ in range(6)]
    run = Made([*again, *(finding("a", "one", Rotate(degrees)) for degrees in (3.0, 12.0, 15.0, 18.0))]).write(tmp_path)
    assert len(FoundFollowups(run, seed).of(["a", "b", "c", "d"], 1.0)) == 4
    assert len(FoundFollowups(run, seed).of(["a"] * 9, 1.0)) == 5


def test_many_findings_keep_their_order(tmp_path: Path) -> None:
    run = Made([finding("a", "one", Rotate(step / 10)) for step in range(1, 300)]).write(tmp_path)
    few, many = (FoundFollowups(run, 3).of(["a"], count) for count in (4.0, 299.0))
    assert many[:4] == few
    assert len(many) == 299


def test_findings_of_one_rule(tmp_path: Path) -> None:
    given_campaign = campaign(FakeSource(count=20), BRIGHTEN, Over(Brighten, beta=Range(-60, -5)))
    run_campaign(given_campaign, tmp_path / "run", report=False)
    keys = given_campaign.source.keys()
    chosen = FoundFollowups(Run(tmp_path / "run"), rules=("rule-1",)).of(keys, 9.0)
    assert {item.rule for item in chosen} == {"rule-1"}
    assert isinstance(chosen[0].change, Brighten)
    assert chosen[0].change.beta < 0


def test_steering_labels_stay() -> None:
    prepared = made()
    for case in stream(prepared.train):
        assert isinstance(case.truth[0], Steering)


def test_chosen_cases_are_spread() -> None:
    given_campaign = campaign(FakeSource(count=200, width=4, height=4))
    keys = given_campaign.source.keys()
    one, two = (DrawnFollowups(given_campaign, given_campaign.rules, seed).of(keys, 0.2) for seed in (0, 1))
    assert {example.key for example in one} != {example.key for example in two}
    assert 10 < sum(example.key in keys[:100] for example in one) < 30
