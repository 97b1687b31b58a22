"""Our own classes under the contracts that users' classes can inherit."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from swerve.core.campaign import Campaign, Search
from swerve.core.case import Case, Source
from swerve.core.relation import Rule
from swerve.core.space import OneOf, Over, Sequenced, Space
from swerve.core.system import System
from swerve.core.transformation import Chain, Transformation, Unchanged
from swerve.core.values import Steering
from swerve.execution.ledger import Ledger
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.store.fingerprint import identity_of
from swerve.store.folder import Store
from swerve.systems.function import FunctionSystem
from swerve.testing import (
    FakeSource,
    FakeSystem,
    LedgerContract,
    MemoryLedger,
    SearchContract,
    SourceContract,
    SpaceContract,
    SystemContract,
    TransformationContract,
)
from swerve.transformations.affine import Rotate, Scale, Shear, Translate
from swerve.transformations.blur import blurs
from swerve.transformations.insert import Insertions
from swerve.transformations.photometric import Brighten, Contrast
from swerve.world.source import World
from swerve.zoo.steering import DaveOrig
from tests.fixture_sweeps import sweep_case
from tests.reading_spaces import ByAnswer, ByLabel, ByPicture


class TestPhotometric(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [*Brighten.grid(), Brighten(-40), *Contrast.grid(), Contrast(0.3)]


class TestAffine(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        reflected = Rotate(9, border="reflect")
        return [*Rotate.grid(), *Translate.grid(), *Scale.grid(), *Shear.grid(), reflected, Shear(-0.3, anchor="top-left")]


class TestBlur(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return blurs().grid()


class TestCombined(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [Unchanged(), Chain((Rotate(5), Brighten(10))), Chain((Unchanged(), Chain((Contrast(1.5), Rotate(3)))))]


class TestBlindSpaces(SpaceContract):
    def space(self) -> Space:
        return OneOf((Over(Rotate), Sequenced((Over(Brighten), Over(Contrast))), blurs()))


class TestReadingSpaces(SpaceContract):
    def space(self) -> Space:
        return Sequenced((ByAnswer(), OneOf((ByPicture(), ByLabel(picky=True))), ByAnswer()))


class TestInsertions(SpaceContract):
    def space(self) -> Space:
        return Sequenced((Insertions(("car",)), Insertions(("pedestrian",), near=8.0)))

    def cases(self) -> Sequence[Case]:
        return [sweep_case()]


class TestWorld(SourceContract):
    def source(self) -> Source:
        return World(drives=3, frames=2, width=96, height=54)


class TestWindowsOfThree(SourceContract):
    def source(self) -> Source:
        return Windows(FakeSource(count=10, drive=5), 3)


class TestFakeSource(SourceContract):
    def source(self) -> Source:
        return FakeSource()


class TestFakeSystem(SystemContract):
    def system(self) -> System:
        return FakeSystem()


class TestFunction(SystemContract):
    def system(self) -> System:
        return FunctionSystem(_straight_on)


def _straight_on(case: Case) -> Steering:
    return Steering(float(len(case.key)))


class TestDaveOrig(SystemContract):
    def system(self) -> System:
        return DaveOrig()

    def cases(self) -> Sequence[Case]:
        world = World(drives=3, frames=1, width=160, height=90)
        return [world[key] for key in world.keys()]


class TestSweep(SearchContract):
    def search(self) -> Search:
        return Sweep(per_case=3)


class TestStore(LedgerContract):
    def ledger(self, folder: Path) -> Ledger:
        rule = Rule("rule", Brighten(10), same_angle())
        campaign = Campaign(FakeSource(), FakeSystem(), (rule,), Sweep())
        return Store(folder / "run", identity_of(campaign, folder), folder)

    def close(self, ledger: Ledger) -> None:
        assert isinstance(ledger, Store)
        ledger.__exit__(None, None, None)


class TestMemory(LedgerContract):
    @pytest.fixture(autouse=True)
    def _shared(self) -> None:
        self.kept = MemoryLedger()

    def ledger(self, folder: Path) -> Ledger:
        self.kept = MemoryLedger(self.kept.batches)
        return self.kept
