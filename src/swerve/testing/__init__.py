"""Contract tests to inherit for your own transformations, spaces, sources, systems, searches and ledgers, and fakes.

class TestBrighten(TransformationContract):
    def changes(self):
        return [Brighten(10), Brighten(-40)]
"""

from swerve.execution.ledger import MemoryLedger
from swerve.testing.contracts import (
    LedgerContract,
    SearchContract,
    SourceContract,
    SpaceContract,
    SystemContract,
    TransformationContract,
)
from swerve.testing.fakes import FakeSource, FakeSystem, sample_case

__all__ = [
    "FakeSource",
    "FakeSystem",
    "LedgerContract",
    "MemoryLedger",
    "SearchContract",
    "SourceContract",
    "SpaceContract",
    "SystemContract",
    "TransformationContract",
    "sample_case",
]
