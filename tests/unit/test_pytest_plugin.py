"""The pytest plugin: one test per rule, failures told with the smallest change and a line that runs it again."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import swerve.pytest_plugin
from swerve.cli.main import main
from swerve.pytest_plugin import metamorphic
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem

pytest_plugins = ["pytester"]
# A run inside this process forgets what it imported; nothing of ours is to be there twice.
for part in (
    "execution.rule_tests",
    "systems.function",
    "relations.steering",
    "transformations.photometric",
    "search.sweep",
):
    importlib.import_module(f"swerve.{part}")
ROOT = Path(__file__).parent.parent.parent
HEAD = """
    from dataclasses import dataclass
    from swerve import FunctionSystem, NotApplicable, Over, Range, Rule, Steering, Transformation, param, same_angle
    from swerve.pytest_plugin import metamorphic
    from swerve.testing import FakeSource, FakeSystem
    from swerve.transformations.photometric import Brighten, Contrast

    brighter = Rule("brighter", Over(Brighten, beta=Range(1, 40)), same_angle(15))
    kind = Rule("kind", Over(Brighten, beta=Range(1, 10)), same_angle(15))
    parts = dict(source=FakeSource(6), system=FakeSystem(), rules=[brighter, kind], per_case=4, seed=7)
"""
CAMPAIGN = """
seed = 7
[source]
use = "swerve.testing:FakeSource"
count = 6
[system]
use = "{system}"
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [1, 40] }}
expect = {{ use = "same-angle", within = 15 }}
[search]
use = "sweep"
per_case = 4
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of tests that knows this plugin alone, installed or not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--strict-markers -W error -rs")
    return pytester


def go(inner: pytest.Pytester, *words: str) -> pytest.RunResult:
    return inner.runpytest_inprocess(*words, plugins=[swerve.pytest_plugin])


def write(inner: pytest.Pytester, body: str) -> None:
    path = inner.makepyfile(test_drive=HEAD)
    path.write_text(path.read_text() + "\n" + body)


def line_of(result: pytest.RunResult, word: str) -> str:
    found = re.search(rf"^  {word} +(.*)$", result.stdout.str(), re.MULTILINE)
    assert found, result.stdout.str()
    return found[1]


def test_every_rule_is_a_test(inner: pytest.Pytester) -> None:
    write(inner, "@metamorphic(**parts)\ndef test_steering(): ...")
    listed = go(inner, "--collect-only", "-q")
    listed.stdout.fnmatch_lines(["test_drive.py::test_steering[[]brighter[]]", "test_drive.py::test_steering[[]kind[]]"])
    go(inner).assert_outcomes(passed=1, failed=1)
    go(inner, "-k", "kind").assert_outcomes(passed=1, deselected=1)


def test_failure_is_short_and_shrunk(inner: pytest.Pytester) -> None:
    write(inner, "@metamorphic(**parts)\ndef test_steering(): ...")
    result = go(inner, "-k", "brighter")
    told = result.stdout.str()
    assert "Traceback" not in told
    assert "pytest_plugin.py" not in told
    assert "\nbrighter: 16 of 23 trials violated, 1 skipped\n" in told
    assert re.search(r"beta fails at 1[56], holds at 1[45]", line_of(result, "smallest"))
    assert "fake-0000" in line_of(result, "worst")


def test_replay_line_of_a_python_campaign_works(inner: pytest.Pytester) -> None:
    write(inner, "@metamorphic(**parts)\ndef test_steering(): ...")
    line = shlex.split(line_of(go(inner), "replay"))
    assert line[:2] == ["pytest", "test_drive.py::test_steering[brighter]"]
    again = go(inner, *line[1:])
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["brighter: *", "reproduced"])
    unknown = go(inner, *line[1:-1], "0000dead")
    unknown.assert_outcomes(errors=1)
    unknown.stdout.fnmatch_lines(["*brighter: *no finding '0000dead'*"])
    unknown.stdout.no_fnmatch_line("*During handling of the above exception*")
    mended = inner.path / "test_drive.py"
    mended.write_text(mended.read_text().replace("FakeSystem()", "FakeSystem(gain=0.1)"))
    go(inner, *line[1:]).assert_outcomes(passed=1)


def test_replay_line_of_a_campaign_file_works(
    inner: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is found beside the test, and what it trusts too."""
    (folder := inner.path / "deep").mkdir()
    (folder / "drive.toml").write_text(CAMPAIGN.format(system="mine.py:Mine"))
    (folder / "mine.py").write_text("from swerve.testing import FakeSystem\nclass Mine(FakeSystem): ...\n")
    decorated = "@metamorphic(campaign='drive.toml', trust=['mine.py'])"
    (folder / "test_file.py").write_text(
        f"from swerve.pytest_plugin import metamorphic\n{decorated}\ndef test_file(): ...\n"
    )
    result = go(inner, "--swerve-into", "out")
    result.assert_outcomes(failed=1)
    line = shlex.split(line_of(result, "replay"))
    assert line[:3] == ["swerve", "replay", "out/deep/test_file.py/test_file/brighter"]
    monkeypatch.chdir(inner.path)
    capsys.readouterr()
    assert main(line[1:]) == 0
    assert "reproduced" in capsys.readouterr().out


def test_rules_share_one_baseline(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
asked = []
def drive(case):
    asked.append(case.parent is None)
    return FakeSystem()([case])[0]

@metamorphic(**{**parts, "system": FunctionSystem(drive), "rules": [kind, brighter]}, force=True, most_findings=None)
def test_steering(findings):
    again = 1 if findings else 0  # the source of the one group's worst finding, before it is reported
    assert sum(asked) == 6 + again
""",
    )
    go(inner).assert_outcomes(passed=2)


def test_body_sees_findings_and_decides(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
@metamorphic(**parts, most_findings=None)
def test_few(findings):
    margins = [finding.margin for finding in findings]
    assert margins == sorted(margins, reverse=True)
    assert len(findings) < 3

@metamorphic(**parts, most_findings=24)
def test_many(findings):
    assert len(findings) < 24
""",
    )
    result = go(inner)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*assert len(findings) < 3", "*swerve*", "brighter: *", "  replay *--swerve-replay *"])


def test_tolerance_is_exact(inner: pytest.Pytester) -> None:
    body = "@metamorphic(**parts, most_findings={})\ndef test_{}(): ..."
    write(inner, "\n".join((body.format(16, "all"), body.format(15, "fewer"))))
    result = go(inner, "-k", "brighter")
    result.assert_outcomes(passed=1, failed=1, deselected=2)
    result.stdout.fnmatch_lines(["brighter: 16 of 23 trials violated, 1 skipped; 15 findings allowed"])


def test_rule_that_judges_nothing_is_skipped(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
@dataclass(frozen=True)
class Never(Transformation):
    preserves = ("*",)
    def __call__(self, case):
        raise NotApplicable("no road in sight")

@metamorphic(**{**parts, "rules": [Rule("never", Never(), same_angle(1))]})
def test_steering(): ...
""",
    )
    result = go(inner)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*never: none of 6 trials could be judged; most often: no road in sight"])


@pytest.mark.parametrize("when", ["True", "case.parent is None and case.key > 'fake-00003'", "case.parent is not None"])
def test_system_that_fails_is_an_error(inner: pytest.Pytester, when: str) -> None:
    """On every case, on some untouched ones, on changed ones: an error each time, no pass and no finding."""
    write(
        inner,
        f"""
def drive(case):
    if {when}:
        raise RuntimeError("no gradient")
    return FakeSystem()([case])[0]

@metamorphic(**{{**parts, "system": FunctionSystem(drive), "rules": [kind]}})
def test_steering():
    raise AssertionError("is not run")
""",
    )
    result = go(inner)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["kind: *RuntimeError: no gradient*"])
    assert "Traceback" not in result.stdout.str()


def test_findings_count_more_than_errors(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
def drive(case):
    if case.parent == "fake-00003":
        raise RuntimeError("no gradient")
    return FakeSystem()([case])[0]

@metamorphic(**{**parts, "system": FunctionSystem(drive), "rules": [brighter]})
def test_steering(): ...
""",
    )
    result = go(inner)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["brighter: 13 of 19 trials violated, 1 skipped, 4 errors"])


IDLE = """
    import numpy as np
    from swerve.transformations.affine import Rotate

    def stepped(case):
        return Steering(float(np.round(case.inputs["camera"].pixels.mean() / 20)) + int(case.key[-1]) / 100)

    class Coarse(FunctionSystem):
        def sees(self, case):
            return np.round(case.inputs["camera"].pixels.mean() / 20)

    turned = Rule("turned", Over(Rotate, degrees=Range(1, 2)), same_angle(5))
    idle = {**parts, "source": FakeSource(6, width=100, height=100), "system": Coarse(stepped)}
    closed = {**idle, "system": FunctionSystem(stepped)}
"""


def test_rules_that_find_nothing_are_no_success(inner: pytest.Pytester) -> None:
    """R29: whatever the system is, the rule would hold."""
    write(inner, f"{textwrap.dedent(IDLE)}@metamorphic(**{{**idle, 'rules': [turned]}})\ndef test_idle(): ...")
    result = go(inner)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*turned: nothing to find: rule 'turned': 12 changes such as Rotate(*force=True*"])
    write(inner, f"{textwrap.dedent(IDLE)}@metamorphic(**{{**idle, 'rules': [turned]}}, force=True)\ndef test_idle(): ...")
    go(inner).assert_outcomes(passed=1)


def test_answers_that_stay_are_no_proof(inner: pytest.Pytester) -> None:
    """Nobody knows what the system sees: that its answers stay where they are may well be right."""
    write(inner, f"{textwrap.dedent(IDLE)}@metamorphic(**{{**closed, 'rules': [turned]}})\ndef test_idle(): ...")
    result = go(inner, "-W", "default::pytest.PytestWarning")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*this test is weak evidence: rule 'turned': 12 changes*leave the system's answer*"])


def test_rule_without_effect_beside_others_is_warned_of(inner: pytest.Pytester) -> None:
    far = 'Rule("far", Over(Brighten, beta=Range(20, 40)), same_angle(5))'
    write(inner, f"{textwrap.dedent(IDLE)}@metamorphic(**{{**idle, 'rules': [turned, {far}]}})\ndef test_idle(): ...")
    result = go(inner, "-W", "default::pytest.PytestWarning")
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*this test is weak evidence: rule 'turned': 12 changes such as Rotate(*"])


HOSTILE = """
from dataclasses import replace
from swerve.core.relation import Status, Verdict

class Named(FakeSource):
    def keys(self):
        return [f"\\x1b[2J{key}" for key in super().keys()]

    def __getitem__(self, key):
        return replace(FakeSource(self.count)[key.removeprefix("\\x1b[2J")], key=key)

class Loud(Brighten):
    def words(self):
        return "\\x1b]0;title\\x07louder\\n"

class Never:
    status = Status.VIOLATED

    def check(self, pair):
        return Verdict(self.status, 1.0, "\\x1b[31mwhy\\u202e\\r")

class Broken(Never):
    def check(self, pair):
        raise ValueError("\\x1b[31mwhy")

class Skips(Never):
    status = Status.SKIPPED

loud = lambda kind: Rule(f"\\x1b[31m{kind.__name__}\\r", Over(Loud, beta=Range(1, 40)), kind())
rules = [loud(kind) for kind in (Never, Broken, Skips)]

@metamorphic(source=Named(6), system=FakeSystem(), rules=rules, per_case=2)
def test_loud(): ...
"""


def test_nothing_said_is_an_escape_sequence(inner: pytest.Pytester) -> None:
    """R55: rules, words, keys and reasons are shown as they are."""
    write(inner, HOSTILE)
    result = go(inner)
    told = result.stdout.str()
    result.assert_outcomes(failed=1, errors=1, skipped=1)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", told)
    assert "\n\\x1b[31mNever\\x0d: 11 of 11 trials violated, 1 skipped\n" in told
    worst = line_of(result, "worst")
    assert worst.startswith("\\x1b]0;title\\x07louder\\x0a  \\x1b[2Jfake-0000")
    assert "\\x1b[31mwhy\\x202e\\x0d" in worst
    again = go(inner, *shlex.split(line_of(result, "replay"))[1:])
    again.assert_outcomes(failed=1)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", again.stdout.str())


def test_sick_campaign_is_refused_once(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
asked = []
def stuck(case):
    asked.append(case.key)
    return Steering(1.0)

parts["system"] = FunctionSystem(stuck)
@metamorphic(**parts)
def test_refused(): ...

def test_asked_once():
    assert asked.count("fake-00000") < 20

@metamorphic(**parts, force=True)
def test_anyway(): ...
""",
    )
    result = go(inner)
    result.assert_outcomes(errors=2, passed=3)
    result.stdout.fnmatch_lines(["*gives the same answer to all 6 cases*force=True*"])


def test_every_run_starts_anew(inner: pytest.Pytester) -> None:
    """A system that no fingerprint can tell from what it was is asked again, not read from the last run's folder."""
    write(
        inner,
        """
from pathlib import Path
def drive(case):
    return FakeSystem(gain=float(Path("gain").read_text()))([case])[0]

@metamorphic(**{**parts, "system": FunctionSystem(drive)})
def test_steering(): ...
""",
    )
    (inner.path / "gain").write_text("1.0")
    go(inner, "--swerve-into", "out").assert_outcomes(passed=1, failed=1)
    folder = inner.path / "out" / "test_drive.py" / "test_steering" / "brighter"
    assert len(list(Run(folder).trials())) == 24
    assert list((folder / "findings").iterdir())
    (inner.path / "gain").write_text("0.1")
    go(inner, "--swerve-into", "out").assert_outcomes(passed=2)
    assert list(Run(folder).findings()) == []


def test_folder_of_somebody_else_is_left_alone(inner: pytest.Pytester) -> None:
    write(inner, "@metamorphic(**parts)\ndef test_steering(): ...")
    folder = inner.path / "out" / "test_drive.py" / "test_steering" / "kind"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("years of work")
    result = go(inner, "--swerve-into", "out", "-k", "kind")
    result.assert_outcomes(errors=1, deselected=1)
    result.stdout.fnmatch_lines(["kind: *is not empty and not a run folder*"])
    assert (folder / "thesis.tex").read_text() == "years of work"


def test_without_cache_the_folder_outlives_the_test(inner: pytest.Pytester) -> None:
    write(inner, "@metamorphic(**parts)\ndef test_steering(): ...")
    result = go(inner, "-p", "no:cacheprovider", "--basetemp", str(inner.path / "temporary"))
    line = shlex.split(line_of(result, "replay"))
    assert Path(line_of(result, "folder"), "campaign.json").is_file()
    go(inner, "-p", "no:cacheprovider", *line[1:]).assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("text", "told"),
    [("seed = ", "drive.toml: *"), ("seed = 1", "drive.toml: there is no [[]source[]] table*"), (None, "*cannot be read*")],
)
def test_unreadable_campaign_is_a_sentence(inner: pytest.Pytester, text: str | None, told: str) -> None:
    write(inner, "@metamorphic(campaign='drive.toml')\ndef test_file(): ...")
    if text is not None:
        (inner.path / "drive.toml").write_text(text)
    result = go(inner)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{told}"])
    assert "Traceback" not in result.stdout.str()


def test_listing_builds_nothing(inner: pytest.Pytester) -> None:
    """A campaign file names its rules; its system is not even looked up."""
    write(inner, "@metamorphic(campaign='drive.toml')\ndef test_file(): ...")
    (inner.path / "drive.toml").write_text(CAMPAIGN.format(system="nowhere:Nothing"))
    go(inner, "--collect-only", "-q").stdout.fnmatch_lines(["test_drive.py::test_file[[]brighter[]]"])
    result = go(inner)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["brighter: *no module 'nowhere'*"])


def test_factory_is_a_campaign_too(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
from swerve import Campaign, Sweep
def made():
    return Campaign(FakeSource(6), FakeSystem(), (kind,), Sweep(4))

@metamorphic(campaign="test_drive:made")
def test_factory(): ...

@metamorphic(campaign=made())
class TestGroup:
    def test_object(self, findings):
        assert findings == []
""",
    )
    go(inner).assert_outcomes(passed=2)


def test_findings_elsewhere_are_refused(inner: pytest.Pytester) -> None:
    write(inner, "def test_other(findings): ...")
    result = go(inner)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture 'findings' needs a test marked with swerve.metamorphic"])


def test_other_tests_keep_their_threads(inner: pytest.Pytester) -> None:
    write(
        inner,
        """
import cv2
cv2.setNumThreads(3)
@metamorphic(**parts, most_findings=24)
def test_steering():
    assert cv2.getNumThreads() == 3
""",
    )
    go(inner).assert_outcomes(passed=2)


PARTS = {"source": FakeSource(), "system": FakeSystem()}


@pytest.mark.parametrize(
    "given",
    [{}, PARTS, {"campaign": "a.toml", "seed": 0}, {"campaign": "a.toml", **PARTS}, {"campaign": "a.toml", "per_case": 6}],
)
def test_decorator_wants_parts_or_a_whole(given: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=r"^swerve\.metamorphic (needs|takes)"):
        metamorphic(**given)  # type: ignore[arg-type]


def test_plugin_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert declared == {"swerve": "swerve.pytest_plugin"}


def test_start_of_pytest_costs_next_to_nothing() -> None:
    """The plugin is imported in every pytest run of the environment: neither numpy nor another part of ours comes along."""
    code = "import pytest, sys; old = {*sys.modules}; import swerve.pytest_plugin; print(*sorted({*sys.modules} - old))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    new = {name.partition(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names
    assert new == {"swerve"}
    assert {name for name in done.stdout.split() if name.startswith("swerve")} == {"swerve", "swerve.pytest_plugin"}


def test_page_shows_what_it_prints(inner: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "pytest.md").read_text()
    first, shown = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("python", "text"))
    (inner.path / "test_steering.py").write_text(first)
    result = inner.runpytest_subprocess("-p", "swerve.pytest_plugin")
    result.assert_outcomes(passed=1, failed=1)
    told = shown[shown.index("turned: ") :].splitlines()
    assert len(told) == 5
    result.stdout.fnmatch_lines([line.replace("[", "[[]") for line in told])
