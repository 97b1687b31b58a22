import gc
import json
import os
import shutil
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import pytest

from swerve.analysis.tables import write_tables
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign, Observation
from swerve.core.errors import EnvironmentFault, StoreError, SwerveError
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.core.transformation import Transformation, param
from swerve.core.values import Image
from swerve.execution.evaluator import Evaluator
from swerve.execution.executors.in_process import InProcess
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.store.artifacts import pictures_of
from swerve.store.fingerprint import differences, identity_of
from swerve.store.folder import DifferentCampaign, Store, clear_run
from swerve.store.journal import Journal, decode_line
from swerve.store.record_json import head_of, outcome_of
from swerve.store.view import AmbiguousId, Run, UnknownFinding, best_of
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.photometric import Brighten

BASE = Campaign(
    source=FakeSource(12),
    system=FakeSystem(bias=1),
    rules=(Rule("brighter", Over(Brighten, beta=Range(1, 30)), same_angle(15)),),
    search=Sweep(per_case=4),
    seed=3,
    inference_batch=2,
)


def finish(folder: Path, campaign: Campaign = BASE) -> dict[str, Any]:
    return run_into(Loaded(campaign, Path("/base")), folder).as_dict()


def content(folder: Path) -> dict[str, bytes]:
    """Every file that must not depend on when or where a run took place."""
    beside = {"timings.json", ".lock"}
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in beside
    }


def test_same_campaign_same_bytes(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    finish(tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_running_again_changes_nothing(tmp_path: Path) -> None:
    first = finish(tmp_path / "a")
    before = content(tmp_path / "a")
    assert finish(tmp_path / "a") == first
    assert content(tmp_path / "a") == before


def test_every_cut_resumes_to_same_bytes(tmp_path: Path) -> None:
    finish(tmp_path / "whole")
    whole = content(tmp_path / "whole")
    journal = whole["journal.jsonl"]
    for cut in range(0, len(journal), len(journal) // 40):
        again = tmp_path / "again"
        shutil.rmtree(again, ignore_errors=True)
        again.mkdir()
        for name in ("campaign.json", "origin.json"):
            (again / name).write_bytes(whole[name])
        (again / "journal.jsonl").write_bytes(journal[:cut])
        finish(again)
        assert content(again) == whole


@pytest.mark.parametrize("name", ["brighter", ',"words":"x"', '\\",\\"words\\":', "},\n", "“"])
def test_head_of_a_line_tells_how_it_ended(tmp_path: Path, name: str) -> None:
    finish(tmp_path / "a", replace(BASE, rules=(replace(BASE.rules[0], name=name),)))
    lines = [line for batch in Journal(tmp_path / "a" / "journal.jsonl").line_batches() for line in batch]
    ways = set()
    for line in lines:
        head, whole = head_of(line), decode_line(line)
        assert head == {key: whole[key] for key in head}
        if whole["kind"] == "trial":
            assert "words" not in head
            assert outcome_of(head) == outcome_of(whole)
            ways.add(outcome_of(head))
    assert len(ways) > 1


def test_baseline_is_let_go_before_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Evaluator]] = []
    begin = InProcess.begin

    def begun(here: InProcess, baseline: Mapping[str, Observation]) -> None:
        begin(here, baseline)
        assert here._evaluate
        alive.append(weakref.ref(here._evaluate))

    def tables(run: Run, summary: dict[str, Any]) -> None:
        gc.collect()
        assert [one() for one in alive] == [None]
        write_tables(run, summary)

    monkeypatch.setattr(InProcess, "begin", begun)
    monkeypatch.setattr("swerve.execution.launch.write_tables", tables)
    finish(tmp_path / "a")
    assert (tmp_path / "a" / "tables" / "baseline.csv").exists()


def test_summary_adds_up(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["trials"] == 48 == sum(summary[key] for key in ("held", "violated", "skipped", "errors"))
    assert summary["rules"]["brighter"]["trials"] == 48
    assert summary["violated"] == len(list(Run(tmp_path / "a").findings()))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (replace(BASE, seed=4), "seed: 3 then, 4 now"),
        (replace(BASE, inference_batch=3), "inference_batch: 2 then, 3 now"),
        (replace(BASE, system=FakeSystem(bias=1, weights="second")), "weights differ: sha"),
        (replace(BASE, source=FakeSource(12, seed=9)), "data differ: sha"),
        (replace(BASE, search=Sweep(per_case=5)), "search.per_case: 4 then, 5 now"),
        (
            replace(BASE, rules=(Rule("brighter", Over(Brighten, beta=Range(1, 30)), same_angle(14)),)),
            "within: 15.0 then, 14.0 now",
        ),
        (replace(BASE, rules=(*BASE.rules, Rule("more", Brighten(3), same_angle()))), "rule[1].name: absent then, more now"),
    ],
)
def test_other_campaign_is_refused(tmp_path: Path, changed: Campaign, said: str) -> None:
    finish(tmp_path / "a")
    before = content(tmp_path / "a")
    with pytest.raises(DifferentCampaign) as refusal:
        finish(tmp_path / "a", changed)
    assert any(said in line for line in refusal.value.details)
    assert content(tmp_path / "a") == before


def test_other_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(tmp_path / "a")
    monkeypatch.setattr("swerve.__version__", "9.9.9")
    monkeypatch.setattr("swerve.store.fingerprint.package_fingerprint", lambda: "f" * 64)
    with pytest.raises(DifferentCampaign) as refusal:
        finish(tmp_path / "a")
    assert refusal.value.details[0] == "swerve: 0.1.0 then, 9.9.9 now"
    assert refusal.value.details[1].startswith("swerve's code differs: sha")


def test_equal_identities_do_not_differ() -> None:
    assert differences(identity_of(BASE, Path("/a")), identity_of(BASE, Path("/b"))) == []


def test_second_writer_is_refused(tmp_path: Path) -> None:
    identity = identity_of(BASE, Path("/base"))
    message = f"another process \\(pid {os.getpid()}\\) is writing here"
    with Store(tmp_path / "a", identity, Path("/base")), pytest.raises(EnvironmentFault, match=message):
        Store(tmp_path / "a", identity, Path("/base"))
    with Store(tmp_path / "a", identity, Path("/base")) as free:
        assert free.folder == tmp_path / "a"


def test_refusal_lets_the_lock_go(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    for _ in range(2):
        with pytest.raises(DifferentCampaign):
            finish(tmp_path / "a", replace(BASE, seed=4))
    finish(tmp_path / "a")


def test_strange_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("precious")
    with pytest.raises(StoreError, match="is not empty and not a run folder"):
        finish(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.doc"]


def test_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="file: is a file, not a folder"):
        finish(tmp_path / "file")


def test_not_a_run_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run folder"):
        Run(tmp_path)


def test_other_format_is_refused(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    path = tmp_path / "a" / "campaign.json"
    path.write_text(path.read_text().replace('"format": 3', '"format": 2'))
    with pytest.raises(StoreError, match="written in format 2, this version reads format 3"):
        Run(tmp_path / "a")


def test_unusable_cases_are_listed(tmp_path: Path) -> None:
    class Blind(FakeSource):
        def __getitem__(self, key: str) -> Any:
            raise OSError("gone")

    with pytest.raises(SwerveError, match="none of the 3 cases can be used"):
        finish(tmp_path / "a", replace(BASE, source=Blind(3)))
    rows = (tmp_path / "a" / "tables" / "skipped.csv").read_text().splitlines()
    assert rows[:2] == ["case,reason", "fake-00000,OSError: gone"]
    assert len(rows) == 4


def test_best_is_largest_margin(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    rows = [row for row in Run(tmp_path / "a").trials() if row["status"] == "violated"]
    margins = sorted((row["margin"] for row in rows), reverse=True)
    assert [row["margin"] for row in best_of(rows, 5)] == margins[:5]
    assert [row["margin"] for row in best_of(reversed(rows), 5)] == margins[:5]


def test_kept_pictures_are_lossless(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    run = Run(tmp_path / "a")
    best = run.best(3)[0]
    source = BASE.source[best.case].inputs["camera"]
    followup = Brighten(best.change["beta"]).map(source)
    for sha, image in ((best.source_sha, source), (best.input_sha, followup)):
        kept = cv2.imread(str(pictures_of(run, sha)["camera"]))
        assert (cv2.cvtColor(kept, cv2.COLOR_BGR2RGB) == image.pixels).all()  # type: ignore[attr-defined]


def test_lost_pictures_are_made_again(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    before = content(tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "findings")
    (tmp_path / "a" / "summary.json").unlink()
    finish(tmp_path / "a")
    assert content(tmp_path / "a") == before


def test_partial_pictures_are_redone(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    before = content(tmp_path / "a")
    (tmp_path / "a" / "findings").rename(tmp_path / "a" / "findings.partial")
    (tmp_path / "a" / "findings.partial" / f"{'0' * 16}-torn.png").write_bytes(b"PNG")
    (tmp_path / "a" / "summary.json").unlink()
    finish(tmp_path / "a")
    assert content(tmp_path / "a") == before


def test_id_may_be_shortened(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    run = Run(tmp_path / "a")
    best = run.best(1)[0]
    assert run.row(best.id[:8])["id"] == best.id
    for wrong in ("zzzz", ""):
        with pytest.raises(UnknownFinding, match=f"no finding '{wrong}'"):
            run.row(wrong)


def test_ambiguous_id_lists_candidates(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    run = Run(tmp_path / "a")
    ids = sorted(finding.id for finding in run.findings())
    starts = Counter(name[0] for name in ids)
    first = next(start for start, count in starts.items() if count > 1)
    with pytest.raises(AmbiguousId, match=f"{starts[first]} ids start with '{first}'; give more characters") as refused:
        run.row(first)
    listed = [line.split()[0] for line in refused.value.details if not line.startswith("and ")]
    assert len(listed) == min(starts[first], 8)
    assert set(listed) <= {name for name in ids if name.startswith(first)}


def test_formulas_are_neutralised(tmp_path: Path) -> None:
    evil = "=cmd|' /C calc'!A0"
    finish(tmp_path / "a", replace(BASE, rules=(Rule(evil, Brighten(30), same_angle(1)),)))
    for name in ("rules.csv", "findings.csv"):
        text = (tmp_path / "a" / "tables" / name).read_text()
        assert f"'{evil}" in text
        assert f"\n{evil}" not in text
        assert f",{evil}" not in text


def test_change_made_inside_a_function_is_kept(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Local(Transformation):
        by: float = param(0, 90, neutral=0)
        preserves = ("*",)

        def image(self, image: Image) -> Image:
            return Brighten(self.by).image(image)

    local = replace(BASE, rules=(Rule("local", Local(40), same_angle(15)),))
    assert finish(tmp_path / "a", local)["violated"] == 12
    before = content(tmp_path / "a")
    journal = tmp_path / "a" / "journal.jsonl"
    journal.write_bytes(before["journal.jsonl"][:-500])
    finish(tmp_path / "a", local)
    assert content(tmp_path / "a") == before


@pytest.mark.parametrize("left", ["origin.json", ".origin.json.partial", ".campaign.json.partial", ".lock"])
def test_start_cut_short_goes_on(tmp_path: Path, left: str) -> None:
    finish(tmp_path / "whole")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / left).write_text("{")
    finish(tmp_path / "cut")
    (tmp_path / "cut" / left).unlink(missing_ok=left.endswith("partial"))
    (tmp_path / "whole" / left).unlink(missing_ok=True)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_moved_project_is_followed(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    run_into(Loaded(BASE, Path("/elsewhere")), tmp_path / "a")
    assert Run(tmp_path / "a").base == Path("/elsewhere")


def test_deleted_pictures_come_back(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    before = content(tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "findings")
    finish(tmp_path / "a")
    assert content(tmp_path / "a") == before


def test_damaged_identity_is_named(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    (tmp_path / "a" / "campaign.json").write_text('{"format": 3}')
    with pytest.raises(StoreError, match=r"campaign\.json: is damaged: factory, rebuildable, fingerprints, campaign"):
        Run(tmp_path / "a")


def test_odd_file_names_reach_the_tables(tmp_path: Path) -> None:
    class Odd(FakeSource):
        def keys(self) -> list[str]:
            return ["a\udcff.png", "<b>\n.png", "x" * 300]

        def __getitem__(self, key: str) -> Any:
            return replace(FakeSource()["fake-00000"], key=key, group="")

    finish(tmp_path / "a", replace(BASE, source=Odd(), rules=(Rule("up", Brighten(30), same_angle(1)),)))
    assert "a\\udcff.png" in (tmp_path / "a" / "tables" / "findings.csv").read_text()


@pytest.mark.parametrize("name", ["export/coco/images/a.png", "export/notes.txt", "findings/mine.txt", "mine.txt"])
def test_files_that_cannot_be_made_again_are_not_cleared(tmp_path: Path, name: str) -> None:
    finish(tmp_path / "a")
    kept = tmp_path / "a" / name
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match=f"contains {name}, which is not part of a run"):
        clear_run(tmp_path / "a")
    assert sorted(tmp_path.rglob("*")) == before


def test_run_with_an_exported_report_is_cleared(tmp_path: Path) -> None:
    finish(tmp_path / "a")
    (tmp_path / "a" / "export").mkdir()
    (tmp_path / "a" / "export" / "junit.xml").write_text("<testsuites/>")
    clear_run(tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "then",
    [
        {"campaign": {"system.use": "evil:Model", "system": {"use": "own"}}},
        {"campaign": {"system": {"use": "own"}, "deep": {}}},
        {"campaign": {"system": {"use": "own"}, "more": "absent"}},
        {"campaign": {"system": {"use": "own"}}, "": {"campaign": {"system": {"use": "own"}}}},
        {"campaign": {"system": {"use": "own", "rules[0]": "evil:Rule", "rules": []}}},
    ],
)
def test_no_two_campaigns_look_alike(then: dict[str, Any]) -> None:
    """The user's consent goes to a folder whose campaign is the user's own, whatever keys somebody has put beside it."""
    now = {"campaign": {"system": {"use": "own"}}}
    assert differences(then, now)
    assert not differences(now, now)
