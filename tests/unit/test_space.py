import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.seeding import rng_for, rng_from, stream_of
from swerve.core.space import (
    BatchSpace,
    Choices,
    OneOf,
    Over,
    Proposal,
    Range,
    Sequenced,
    Space,
    Table,
    alternatives,
    as_space,
    propose_all,
    reads,
)
from swerve.core.system import System
from swerve.core.transformation import Chain, Transformation, Unchanged, param
from swerve.testing import FakeSystem, sample_case
from swerve.transformations.affine import Rotate, Translate
from swerve.transformations.blur import GaussianBlur, blurs
from swerve.transformations.photometric import Brighten, Contrast


def draws(space: Space, count: int = 200) -> list[Any]:
    return [space.propose(sample_case(), rng_for("draw", index), FakeSystem()) for index in range(count)]


def test_range_is_kept_and_filled() -> None:
    drawn = [change.degrees for change in draws(Over(Rotate, degrees=Range(-4, 9)))]
    assert min(drawn) >= -4
    assert max(drawn) <= 9
    assert np.ptp(drawn) > 11


def test_draws_are_tidy() -> None:
    assert all(round(change.degrees, 1) == change.degrees for change in draws(Over(Rotate)))


def test_unnamed_parameter_is_usual_range() -> None:
    drawn = [change.degrees for change in draws(Over(Rotate))]
    assert min(drawn) >= 3
    assert max(drawn) <= 30


def test_steps_are_kept_in_draws() -> None:
    assert {change.size for change in draws(Over(GaussianBlur))} == {3, 5, 7}


def test_same_purpose_same_draw() -> None:
    assert draws(Over(Rotate), 5) == draws(Over(Rotate), 5)
    assert len(set(draws(Over(Rotate), 20))) > 10


def test_grids_advance_together() -> None:
    changes = Over(Translate, x="grid", y="grid").grid()
    assert [(change.x, change.y) for change in changes] == [(10.0 * k, 10.0 * k) for k in range(1, 11)]  # type: ignore[attr-defined]


def test_choices_are_all_listed() -> None:
    space = Over(Translate, x=Choices((1, 2)), y=Choices((5, 6)))
    assert space.grid() == (Translate(1, 5), Translate(1, 6), Translate(2, 5), Translate(2, 6))
    assert set(draws(space)) == set(space.grid())


def test_endless_space_has_no_grid() -> None:
    assert Over(Rotate).grid() == ()
    assert OneOf((Over(Rotate), Table((Unchanged(),)))).grid() == ()


def test_grid_beside_range_draws_both() -> None:
    drawn = draws(Over(Translate, x="grid", y=Range(-5, 5)))
    assert {change.x for change in drawn} == {10.0 * k for k in range(1, 11)}
    assert all(-5 <= change.y <= 5 for change in drawn)


def test_one_of_reaches_every_space() -> None:
    assert {type(change) for change in draws(OneOf((Over(Rotate), Over(Contrast))))} == {Rotate, Contrast}


def test_sequence_makes_chains() -> None:
    space = Sequenced((Over(Brighten, beta=10), Over(Rotate, degrees="grid")))
    assert len(space.grid()) == 10
    assert all(isinstance(change, Chain) and len(change.steps) == 2 for change in draws(space))


def test_blur_table_has_ten() -> None:
    assert len(blurs().grid()) == 10


def test_fixed_change_is_a_space() -> None:
    assert as_space(Rotate(5)).grid() == (Rotate(5),)
    assert as_space(Rotate).grid() == ()
    assert as_space(Chain((Rotate(5), Brighten(3)))).grid() == (Chain((Rotate(5), Brighten(3))),)
    with pytest.raises(TypeError, match="expected a space"):
        as_space(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ({"degree": 5}, "rotate has no parameter 'degree'; did you mean 'degrees'"),
        ({"degrees": 500}, "'degrees' must be a number from -180 to 180, got 500"),
        ({"degrees": Range(-10, 400)}, "'degrees' must be a number from -180 to 180, got 400"),
        ({"degrees": Choices((1, "two"))}, "'degrees' must be a number"),
        ({"degrees": "gird"}, "'degrees' must be a number"),
    ],
)
def test_wrong_domain_is_named(domains: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Over(Rotate, **domains)


@pytest.mark.parametrize("ends", [(2, 1), (1, 1), ("a", 1), (0, float("nan")), (0, float("inf")), (True, 2)])
def test_bad_range_is_refused(ends: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="a range needs two finite numbers in increasing order"):
        Range(*ends)


@dataclass(frozen=True)
class Fine(Transformation):
    amount: float = param(0, 0.04, neutral=0)
    sigma: float = 0.5
    size: int = 3
    preserves = ("*",)


def test_small_ranges_are_drawn_finely() -> None:
    assert len({change.amount for change in draws(Over(Fine), 100)}) > 20


def test_plain_fields_are_drawn_as_declared() -> None:
    drawn = draws(Over(Fine, amount=0.01, sigma=Range(0.1, 0.9), size=Range(2, 5)), 100)
    assert all(0.1 <= change.sigma <= 0.9 for change in drawn)
    assert {change.size for change in drawn} == {2, 3, 4, 5}


def test_coarse_resolution_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'resolution' must be above 0 and at most half the range, got 0\.1"):
        param(0, 0.04, neutral=0, resolution=0.1)
    with pytest.raises(ValueError, match="'low' must be below 'high'"):
        param(1, 1, neutral=1)


def test_numbers_of_numpy_are_numbers() -> None:
    assert Brighten(np.int64(3)) == Brighten(3)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Odd(BatchSpace):
    """Has a change only where the first random number is odd."""

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> list[Proposal]:
        numbers = [int(rng.integers(100)) for rng in rngs]
        return [Brighten(number) if number % 2 else NotApplicable(f"{number} is even") for number in numbers]


def proposals(space: Space, count: int = 50) -> list[Proposal]:
    rngs = [rng_for("draw", index) for index in range(count)]
    return propose_all(space, [sample_case()] * count, rngs, FakeSystem())


def alone(space: Space, count: int = 50) -> list[Transformation | str]:
    found: list[Transformation | str] = []
    for index in range(count):
        try:
            found.append(space.propose(sample_case(), rng_for("draw", index), FakeSystem()))
        except NotApplicable as reason:
            found.append(str(reason))
    return found


@pytest.mark.parametrize(
    "space",
    [
        Over(Rotate),
        Table((Brighten(1), Brighten(2))),
        Odd(),
        OneOf((Over(Rotate), Odd(), Table((Brighten(1), Brighten(2))))),
        Sequenced((Over(Rotate), OneOf((Over(Brighten), Over(Contrast))))),
        Sequenced((Odd(), Over(Rotate), Odd())),
        OneOf((Sequenced((Odd(), OneOf((Odd(), Over(Rotate))))), Over(Contrast))),
    ],
)
def test_many_at_once_are_proposed_as_one_by_one(space: Space) -> None:
    found = [item if isinstance(item, Transformation) else str(item) for item in proposals(space)]
    assert found == alone(space)
    assert propose_all(space, [], [], FakeSystem()) == []


def test_case_without_a_change_ends_its_own_sequence_alone() -> None:
    found = proposals(Sequenced((Odd(), Over(Rotate), Odd())))
    chains = [item for item in found if isinstance(item, Chain)]
    assert 0 < len(chains) < len(found)
    assert all(len(chain.steps) == 3 for chain in chains)
    assert {str(item).split()[-1] for item in found if isinstance(item, NotApplicable)} == {"even"}


def test_spaces_tell_whether_they_read() -> None:
    blind = OneOf((Over(Rotate), Sequenced((Over(Rotate), Table((Brighten(1),))))))
    assert not reads(blind)
    assert reads(Odd())
    assert reads(OneOf((blind, Odd())))
    assert reads(Sequenced((Odd(), blind)))
    assert alternatives(blind) == blind.spaces
    assert alternatives(Odd()) == (Odd(),)
    assert Odd().grid() == ()


def test_wrong_number_of_proposals_is_refused() -> None:
    @dataclass(frozen=True)
    class Short(Odd):
        def propose_all(self, cases: Sequence[Case], rngs: Any, system: System) -> list[Proposal]:
            return [Brighten(3)]

    with pytest.raises(InputError, match="Short proposed 1 changes for 2 cases"):
        proposals(Short(), 2)


@given(st.lists(st.tuples(st.sampled_from(("integers", "random", "permutation", "normal")), st.integers(1, 99))), st.text())
def test_stream_goes_on_where_the_generator_was(before: list[tuple[str, int]], purpose: str) -> None:
    """After whatever was drawn: some draws leave half of a number for the next."""
    rng = rng_for(purpose)
    for name, size in before:
        getattr(rng, name)(size)
    stream = json.loads(json.dumps(stream_of(rng)))
    again = rng_from(tuple(stream))
    assert [again.integers(7) for _ in range(9)] == [rng.integers(7) for _ in range(9)]
    assert again.random(9).tolist() == rng.random(9).tolist()
    assert again.normal() == rng.normal()
