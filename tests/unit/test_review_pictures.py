import dataclasses
import json
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest

from swerve.api import run as run_campaign
from swerve.core.campaign import Campaign
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.core.values import Array, Boxes2D
from swerve.relations.steering import same_angle
from swerve.review.page import Drawings, pictures_json
from swerve.review.pictures import FindingPictures, ReviewPictures
from swerve.review.queue import is_held, queue
from swerve.search.sweep import Sweep
from swerve.store.artifacts import FINDINGS
from swerve.store.files import png_bytes
from swerve.store.record_json import Finding
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.photometric import Brighten
from tests.fixture_runs import Made, finding, keep_file, keep_pictures, noise


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A true run of which no picture is left: a finding of each case, and a trial that held."""
    rules = (
        Rule("brighter", Over(Brighten, beta=Range(20, 40)), same_angle(5)),
        Rule("loose", Over(Brighten, beta=Range(20, 40)), same_angle(1000)),
    )
    campaign = Campaign(source=FakeSource(3), system=FakeSystem(), rules=rules, search=Sweep(per_case=1), seed=7)
    run_campaign(campaign, tmp_path / "run", report=False)
    made = Run(tmp_path / "run")
    for file in (made.folder / FINDINGS).iterdir():
        file.unlink()
    return made


def first(run: Run) -> Finding:
    return next(run.findings())


def pixels(png: bytes) -> Array:
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def test_lost_pictures_are_made_again(run: Run) -> None:
    (shot,) = ReviewPictures(run).of(first(run)).shots
    source = FakeSource(3)[first(run).case].inputs["camera"].pixels  # type: ignore[attr-defined]
    assert shot.sensor == "camera"
    assert np.array_equal(pixels(shot.source), source)
    assert pixels(shot.followup).mean() - source.mean() > 19


def test_changed_data_is_told(run: Run) -> None:
    other = dataclasses.replace(first(run), input_sha="0" * 64)
    shown = ReviewPictures(run).of(other)
    assert shown.shots == ()
    assert shown.why == "No pictures: they were not kept and cannot be rebuilt."
    assert "the rebuilt input differs" in shown.reason


def described(run: Run, **parts: object) -> Run:
    """The run as if its campaign had these parts."""
    path = run.folder / "campaign.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "rebuildable": False, "campaign": {**told["campaign"], **parts}}))
    return Run(run.folder)


def test_unbuildable_source_is_told(run: Run) -> None:
    lost = described(run, source={"live": "mine:Frames"})
    assert "campaign of a Python script" in ReviewPictures(lost).of(first(run)).reason


@pytest.mark.parametrize("system", [{"live": "mine:model"}, {"use": "no-such-system"}])
def test_system_is_not_loaded(run: Run, system: dict[str, str]) -> None:
    assert len(ReviewPictures(described(run, system=system)).of(first(run)).shots) == 1


def test_held_trials_are_made_again(run: Run) -> None:
    quiet = next(one for one in queue(run, 99, held=True) if is_held(one))
    (shot,) = ReviewPictures(run).of(quiet).shots
    assert pixels(shot.followup).mean() - pixels(shot.source).mean() > 19
    other = dataclasses.replace(quiet, source_sha="0" * 64)
    assert "the rebuilt input differs" in ReviewPictures(run).of(other).reason


def test_kept_pictures_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [finding("a"), finding("b")]
    run = Made(records).write(tmp_path / "run")
    keep_pictures(run, records[0], noise(1), noise(2))
    kept, lost = run.findings()
    started, go_on = threading.Event(), threading.Event()

    def slow(self: ReviewPictures, finding: Finding) -> FindingPictures:
        started.set()
        go_on.wait(10)
        return FindingPictures()

    monkeypatch.setattr(ReviewPictures, "_build", slow)
    pictures = ReviewPictures(run)
    seen: list[FindingPictures] = []
    making = threading.Thread(target=pictures.of, args=(lost,))
    looking = threading.Thread(target=lambda: seen.append(pictures.of(kept)))
    making.start()
    started.wait(10)
    looking.start()
    looking.join(5)
    waited = looking.is_alive()
    go_on.set()
    making.join()
    looking.join()
    assert not waited
    assert len(seen[0].shots) == 1


def test_foreign_errors_are_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: FakeSource, key: str) -> None:
        raise ZeroDivisionError("no \x1b[31mhorizon")

    monkeypatch.setattr(FakeSource, "__getitem__", broken)
    assert "no \\x1b[31mhorizon" in ReviewPictures(run).of(first(run)).reason


def test_kept_pictures_are_read(tmp_path: Path) -> None:
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    keep_pictures(run, record, noise(1), noise(2))
    (shot,) = ReviewPictures(run).of(first(run)).shots
    assert (shot.source, shot.followup) == (png_bytes(noise(1).pixels), png_bytes(noise(2).pixels))


def test_link_out_is_not_read(tmp_path: Path) -> None:
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    keep_pictures(run, record, noise(1), noise(2))
    secret = tmp_path / "secret.png"
    secret.write_bytes(png_bytes(noise(3).pixels))
    kept = next((run.folder / FINDINGS).glob(f"{record.input_sha[:16]}*"))
    kept.unlink()
    kept.symlink_to(secret)
    assert ReviewPictures(run).of(first(run)).shots == ()


def test_other_files_are_no_pictures(tmp_path: Path) -> None:
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    for sha in (record.source_sha, record.input_sha):
        keep_file(run, sha, "camera.png", b"<script>alert(1)</script>")
        keep_file(run, sha, "lidar.npy", b"points")
    assert ReviewPictures(run).of(first(run)).why == "No pictures: this finding has neither camera nor LiDAR inputs."


def test_hostile_hash_finds_nothing(run: Run) -> None:
    (run.folder.parent / "x-camera.png").write_bytes(png_bytes(noise(1).pixels))
    hostile = dataclasses.replace(first(run), source_sha="../x", input_sha="../x")
    assert ReviewPictures(run).of(hostile).shots == ()


def test_few_pictures_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swerve.review.pictures.REMEMBERED", 2)
    run = Made([finding(case) for case in "abcd"]).write(tmp_path / "run")
    pictures = ReviewPictures(run)
    for one in run.findings():
        pictures.of(one)
    assert list(pictures._last) == [one.id for one in run.findings()][-2:]


def test_closing_waits_for_pictures(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    started, go_on, order = threading.Event(), threading.Event(), list[str]()

    def slow(self: ReviewPictures, finding: Finding) -> FindingPictures:
        started.set()
        go_on.wait(10)
        order.append("made")
        return FindingPictures()

    monkeypatch.setattr(ReviewPictures, "_build", slow)
    pictures, one = ReviewPictures(run), first(run)
    making = threading.Thread(target=pictures.of, args=(one,))
    closing = threading.Thread(target=lambda: (pictures.close(), order.append("closed")))
    making.start()
    started.wait(10)
    closing.start()
    go_on.set()
    making.join()
    closing.join()
    assert order == ["made", "closed"]
    assert pictures.of(one).why == "No pictures: swerve review has ended."


def test_boxes_are_drawn_surest_first(tmp_path: Path) -> None:
    boxes = Boxes2D(np.array([[1, 2, 3, 4], [5, 6, 7, 8]]), ("car", "car"), scores=np.array([0.1, 0.9]))
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    keep_pictures(run, record, noise(1), noise(2))
    seen = dataclasses.replace(first(run), after=(boxes,))
    shown = ReviewPictures(run).of(seen)
    (shot,) = pictures_json(seen, shown, lambda shot, side: f"{shot}/{side}", Drawings(run, {}))["shots"]
    assert (shot["sensor"], shot["source"], shot["followup"]) == ("camera", "0/source", "0/followup")
    assert '<path class="after" d="M5 6H7V8H5zM1 2H3V4H1z"/>' in shot["drawn"]["followup"]
    assert "<path" not in shot["drawn"]["source"]
    assert "rotate(-3.0)" in shot["drawn"]["source"]


def test_heat_lies_over_its_picture(tmp_path: Path) -> None:
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    keep_pictures(run, record, noise(1), noise(2))
    keep_file(run, record.input_sha, "camera_heat.png", png_bytes(noise(3).pixels))
    keep_file(run, record.source_sha, "camera_heat.png", png_bytes(noise(4).pixels))
    (shot,) = ReviewPictures(run).of(first(run)).shots  # the heat is no picture of its own
    assert shot.behind is not None
    assert [[raster.kind for raster in side.rasters] for side in shot.behind] == [["heat"], ["heat"]]
    assert shot.behind[0].size == (64, 32)
    assert shot.behind[0].rasters[0].address.startswith("data:image/png;base64,iVBOR")
