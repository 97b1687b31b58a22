"""Shrinking: the smallest change that still fails, found without knowing why it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis.exemplars import smallest_words
from swerve.cli.main import main
from swerve.core.case import Case
from swerve.core.errors import StoreError
from swerve.core.origin import Origin
from swerve.core.seeding import digest_of
from swerve.core.system import Answer
from swerve.core.transformation import Chain, Transformation, param, params_of
from swerve.core.values import Steering
from swerve.execution.executors.in_process import InProcess
from swerve.execution.replay import rebuild
from swerve.execution.shrink import Smallest, shrink, smallest
from swerve.store.artifacts import shrunk_of
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.affine import Rotate, Translate
from swerve.transformations.photometric import Brighten, Contrast

Fails = Callable[[Transformation], bool]

pytestmark = pytest.mark.usefixtures("forked_workers")


def shrunk(change: Transformation, fails: Fails) -> tuple[Smallest, list[Transformation]]:
    """The conversation with a system that fails where `fails` says; and all that it was asked."""
    assert fails(change)
    asking, asked = smallest(change), []
    try:
        question = next(asking)
        while True:
            asked.append(question)
            question = asking.send(fails(question))
    except StopIteration as ended:
        return ended.value, asked


def steps(change: Transformation) -> tuple[Transformation, ...]:
    return change.steps if isinstance(change, Chain) else (change,)


def test_edge_is_found_to_the_resolution() -> None:
    found, _ = shrunk(Rotate(degrees=27.0), lambda change: change.degrees >= 4.05)  # type: ignore[attr-defined]
    assert found.change == Rotate(degrees=4.1)
    assert [edge.words() for edge in found.edges] == ["degrees fails at 4.1°, holds at 4°"]


def test_negative_numbers_shrink_towards_neutral_too() -> None:
    found, _ = shrunk(Rotate(degrees=-20.0), lambda change: change.degrees <= -3)  # type: ignore[attr-defined]
    assert found.change == Rotate(degrees=-3.0)


def test_neutral_that_is_not_zero() -> None:
    found, _ = shrunk(Contrast(alpha=3.0), lambda change: change.alpha > 1.2)  # type: ignore[attr-defined]
    assert found.change == Contrast(alpha=1.21)
    assert found.edges[0].holds == 1.2


def test_number_without_part_in_it_goes_to_neutral() -> None:
    found, _ = shrunk(Translate(x=40, y=30), lambda change: change.x >= 12)  # type: ignore[attr-defined]
    assert found.change == Translate(x=12, y=0)
    assert [edge.name for edge in found.edges] == ["x"]


def test_steps_without_part_in_it_are_dropped() -> None:
    def fails(change: Transformation) -> bool:
        return any(isinstance(step, Rotate) and step.degrees > 5 for step in steps(change))

    chain = Chain((Brighten(beta=20), Rotate(degrees=30.0), Contrast(alpha=2.0)))
    assert shrunk(chain, fails)[0].change == Rotate(degrees=5.1)


def test_two_steps_that_need_each_other_stay() -> None:
    def fails(change: Transformation) -> bool:
        kinds = {type(step) for step in steps(change)}
        return {Brighten, Rotate} <= kinds

    chain = Chain((Brighten(beta=20), Contrast(alpha=2.0), Rotate(degrees=30.0)))
    found = shrunk(chain, fails)[0]
    assert [type(step) for step in steps(found.change)] == [Brighten, Rotate]
    assert found.edges == ()  # it fails whatever their numbers are


def test_no_question_is_asked_twice() -> None:
    _, asked = shrunk(Translate(x=90, y=77), lambda change: change.x + change.y > 40)  # type: ignore[attr-defined]
    assert len(asked) == len(set(asked))


@dataclass(frozen=True)
class Dots(Transformation):
    """A change made of parts."""

    at: tuple[int, ...]
    preserves = ("*",)

    def parts(self) -> Sequence[int]:
        return self.at

    def with_parts(self, parts: Sequence[int]) -> Transformation:
        return Dots(tuple(parts))


@given(st.sets(st.integers(0, 40), min_size=1, max_size=5), st.sets(st.integers(0, 40), max_size=30))
def test_fewest_parts_are_those_needed(needed: set[int], others: set[int]) -> None:
    found, _ = shrunk(Dots(tuple(sorted(needed | others))), lambda change: needed <= set(change.at))  # type: ignore[attr-defined]
    assert set(found.change.at) == needed  # type: ignore[attr-defined]


def test_any_one_part_is_enough() -> None:
    found, _ = shrunk(Dots(tuple(range(100))), lambda change: len(change.at) >= 1)  # type: ignore[attr-defined]
    assert len(found.change.at) == 1  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Numbers(Transformation):
    a: float = param(-100, 100, neutral=0, resolution=0.5)
    b: int = param(0, 64, neutral=0)
    preserves = ("*",)


ragged = st.sets(st.integers(0, 400), max_size=60)


@given(st.integers(-200, 200), st.integers(0, 64), ragged, ragged)
def test_shrinking_twice_is_once(a: int, b: int, left: set[int], right: set[int]) -> None:
    """However ragged the edge is: what comes out fails, is no larger, and shrinks to itself."""

    def fails(change: Transformation) -> bool:
        assert isinstance(change, Numbers)
        return (abs(change.a) * 2 in left) or (change.b in right) or change == start

    start = Numbers(a=a / 2, b=b)
    found = shrunk(start, fails)[0].change
    assert fails(found)
    for name, facts in params_of(Numbers).items():
        assert abs(getattr(found, name) - facts.neutral) <= abs(getattr(start, name) - facts.neutral)
    assert shrunk(found, fails)[0].change == found


CAMPAIGN = """
seed = 7
[source]
use = "swerve.testing:FakeSource"
count = 6
[system]
use = "swerve.testing:FakeSystem"
[[rule]]
name = "brighter"
change = { use = "brighten", beta = [1, 40] }
expect = { use = "same-angle", within = 15 }
[[rule]]
name = "both"
change = [{ use = "brighten", beta = [20, 40] }, { use = "contrast", alpha = [1.1, 1.3] }]
expect = { use = "same-angle", within = 25 }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    assert (
        main(["run", str(tmp_path / "campaign.toml"), "--into", str(tmp_path / "run"), "--workers", "0", "--shrink", "0"])
        == 1
    )
    return tmp_path / "run"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_all_findings_of_a_run_shrink(folder: Path, workers: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["shrink", str(folder), "--all", "--workers", workers]) == 0
    run = Run(folder)
    findings = list(run.findings())
    assert len(findings) > 20
    for finding in findings:
        made = shrunk_of(run, finding.id)
        assert made
        assert made.finding.margin >= 0  # a difference of exactly the limit is a violation here
        assert (made.finding.case, made.finding.rule) == (finding.case, finding.rule)
        if finding.rule == "brighter":
            assert 15 <= made.finding.change["beta"] < 17  # clipping takes up to one grey level
            assert made.edges[0].startswith(f"beta fails at {made.finding.change['beta']:g}")
    assert "fails at" in capsys.readouterr().out


def test_shrinking_again_gives_the_same_bytes(folder: Path) -> None:
    finding = next(Run(folder).findings())
    assert main(["shrink", str(folder), finding.id[:8], "--workers", "0"]) == 0
    first = (folder / "shrunk" / f"{finding.id}.json").read_bytes()
    assert main(["shrink", str(folder), finding.id, "--workers", "0"]) == 0
    assert (folder / "shrunk" / f"{finding.id}.json").read_bytes() == first


def test_one_finding_is_not_counted_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finding = next(Run(folder).findings())
    assert main(["shrink", str(folder), finding.id, "--most", "3"]) == 2
    assert "--most needs --all" in capsys.readouterr().err
    assert main(["show", str(folder), finding.id, "--pack", "--json"]) == 2
    assert "--pack or --json, not both" in capsys.readouterr().err
    assert not Path(f"{finding.id}.zip").exists()


def test_smallest_change_replays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finding = next(Run(folder).findings())
    assert main(["replay", str(folder), finding.id, "--shrunk"]) == 2
    assert "swerve shrink" in capsys.readouterr().err
    assert main(["shrink", str(folder), finding.id, "--workers", "0"]) == 0
    assert main(["replay", str(folder), finding.id, "--shrunk"]) == 0
    assert "reproduced" in capsys.readouterr().out


def other_hands(run: Run, system: object) -> InProcess:
    """Hands whose system is another than the run's."""
    here = InProcess(replace(rebuild(run), system=system))  # type: ignore[arg-type]
    here.begin({seen.case: seen for seen in run.baseline()})
    return here


def test_finding_that_holds_now_is_told(folder: Path) -> None:
    run = Run(folder)
    finding = next(run.findings())
    (made,) = shrink(run, [finding], other_hands(run, FakeSystem(gain=0.0)))
    assert made.flaky
    told = "flaky: failed 0 of 5 times when repeated, the last time it holds"
    assert (made.finding, made.words) == (finding, f"{finding.words}; {told}")
    assert shrunk_of(run, finding.id) == made
    assert smallest_words(run, finding) == made.words


@dataclass(frozen=True)
class Lit(FakeSource):
    """Pictures as bright as a file says, which the fingerprint may know of."""

    light: str = ""
    honest: bool = True

    def __getitem__(self, key: str) -> Case:
        case = super().__getitem__(key)
        return replace(case, inputs=Brighten(int(Path(self.light).read_text()))(case).inputs)

    def fingerprint(self) -> str:
        return digest_of("lit", self.count, Path(self.light).read_text() if self.honest else "")


def run_of_lit(root: Path, *, honest: bool = True) -> Path:
    (root / "light").write_text("1")
    text = CAMPAIGN.replace("swerve.testing:FakeSource", "tests.unit.test_shrink:Lit")
    given = f'light = "{root / "light"}"\nhonest = {str(honest).lower()}\n[system]'
    (root / "campaign.toml").write_text(text.replace("[system]", given))
    assert main(["run", str(root / "campaign.toml"), "--into", str(root / "run"), "--workers", "0", "--shrink", "0"]) == 1
    return root / "run"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_changed_data_are_refused(tmp_path: Path, workers: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_of_lit(tmp_path)
    (tmp_path / "light").write_text("9")
    capsys.readouterr()
    assert main(["shrink", str(folder), "--all", "--workers", workers]) == 2
    told = capsys.readouterr().err.splitlines()
    assert "the campaign has changed since its run" in told[0]
    assert [line.split(":")[0].strip() for line in told[1:]] == ["data differ"]
    assert not (folder / "shrunk").exists()
    (tmp_path / "light").write_text("1")
    assert main(["shrink", str(folder), "--all", "--workers", workers]) == 0


@pytest.mark.parametrize("workers", ["0", "2"])
def test_other_input_under_the_same_name_is_refused(
    tmp_path: Path, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source that does not know that its data have changed."""
    folder = run_of_lit(tmp_path, honest=False)
    (tmp_path / "light").write_text("9")
    assert main(["shrink", str(folder), "--all", "--workers", workers]) == 2
    assert "case fake-00000: the input has changed since the run (sha " in capsys.readouterr().err
    assert not list((folder / "shrunk").iterdir())


class Undecided(FakeSystem):
    """Steers well on every other call for some of the pictures."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        calls[0] += 1
        hit = calls[0] % 2 and int(cases[0].input_sha, 16) % 2
        return FakeSystem(gain=0.0)(cases) if hit else super().__call__(cases)


calls = [0]


def test_flaky_findings_do_not_stop_the_others(folder: Path) -> None:
    run = Run(folder)
    findings = list(run.findings())
    calls[0] = 0
    made = {one.of: one for one in shrink(run, findings, other_hands(run, Undecided(gain=2.0)))}
    assert made.keys() == {finding.id for finding in findings}
    flaky = [one for one in made.values() if one.flaky]
    assert 0 < len(flaky) < len(findings)
    assert {one.tries for one in flaky} == {5}
    assert any("failed 2 of 5 times" in one.words or "failed 3 of 5 times" in one.words for one in flaky)


@dataclass(frozen=True)
class Wavering(FakeSystem):
    """Fails while a run is made, and not again."""

    mark: str = ""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return FakeSystem(gain=0.0)(cases) if Path(self.mark).exists() else super().__call__(cases)


def test_command_tells_flaky_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = tmp_path / "mark"
    text = CAMPAIGN.replace("swerve.testing:FakeSystem", "tests.unit.test_shrink:Wavering")
    (tmp_path / "campaign.toml").write_text(text.replace("[[rule]]", f'mark = "{mark}"\n[[rule]]', 1))
    assert (
        main(["run", str(tmp_path / "campaign.toml"), "--into", str(tmp_path / "run"), "--workers", "0", "--shrink", "0"])
        == 1
    )
    mark.touch()
    capsys.readouterr()
    assert main(["shrink", str(tmp_path / "run"), "--all", "--workers", "0"]) == 1
    told = capsys.readouterr().out
    count = len(list(Run(tmp_path / "run").findings()))
    assert told.count("flaky: failed 0 of 5 times when repeated") == count > 1
    assert "--shrunk" not in told


def test_what_fails_without_any_change_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Already wrong, and wrong by itself: the smallest change is none."""
    text = CAMPAIGN[: CAMPAIGN.index("[[rule]]")] + "bias = 30.0"
    rule = 'name = "turned"\nchange = { use = "rotate", degrees = [5, 20] }\nexpect = { use = "lambda-mse", factor = 0.5 }'
    (tmp_path / "campaign.toml").write_text(f"{text}\n[[rule]]\n{rule}\n")
    assert (
        main(["run", str(tmp_path / "campaign.toml"), "--into", str(tmp_path / "run"), "--workers", "0", "--shrink", "0"])
        == 1
    )
    run = Run(tmp_path / "run")
    findings = list(run.findings())
    assert {finding.origin for finding in findings} == {Origin.ALREADY_WRONG}
    capsys.readouterr()
    assert main(["shrink", str(run.folder), "--all", "--workers", "0"]) == 0
    assert capsys.readouterr().out.count("turned: fails without any change  (") == len(findings)
    for finding in findings:
        made = shrunk_of(run, finding.id)
        assert made
        assert made.finding.input_sha == made.finding.source_sha
        assert main(["replay", str(run.folder), finding.id, "--shrunk"]) == 0


class Flips(FakeSystem):
    """Far to the right for a little more light, far to the left for more."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(Steering(self._said(answer[0].degrees)),) for answer in super().__call__(cases)]  # type: ignore[attr-defined]

    def _said(self, light: float) -> float:
        return 30.0 if light > 14 else -30.0 if light > 5 else 0.0


def test_other_failure_beyond_the_edge_is_not_said_to_hold(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("swerve.testing:FakeSystem", "tests.unit.test_shrink:Flips")
    (tmp_path / "campaign.toml").write_text(text[: text.rindex("[[rule]]")])
    main(["run", str(tmp_path / "campaign.toml"), "--into", str(tmp_path / "run"), "--workers", "0", "--force"])
    run = Run(tmp_path / "run")
    left = [item for item in run.findings() if item.after[0].degrees > 0]  # type: ignore[attr-defined]
    assert main(["shrink", str(run.folder), "--all", "--workers", "0"]) == 0
    for item in left:
        made = shrunk_of(run, item.id)
        assert made
        assert made.finding.after[0].degrees == 30  # type: ignore[attr-defined]
        assert ", fails in another way at " in made.edges[0]


def test_torn_file_names_itself(folder: Path) -> None:
    (folder / "shrunk").mkdir()
    (folder / "shrunk" / "abcd.json").write_text("{")
    with pytest.raises(StoreError, match=r"abcd.json: cannot be read.*shrink again"):
        shrunk_of(Run(folder), "abcd")
