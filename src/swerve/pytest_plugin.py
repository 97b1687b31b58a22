"""Rules as tests: a pytest plugin that makes one test of every rule of a campaign.

    @swerve.metamorphic(source=World(drives=4), system=Epoch(), rules=[...], per_case=4, seed=7)
    def test_steering():
        ...

pytest imports this module in every run of the environment, so nothing else is imported before a test asks for it.
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
    from swerve.core.relation import Gate, Rule
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
    """Make one test of every rule: of these parts, or of a whole `campaign` (a file, a `module:factory`, or an object).

    A rule fails with more than `most_findings`; None leaves the verdict to the body. Files are looked for from the test's
    own folder; `trust` names the Python files and modules that a campaign file may run. `force` tests
    what `swerve check` refuses.
    """
    from swerve.core.campaign import Campaign
    from swerve.execution.rule_tests import RuleTestRequest
    from swerve.search.sweep import Sweep

    parts = (source, system, rules or None, per_case, search, gate, seed)
    if campaign is None:
        if source is None or system is None or not rules:
            raise TypeError("swerve.metamorphic wants a source, a system and rules, or a campaign")
        if search and per_case:
            raise TypeError("swerve.metamorphic wants per_case, which is a sweep's, or another search, not both")
        sweep = Sweep() if per_case is None else Sweep(per_case)
        campaign = Campaign(source, system, tuple(rules), search or sweep, gate=gate, seed=seed or 0)
    elif any(part is not None for part in parts):
        raise TypeError("swerve.metamorphic wants the parts of a campaign or a whole one, not both")
    asked = RuleTestRequest(campaign, most_findings, force, tuple(trust))

    def marked(function: F) -> F:
        made: F = pytest.mark.usefixtures(RULE)(getattr(pytest.mark, MARK).with_args(asked)(function))
        return made

    return marked


@dataclass(frozen=True)
class RuleTest:
    """One rule of one test function."""

    item: pytest.Item
    rule: str
    shared: RuleTests
    into: Path | None  # where run folders go, if that was asked for

    @property
    def replaying(self) -> str | None:
        """The id of the one finding to run again, if that is all there is to do."""
        given: str | None = self.item.config.getoption("swerve_replay")
        return given

    @property
    def most(self) -> int | None:
        """How many findings are no failure."""
        return 0 if self.replaying else self.shared.asked.most_findings

    def run(self) -> RuleResult:
        """Try the rule; a test that cannot be judged ends here."""
        if self.replaying:
            return self.shared.replayed(self.rule, self.replaying)
        tried = self.shared.run_rule(self.rule)
        if len(tried.findings) <= (self.most or 0):
            if tried.broken:
                pytest.fail(_line(f"{self.rule}: {tried.broken}"), pytrace=False)
            if tried.idle:
                pytest.skip(_line(f"{self.rule}: {tried.idle}"))
            if tried.doubt:
                self.item.warn(pytest.PytestWarning(_line(f"it says little that this holds: {tried.doubt}")))
        return tried

    def told(self, tried: RuleResult) -> str:
        """What was found, in a few lines."""
        if self.replaying or not tried.findings:
            return "\n".join(map(_line, f"{_line(self.rule)}: {tried.told}".split("\n")))
        worst = tried.findings[0]
        lines = (
            f"{self.rule}: {tried.told}" + (f"; {self.most} findings allowed" if self.most else ""),
            f"  worst     {worst.words}  {worst.case}: {worst.why} ({worst.origin})",
            f"  smallest  {self.shared.smallest(self.rule, worst)}",
            f"  folder    {self._near(self.shared.folder(self.rule))}",
            f"  replay    {self._replay_line(worst)}",
        )
        return "\n".join(map(_line, lines))

    def _replay_line(self, finding: Finding) -> str:
        """A campaign file is rebuilt by `swerve replay`; what was made in Python only its test can make again."""
        if isinstance(self.shared.asked.campaign, str) and self.shared.loaded.factory is None:
            words = ["swerve", "replay", self._near(self.shared.folder(self.rule)), finding.id, "--shrunk"]
            return shlex.join([*words, *(word for name in self.shared.trusted for word in ("--trust", self._trusted(name)))])
        node = f"{self._near(self.item.path)}::{self.item.nodeid.partition('::')[2]}"
        into = ["--swerve-into", self._near(self.into)] if self.into else []
        return shlex.join(["pytest", node, *into, "--swerve-replay", finding.id])

    def _trusted(self, name: str) -> str:
        return self._near(Path(name)) if Path(name).is_absolute() else name

    def _near(self, path: Path) -> str:
        """A path as it is typed where pytest was started."""
        start = self.item.config.invocation_params.dir
        return os.path.relpath(path, start) if path.resolve().is_relative_to(start) else str(path)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where run folders go, and one finding again."""
    group = parser.getgroup("swerve", "metamorphic rules as tests")
    about = "where run folders go (default: the cache folder of pytest)"
    group.addoption("--swerve-into", dest="swerve_into", metavar="DIR", help=about)
    group.addoption(
        "--swerve-replay", dest="swerve_replay", metavar="ID", help="run one finding of the last run again, alone"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", f"{MARK}: one test for every rule of a campaign, made by swerve.{MARK}(...)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for every rule, named after it."""
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
    """The rule of a test marked with `swerve.metamorphic`, tried."""
    from swerve.core.errors import SwerveError

    item = request.node
    test = RuleTest(item, request.param, _shared(request), _given_folder(request))
    item.stash[TEST] = test
    try:
        _ = test.shared.loaded  # which may import torch, whose threads are to be settled too
        with _one_thread():
            return test.run()
    except SwerveError as error:
        why = _line(f"{test.rule}: {error}")
    return pytest.fail(why, pytrace=False)  # out here, or pytest would show the error once more with its traceback


@pytest.fixture
def findings(request: pytest.FixtureRequest) -> list[Finding]:
    """The findings of the rule that this test is for, worst first."""
    if not request.node.get_closest_marker(MARK):
        pytest.fail("'findings' is for tests marked with swerve.metamorphic", pytrace=False)
    tried: RuleResult = request.getfixturevalue(RULE)
    return tried.findings


def _shared(request: pytest.FixtureRequest) -> RuleTests:
    """What the items of one function share; made for the first of them."""
    from swerve.execution.rule_tests import RuleTests, file_name

    item = request.node
    function = f"{item.parent.nodeid}::{item.originalname}"
    known = request.config.stash.setdefault(SHARED, {})
    if function not in known:
        into = _given_folder(request) or Path(request.config.cache.mkdir("swerve"))
        places = [file_name(part) for part in re.split("::|/", function)]
        asked: RuleTestRequest = item.get_closest_marker(MARK).args[0]
        known[function] = RuleTests(asked, item.path.parent, into.joinpath(*places))
    return known[function]


def _given_folder(request: pytest.FixtureRequest) -> Path | None:
    """The folder asked for, or one that outlives the test where pytest has no cache to keep things in."""
    if given := request.config.getoption("swerve_into"):
        return request.config.invocation_params.dir / str(given)
    if getattr(request.config, "cache", None) is None:
        temporary: Path = request.getfixturevalue("tmp_path_factory").getbasetemp() / "swerve"
        return temporary
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """The body first, which may ask for more; then the rule's own verdict."""
    test = pyfuncitem.stash.get(TEST, None)
    if test is None:
        return (yield)
    tried: Any = pyfuncitem.funcargs[RULE]
    try:
        result = yield
    except Exception:
        pyfuncitem.add_report_section("call", "swerve", _told(test, tried))
        raise
    if test.most is not None and len(tried.findings) > test.most:
        pytest.fail(_told(test, tried), pytrace=False)
    return result


def _line(text: str) -> str:
    """One line for the terminal: whatever a rule, a change or a case is called has no effect there (R55)."""
    from swerve.core.errors import printable

    return printable(text)


def _told(test: RuleTest, tried: RuleResult) -> str:
    with _one_thread():
        return test.told(tried)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """As a run does, for equal sums everywhere; the tests of others get their threads back."""
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
