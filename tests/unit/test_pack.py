"""A finding in a zip: complete, the same bytes every time, and nobody's name in it."""

import getpass
import hashlib
import json
import shutil
import socket
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from swerve.cli.main import main
from swerve.config.toml import Loaded, build_change
from swerve.config.trust import OWN
from swerve.core.campaign import Campaign
from swerve.core.errors import EnvironmentFault, StoreError
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.report import sharing as sharing_module
from swerve.report.pack import pack
from swerve.search.sweep import Sweep
from swerve.store.files import sensor_file
from swerve.store.view import CAMPAIGN, Run
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.affine import Rotate
from swerve.transformations.photometric import Brighten
from tests.fixture_runs import Made, finding, keep_file, keep_pictures, noise
from tests.gold.test_report import write_shrunk

SOURCE = FakeSource(6)
PICTURES = {"source-camera.png", "followup-camera.png"}
TEXTS = {"README.txt", "SHA256SUMS", "campaign.json", "finding.json"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    rule = Rule("brighter", Over(Brighten, beta=Range(1, 40)), same_angle(15))
    campaign = Campaign(SOURCE, FakeSystem(bias=1), (rule,), Sweep(per_case=3), seed=3)
    run_into(Loaded(campaign, tmp_path), tmp_path / "run")
    return Run(tmp_path / "run")


def content(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def pixels(data: bytes) -> np.ndarray:
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def test_pack_holds_all_a_ticket_needs(run: Run, tmp_path: Path) -> None:
    item = next(run.findings())
    files = content(pack(run, item.id[:8], tmp_path))
    assert set(files) == TEXTS | PICTURES
    source = SOURCE[item.case]
    followup = build_change(item.change, OWN, run.base)(source)
    assert (pixels(files["source-camera.png"]) == source.inputs["camera"].pixels).all()  # type: ignore[attr-defined]
    assert (pixels(files["followup-camera.png"]) == followup.inputs["camera"].pixels).all()  # type: ignore[attr-defined]
    told = json.loads(files["finding.json"])
    assert told["parameters"] == item.change
    assert told["change"] == item.words
    assert (told["verdict"], told["margin"], told["why"]) == ("violated", item.margin, item.why)
    assert (told["source_sha"], told["input_sha"]) == (item.source_sha, item.input_sha)
    assert told["fingerprints"] == run.identity["fingerprints"]
    assert told["versions"]["numpy"] == np.__version__
    assert json.loads(files["campaign.json"]) == run.identity
    readme = files["README.txt"].decode()
    for text in (item.id, item.case, item.words, item.why, run.identity["fingerprints"]["system"], "within 15° of"):
        assert text in readme
    assert told["replay"] in readme
    assert told["replay"].endswith(f"run {item.id}")


def test_sums_fit_the_files(run: Run, tmp_path: Path) -> None:
    files = content(pack(run, next(run.findings()).id, tmp_path))
    sums = dict(reversed(line.split("  ")) for line in files.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def test_same_finding_same_bytes(run: Run, tmp_path: Path) -> None:
    """From kept pictures, from rebuilt ones, and from a copy of the run elsewhere."""
    item = next(run.findings())
    kept = pack(run, item.id, tmp_path / "kept.zip").read_bytes()
    assert pack(run, item.id, tmp_path / "again.zip").read_bytes() == kept
    shutil.rmtree(run.folder / "findings")
    assert pack(run, item.id, tmp_path / "rebuilt.zip").read_bytes() == kept
    with zipfile.ZipFile(tmp_path / "kept.zip") as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}


def test_rebuilt_input_must_be_the_one_found(run: Run, tmp_path: Path) -> None:
    shutil.rmtree(run.folder / "findings")
    run.identity["campaign"]["source"]["seed"] = 9  # other data under the same keys
    files = content(pack(run, next(run.findings()).id, tmp_path))
    assert set(files) == TEXTS
    assert "No pictures: finding" in files["README.txt"].decode()
    assert "the rebuilt input differs" in files["README.txt"].decode()


def test_pack_of_a_run_that_cannot_be_rebuilt(tmp_path: Path) -> None:
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    assert "No pictures: case a could be read at the start" in content(pack(run, record.id, tmp_path))["README.txt"].decode()
    keep_pictures(run, record, noise(1), noise(2))
    files = content(pack(run, record.id, tmp_path))
    assert files["source-camera.png"] == (sensor_file(noise(1)) or ("", b""))[1]
    assert set(files) == TEXTS | PICTURES
    assert "No pictures" not in files["README.txt"].decode()


def test_pack_reads_nothing_outside_the_run(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    record = finding("a")
    run = Made([record]).write(tmp_path / "run")
    keep_file(run, record.input_sha, "camera.png", b"png")
    (run.folder / "findings" / f"{record.source_sha[:16]}-camera.png").symlink_to(tmp_path / "secret")
    assert set(content(pack(run, record.id, tmp_path))) == TEXTS


def test_pack_goes_where_asked(run: Run, tmp_path: Path) -> None:
    item = next(run.findings())
    assert pack(run, item.id, tmp_path) == tmp_path / f"finding-{item.id}.zip"
    assert pack(run, item.id, tmp_path / "new" / "ticket.zip").is_file()
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match="cannot be created"):
        pack(run, item.id, tmp_path / "file" / "x" / "ticket.zip")
    with pytest.raises(StoreError, match="no finding 'ffff"):
        pack(run, "ffffffff", tmp_path)


def test_nobody_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "folk" / "grace"
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setattr(getpass, "getuser", lambda: "grace")
    monkeypatch.setattr(socket, "gethostname", lambda: "flaubert-7")
    sharing_module._private.cache_clear()
    text = f"{home}/x.png on flaubert-7, /home/ada/y.png"
    record = finding(text, why=text)
    run = Made([record]).write(home / "run")
    run.identity["campaign"]["source"]["folder"] = "../../home/ada/data"
    (run.folder / CAMPAIGN).write_text(json.dumps(run.identity))
    private = (b"grace", b"flaubert", b"/home/ada", str(home).encode())
    shared = content(pack(Run(run.folder), record.id, tmp_path / "shared.zip"))
    kept = content(pack(Run(run.folder), record.id, tmp_path / "kept.zip", keep_paths=True))
    sharing_module._private.cache_clear()
    assert not [name for name, data in shared.items() if any(word in data for word in private)]
    assert all(any(word in data for data in kept.values()) for word in private)
    assert b"swerve replay ~/run" in shared["README.txt"]


def test_hostile_texts_stay_on_their_line(tmp_path: Path) -> None:
    hostile = "\x1b[31m\u202ex\nTo see it again: rm -rf\x00\ud800"
    record = finding(hostile, hostile, why=hostile)
    run = Made([record]).write(tmp_path / "run")
    readme = content(pack(run, record.id, tmp_path))["README.txt"].decode()
    assert "\x1b" not in readme
    assert not [line for line in readme.splitlines() if line.startswith("To see it again: rm")]


def test_smallest_change_is_in_the_ticket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = finding("a", off=30.0)
    run = Made([large, finding("b", off=20.0)]).write(tmp_path / "run")
    write_shrunk(run, large, finding("a", change=Rotate(2.0), off=6.0))
    words = "rotated 2° counter-clockwise; degrees fails at 2°, holds at 1.9°"
    again = f"swerve replay {run.folder} {large.id}"
    assert main(["show", str(run.folder), large.id, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["replay"] == again
    assert told["smallest"]["words"] == words
    assert told["smallest"]["parameters"]["degrees"] == 2.0
    assert told["smallest"]["replay"] == f"{again} --shrunk"
    files = content(pack(run, large.id, tmp_path / "a.zip", keep_paths=True))
    assert json.loads(files["finding.json"])["smallest"] == told["smallest"]
    assert f"  {again}\n  {again} --shrunk\n" in files["README.txt"].decode()
    assert words in files["README.txt"].decode()
    other = next(item for item in run.findings() if item.case == "b")
    assert main(["show", str(run.folder), other.id, "--json"]) == 0
    assert "smallest" not in json.loads(capsys.readouterr().out)
    assert "smallest" not in json.loads(content(pack(run, other.id, tmp_path / "b.zip"))["finding.json"])
