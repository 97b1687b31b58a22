"""A pytest plugin that makes one test of every rule of a campaign.

    @swerve.metamorphic(source=World(drives=4), system=Epoch(), rules=[...], per_case=4, seed=7)
    def test_steering():
        ...

pytest imports this module in every run, so everything else is imported only when a test needs it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from swerve.core.campaign import Campaign, Search
    from swerve.core.case import Source
    from swerve.core.gate import Gate
    from swerve.core.relation import Rule
    from swerve.core.system import System
    from swerve.execution.rule_tests import RuleResult, RuleTestRequest, RuleTests
    from swerve.store.record_json import Finding

MARK, RULE = "metamorphic", "swerve_rule"
SHARED = pytest.StashKey[dict[str, "RuleTests"]]()
TEST = pytest.StashKey["RuleTest"]()
F = TypeVar("F", bound=Callable[..., Any])


def metamorphic(
    *,
    source: Source | None = None,
    system: System | None = None,
    rules: Sequence[Rule] = (),
    per_case: int | None = None,
    search: Search | None = None,
    gate: Gate | None = None,
    seed: int | None = None,
    campaign: Campaign | str | None = None,
    most_findings: int | None = 0,
    force: bool = False,
    trust: Sequence[str] = (),
) -> Callable[[F], F]:
    """Make one test of every rule, from these parts or from a whole `campaign` (a file, a `module:factory`, or an object).

    A rule fails with more than `most_findings`; None leaves the verdict to the test's body. Paths are relative to the test's
    folder; `trust` lists the files and modules that a campaign file may run. `force` tests what `swerve check` rejects.
    """
    from swerve.core.campaign import Campaign
    from swerve.execution.rule_tests import RuleTestRequest
    from swerve.search.sweep import Sweep

    parts = (source, system, rules or None, per_case, search, gate, seed)
    if campaign is None:
        if source is None or system is None or not rules:
            raise TypeError("swerve.metamorphic needs 'source', 'system' and 'rules', or 'campaign'")
        if search and per_case:
            raise TypeError("swerve.metamorphic takes 'per_case' (for a sweep) or 'search', not both")
        sweep = Sweep() if per_case is None else Sweep(per_case)
        campaign = Campaign(source, system, tuple(rules), search or sweep, gate=gate, seed=seed or 0)
    elif any(part is not None for part in parts):
        raise TypeError("swerve.metamorphic takes 'campaign' or its parts, not both")
    request = RuleTestRequest(campaign, most_findings, force, tuple(trust))

    def marked(function: F) -> F:
        test: F = pytest.mark.usefixtures(RULE)(getattr(pytest.mark, MARK).with_args(request)(function))
        return test

    return marked


@dataclass(frozen=True)
class RuleTest:
    """One rule of one test function."""

    item: pytest.Item
    rule: str
    shared: RuleTests
    into: Path | None  # folder for run folders, if given

    @property
    def replaying(self) -> str | None:
        """The id of the finding to replay, if given."""
        given: str | None = self.item.config.getoption("swerve_replay")
        return given

    @property
    def most(self) -> int | None:
        """The number of findings allowed; None: the body decides."""
        return 0 if self.replaying else self.shared.request.most_findings

    def run(self) -> RuleResult:
        """Test the rule; fails or skips a test that cannot be judged."""
        if self.replaying:
            return self.shared.replayed(self.rule, self.replaying)
        result = self.shared.run_rule(self.rule)
        if len(result.findings) <= (self.most or 0):
            if result.broken:
                pytest.fail(_line(f"{self.rule}: {result.broken}"), pytrace=False)
            if result.idle:
                pytest.skip(_line(f"{self.rule}: {result.idle}"))
            if result.doubt:
                self.item.warn(pytest.PytestWarning(_line(f"this test is weak evidence: {result.doubt}")))
        return result

    def describe(self, result: RuleResult) -> str:
        """The result in a few lines."""
        if self.replaying or not result.findings:
            return "\n".join(map(_line, f"{_line(self.rule)}: {result.summary}".split("\n")))
        worst = result.findings[0]
        lines = (
            f"{self.rule}: {result.summary}" + (f"; {self.most} findings allowed" if self.most else ""),
            f"  worst     {worst.words}  {worst.case}: {worst.why} ({worst.origin.words})",
            f"  smallest  {self.shared.smallest(self.rule, worst)}",
            f"  folder    {self._relative(self.shared.folder(self.rule))}",
            f"  replay    {self._replay_line(worst)}",
        )
        return "\n".join(map(_line, lines))

    def _replay_line(self, finding: Finding) -> str:
        """The command that replays a finding: `swerve replay` for a campaign file, pytest for a campaign made in Python."""
        if isinstance(self.shared.request.campaign, str) and self.shared.loaded.factory is None:
            folder = self._relative(self.shared.folder(self.rule))
            trust = [word for name in self.shared.trusted for word in ("--trust", self._trusted(name))]
            return shlex.join(["swerve", "replay", folder, finding.id, "--shrunk", *trust])
        node = f"{self._relative(self.item.path)}::{self.item.nodeid.partition('::')[2]}"
        into = ["--swerve-into", self._relative(self.into)] if self.into else []
        return shlex.join(["pytest", node, *into, "--swerve-replay", finding.id])

    def _trusted(self, name: str) -> str:
        return self._relative(Path(name)) if Path(name).is_absolute() else name

    def _relative(self, path: Path) -> str:
        """A path relative to the folder where pytest was started, if below it."""
        start = self.item.config.invocation_params.dir
        return os.path.relpath(path, start) if path.resolve().is_relative_to(start) else str(path)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for run folders and for replaying a finding."""
    group = parser.getgroup("swerve", "metamorphic rules as tests")
    about = "folder for run folders (default: the cache folder of pytest)"
    group.addoption("--swerve-into", dest="swerve_into", metavar="DIR", help=about)
    group.addoption("--swerve-replay", dest="swerve_replay", metavar="ID", help="replay one finding of the last run")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", f"{MARK}: one test for every rule of a campaign, made by swerve.{MARK}(...)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for every rule, named after it."""
    if mark := metafunc.definition.get_closest_marker(MARK):
        names = _or_collect_error(lambda: mark.args[0].names(metafunc.definition.path.parent))
        metafunc.parametrize(RULE, names, ids=names, indirect=True)


def _or_collect_error(make: Callable[[], list[str]]) -> list[str]:
    from swerve.core.errors import SwerveError

    try:
        return make()
    except SwerveError as error:
        raise pytest.Collector.CollectError(_line(str(error))) from error


@pytest.fixture(name=RULE)
def _rule(request: pytest.FixtureRequest) -> RuleResult:
    """The result of the rule of a test marked with `swerve.metamorphic`."""
    from swerve.core.errors import SwerveError

    item = request.node
    test = RuleTest(item, request.param, _shared(request), _given_folder(request))
    item.stash[TEST] = test
    try:
        _ = test.shared.loaded  # may import torch, whose threads must be limited too
        with _one_thread():
            return test.run()
    except SwerveError as error:
        why = _line(f"{test.rule}: {error}")
    return pytest.fail(why, pytrace=False)  # outside the except block, or pytest would also show the traceback of the error


@pytest.fixture
def findings(request: pytest.FixtureRequest) -> list[Finding]:
    """The findings of this test's rule, worst first."""
    if not request.node.get_closest_marker(MARK):
        pytest.fail("the fixture 'findings' needs a test marked with swerve.metamorphic", pytrace=False)
    result: RuleResult = request.getfixturevalue(RULE)
    return result.findings


def _shared(request: pytest.FixtureRequest) -> RuleTests:
    """The state shared by the tests of one function, created for the first of them."""
    from swerve.execution.rule_tests import RuleTests, file_name

    item = request.node
    function = f"{item.parent.nodeid}::{item.originalname}"
    known = request.config.stash.setdefault(SHARED, {})
    if function not in known:
        into = _given_folder(request) or Path(request.config.cache.mkdir("swerve"))
        places = [file_name(part) for part in re.split("::|/", function)]
        requested: RuleTestRequest = item.get_closest_marker(MARK).args[0]
        known[function] = RuleTests(requested, item.path.parent, into.joinpath(*places))
    return known[function]


def _given_folder(request: pytest.FixtureRequest) -> Path | None:
    """The given folder, or a temporary one if pytest has no cache; None for pytest's cache."""
    if given := request.config.getoption("swerve_into"):
        return request.config.invocation_params.dir / str(given)
    if getattr(request.config, "cache", None) is None:
        temporary: Path = request.getfixturevalue("tmp_path_factory").getbasetemp() / "swerve"
        return temporary
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run the body of the test first, then check the rule's verdict."""
    test = pyfuncitem.stash.get(TEST, None)
    if test is None:
        return (yield)
    result: Any = pyfuncitem.funcargs[RULE]
    try:
        returned = yield
    except Exception:
        pyfuncitem.add_report_section("call", "swerve", _describe(test, result))
        raise
    if test.most is not None and len(result.findings) > test.most:
        pytest.fail(_describe(test, result), pytrace=False)
    return returned


def _line(text: str) -> str:
    """`text` as one line that is safe to print, whatever names it contains (R55)."""
    from swerve.core.errors import printable

    return printable(text)


def _describe(test: RuleTest, result: RuleResult) -> str:
    with _one_thread():
        return test.describe(result)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Limit libraries to one thread, as a run does for reproducible sums, and restore their settings afterwards."""
    import cv2

    from swerve.execution.executors.cores import settle_threads

    torch = sys.modules.get("torch")
    before = cv2.getNumThreads(), torch.get_num_threads() if torch else 0
    settle_threads()
    try:
        yield
    finally:
        cv2.setNumThreads(before[0])
        if torch:
            torch.set_num_threads(before[1])
