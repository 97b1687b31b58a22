import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from swerve.cli.main import main, parser
from swerve.core.case import Case
from swerve.core.relation import Pair, Verdict
from swerve.core.system import Answer
from swerve.core.transformation import Transformation, param
from swerve.core.values import Image, Steering
from swerve.relations.steering import same_angle
from swerve.store.view import Run
from swerve.testing import FakeSystem
from tests.quality.children import Nursery, until

pytestmark = pytest.mark.usefixtures("forked_workers")

CAMPAIGN = """
seed = 7
[source]
use = "swerve.testing:FakeSource"
count = {count}
[system]
use = "swerve.testing:FakeSystem"
bias = 1.0
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [1, 40] }}
expect = {{ use = "same-angle", within = {within} }}
"""


@dataclass(frozen=True)
class Crashing(Transformation):
    """A user's change with a bug."""

    by: float = param(0, 90, neutral=0)
    preserves = ("*",)

    def image(self, image: Image) -> Image:
        raise ZeroDivisionError("no horizon")


@dataclass(frozen=True)
class Failing:
    """A system that fails in the way asked for."""

    fault: str = ""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [self._said(case) for case in cases]

    def _said(self, case: Case) -> Answer:
        if self.fault == "exits" and case.parent:
            sys.exit(0)
        on_source = self.fault == "nan on most sources" and case.key != "fake-00000"
        if on_source or (self.fault == "nan on follow-ups" and case.parent):
            return (Steering(float("nan")),)
        return FakeSystem()([case])[0]

    def fingerprint(self) -> str:
        return "failing"


class PlainNear:
    """A relation that is no dataclass."""

    def __init__(self, within: float) -> None:
        self.within = within

    def check(self, pair: Pair) -> Verdict:
        return same_angle(self.within).check(pair)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(CAMPAIGN.format(count=8, within=15))
    return path


def finish(file: Path, *more: str) -> tuple[int, Path]:
    folder = file.parent / "run"
    return main(["run", str(file), "--into", str(folder), *more]), folder


def test_findings_end_with_one(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, folder = finish(file)
    out = capsys.readouterr().out
    assert code == 1
    assert "brighter" in out
    assert "swerve replay" in out
    assert str(folder / "report" / "index.html") in out.replace("\n", "")
    assert (folder / "report" / "index.html").exists()


def test_all_held_ends_with_zero(file: Path) -> None:
    file.write_text(CAMPAIGN.format(count=8, within=90))
    assert finish(file)[0] == 0


def test_failing_model_ends_with_three(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CAMPAIGN.format(count=8, within=15).replace("bias = 1.0", "bias = 1e300"))
    assert finish(file)[0] == 3
    assert capsys.readouterr().err.startswith(
        "error: the system failed on all 8 cases; the first, fake-00000: steering is 1e+300"
    )


def test_repair_is_told_and_no_copy_is_lost(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, folder = finish(file, "--no-report", "--workers", "0")
    whole = (folder / "journal.jsonl").read_bytes()
    assert code == 1
    ends = [match.end() for match in re.finditer(rb'"kind":"commit"[^\n]*\n', whole)]
    for name, place in (("journal.damaged.jsonl", ends[-2] + 9), ("journal.damaged-2.jsonl", 9)):
        damaged = whole[:place] + b"?" + whole[place + 1 :]
        (folder / "journal.jsonl").write_bytes(damaged)
        capsys.readouterr()
        assert finish(file, "--no-report", "--workers", "0", "--repair")[0] == 1
        start = ends[-2] if place > ends[0] else 0
        lost = whole[start:].count(b"\n")
        told = f"repaired: {lost} records from byte {start} on were removed because of damage; the old journal is "
        assert f"{told}{folder / name}\n" in capsys.readouterr().out
        assert (folder / name).read_bytes() == damaged
        assert (folder / "journal.jsonl").read_bytes() == whole
    finish(file, "--no-report", "--workers", "0", "--repair")
    assert "repaired" not in capsys.readouterr().out


def test_broken_change_ends_with_two(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CAMPAIGN.format(count=8, within=90).replace("brighten", "tests.unit.test_cli:Crashing").replace("beta", "by")
    file.write_text(text)
    assert finish(file)[0] == 2
    assert "trials failed because of an error in a change or a relation" in capsys.readouterr().err


@pytest.mark.parametrize("fault", ["nan on follow-ups", "nan on most sources", "exits"])
def test_failing_answers_end_with_three(file: Path, fault: str) -> None:
    system = f'"tests.unit.test_cli:Failing"\nfault = "{fault}"'
    text = CAMPAIGN.format(count=8, within=90).replace('"swerve.testing:FakeSystem"\nbias = 1.0', system)
    file.write_text(text)
    assert finish(file)[0] == 3


def test_nothing_judged_is_not_green(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CAMPAIGN.format(count=8, within=90).replace('"brighten", beta = [1, 40]', '"translate", x = 20, y = 5')
    file.write_text(text + '[gate]\nuse = "max-fill"\nshare = 0.0\n')
    assert finish(file)[0] == 2
    assert "rules can find anything; rule 'brighter': none of 3 changes tried could be judged: " in capsys.readouterr().err
    assert main(["run", str(file), "--into", str(file.parent / "again"), "--force"]) == 2
    assert "no trial could be judged: 8 were skipped" in capsys.readouterr().err


def test_unexpected_error_is_not_findings(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **named: object) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr("swerve.execution.launch.write_tables", broken)
    assert finish(file)[0] == 4
    assert capsys.readouterr().err == "error: unexpected RuntimeError: surprise; --debug shows where\n"


def test_plain_classes_replay_and_are_told_apart(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CAMPAIGN.format(count=8, within=15).replace('"same-angle"', '"tests.unit.test_cli:PlainNear"')
    file.write_text(text)
    code, folder = finish(file)
    assert code == 1
    assert main(["replay", str(folder), Run(folder).best(1)[0].id]) == 0
    file.write_text(text.replace("within = 15", "within = 16"))
    assert finish(file)[0] == 2
    assert "rule[0].expect.within: 15 then, 16 now" in capsys.readouterr().err


def test_edited_code_is_refused(file: Path, nursery: Nursery) -> None:
    mine = file.parent / "relation_of_mine.py"
    code = (
        "from dataclasses import dataclass\nfrom swerve import Verdict\n\n@dataclass(frozen=True)\nclass Near:\n"
        "    within: float = 5.0\n\n    def check(self, pair):\n"
        "        return Verdict.at_most(abs(pair.after[0].degrees - pair.before[0].degrees), self.within, 'apart')\n"
    )
    mine.write_text(code)
    file.write_text(CAMPAIGN.format(count=4, within=15).replace('"same-angle"', '"relation_of_mine.py:Near"'))
    run = ["run", str(file), "--into", str(file.parent / "run"), "--trust", str(mine)]
    assert nursery.run(run).code == 1
    assert nursery.run(run).code == 1
    mine.write_text(code.replace("abs(", "2 * abs("))
    done = nursery.run(run)
    assert done.code == 2
    assert "your code differs: sha" in done.errors


def test_empty_source_ends_with_two(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CAMPAIGN.format(count=0, within=15))
    assert finish(file)[0] == 2
    assert capsys.readouterr().err == "error: the source has no cases; check its folder and settings\n"


def test_bad_file_ends_with_two(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("sead = 3")
    assert finish(file)[0] == 2
    assert capsys.readouterr().err == "error: mine.toml: unknown key 'sead'; did you mean 'seed'?\n"


def test_file_in_the_way_ends_with_four(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file.parent / "run").write_text("")
    assert finish(file)[0] == 4
    assert "is a file, not a folder" in capsys.readouterr().err


def test_other_campaign_lists_differences(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(file)
    file.write_text(CAMPAIGN.format(count=8, within=14).replace("seed = 7", "seed = 8"))
    capsys.readouterr()
    assert finish(file)[0] == 2
    lines = capsys.readouterr().err.splitlines()
    assert "belongs to another campaign" in lines[0]
    assert lines[1:] == ["  seed: 7 then, 8 now", "  rule[0].expect.compare.within: 15.0 then, 14.0 now"]


def test_show_lists_worst_first(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = finish(file)
    capsys.readouterr()
    assert main(["show", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == len(list(Run(folder).findings())) > 3
    assert {"id", "rule", "change", "margin", "origin"} <= found[0].keys()
    assert [item["margin"] for item in found] == sorted((item["margin"] for item in found), reverse=True)
    assert main(["show", str(folder), "--most", "2"]) == 0
    text = capsys.readouterr().out
    assert found[0]["id"] in text
    assert found[2]["id"] not in text


def test_show_tells_one(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = finish(file)
    finding = Run(folder).best(1)[0]
    capsys.readouterr()
    assert main(["show", str(folder), finding.id[:8]]) == 0
    text = capsys.readouterr().out
    assert finding.words in text
    assert finding.id in text
    assert main(["show", str(folder), finding.id[:8], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == finding.id


def test_replay_reproduces(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = finish(file)
    finding = Run(folder).best(1)[0]
    capsys.readouterr()
    assert main(["replay", str(folder), finding.id]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "reproduced"
    assert main(["replay", str(folder), "0000dead"]) == 2
    assert "no finding '0000dead'" in capsys.readouterr().err


def test_report_is_made_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = finish(file, "--no-report")
    assert not (folder / "report").exists()
    capsys.readouterr()
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "report" / "index.html")
    first = (folder / "report" / "index.html").read_bytes()
    main(["report", str(folder)])
    assert (folder / "report" / "index.html").read_bytes() == first


def test_trusted_file_runs_and_replays(file: Path, nursery: Nursery, capsys: pytest.CaptureFixture[str]) -> None:
    mine = file.parent / "my_change.py"
    mine.write_text(
        "from dataclasses import dataclass\nfrom swerve import Transformation, param\n"
        "from swerve.transformations.photometric import Brighten\n\n"
        "@dataclass(frozen=True)\nclass Mine(Transformation):\n    by: float = param(1, 40, neutral=0)\n"
        "    preserves = ('*',)\n\n    def image(self, image):\n        return Brighten(self.by).map(image)\n"
    )
    file.write_text(CAMPAIGN.format(count=4, within=15).replace('"brighten", beta', '"my_change.py:Mine", by'))
    assert finish(file)[0] == 2
    assert "--trust" in capsys.readouterr().err
    code, folder = finish(file, "--trust", str(mine))
    assert code == 1
    finding = Run(folder).best(1)[0]
    for verb in ("replay", "show"):
        assert nursery.run([verb, str(folder), finding.id]).code == 0
    assert nursery.run(["replay", str(folder), finding.id, "--trust", str(mine)]).code == 0
    journal = folder / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-300])
    (folder / "summary.json").unlink()
    assert nursery.run(["run", str(file), "--into", str(folder), "--trust", str(mine)]).code == 1
    assert journal.read_bytes() == whole


def test_list_names_and_explains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "transformations", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["transformations"]
    rotate = next(item for item in found if item["name"] == "rotate")
    assert rotate["arguments"]["degrees"]["range"] == [-180, 180]
    assert all(item["about"] for item in found)
    assert main(["list", "transformation"]) == 2
    assert "did you mean 'transformations'?" in capsys.readouterr().err


def test_list_narrows_to_one_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert re.search(r"^searches +\d+  how trials are chosen$", capsys.readouterr().out, re.MULTILINE)
    assert main(["list", "relations"]) == 0
    assert re.search(r"^same-angle +The steering angle stays", capsys.readouterr().out, re.MULTILINE)
    assert main(["list", "transformations", "rotate"]) == 0
    out = capsys.readouterr().out
    assert "degrees  number from -180 to 180°" in out
    assert "border  one of black, reflect, replicate, inpaint; default black" in out
    assert '  change = { use = "rotate", degrees = [' in out
    assert main(["list", "transformations", "rotat"]) == 2
    assert "did you mean 'rotate'?" in capsys.readouterr().err


def test_command_alone_lists_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out = capsys.readouterr().out
    for name, verb in verbs().items():
        assert f"\n  {name:10}  {verb.description}\n" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_mistyped_verb_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shw", "runs/demo"]) == 2
    assert capsys.readouterr().err == "error: unknown verb 'shw'; did you mean 'show'? `swerve` lists all verbs\n"
    with pytest.raises(SystemExit):
        main(["compare", "one"])
    assert capsys.readouterr().err.startswith("usage: swerve compare ")


def verbs() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all verbs by name."""
    (found,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


@pytest.mark.parametrize("verb", verbs())
def test_help_teaches_by_examples(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every help fits 80 columns, and its examples are command lines that are accepted."""
    monkeypatch.setenv("COLUMNS", "80")
    text = verbs()[verb].format_help()
    lines = re.findall(r"^  (swerve .+)$", text.partition("\nexamples:\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert lines
    assert all(len(line) <= 80 for line in text.splitlines())
    for line in lines:
        words = shlex.split(re.split(r" {2,}| > ", line)[0])
        assert callable(parser().parse_args(words[1:]).verb)


def test_debug_shows_the_traceback(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("sead = 3")
    assert finish(file, "--debug")[0] == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_flushes_and_says_how(file: Path, number: signal.Signals, code: int) -> None:
    file.write_text(CAMPAIGN.format(count=200_000, within=15))
    folder = file.parent / "run"
    command = [sys.executable, "-m", "swerve.cli.main", "run", str(file), "--into", str(folder)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}
    )
    journal = folder / "journal.jsonl"
    until(lambda: journal.exists() and journal.stat().st_size > 20_000)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert f"To resume: swerve run {file} --into {folder}" in errors
    assert len(list(Run(folder).rows())) > 10


def ended_without_reader(words: Sequence[str]) -> int:
    """The exit code of a command whose output and errors go to a pipe that is closed at its other end."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "swerve", *words]
        return subprocess.run(command, stdout=writing, stderr=writing, timeout=120).returncode
    finally:
        os.close(writing)


def test_closed_pipe_does_not_change_the_exit_code(file: Path) -> None:
    one, other = (file.parent / name for name in ("one", "other"))
    file.write_text(CAMPAIGN.format(count=4, within=90))
    assert ended_without_reader(["run", str(file), "--into", str(one), "--workers", "0"]) == 0
    file.write_text(CAMPAIGN.format(count=4, within=1))
    assert ended_without_reader(["run", str(file), "--into", str(other), "--workers", "0"]) == 1
    assert (other / "summary.json").exists()
    assert ended_without_reader(["compare", str(one), str(other), "--force"]) == 1
    assert ended_without_reader(["run", str(file.parent / "none.toml")]) == 2


def test_verb_that_a_closed_pipe_ends_is_not_a_pass(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*given: object, **named: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("swerve.execution.launch.run_into", closed)
    assert finish(file)[0] == 141


def test_unknown_place_is_refused_before_a_file_is_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, folder = finish(file, "--on", "foo")
    assert code == 2
    assert capsys.readouterr().err.startswith("error: --on 'foo': must be 'ray', ")
    assert not folder.exists()
