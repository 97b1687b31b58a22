import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from swerve.core.errors import EnvironmentFault
from swerve.review.marks import Judgement, Mark, MarkFile, read_marks
from swerve.review.page import Desk
from swerve.review.pictures import ReviewPictures
from swerve.review.queue import queue
from swerve.review.server import LARGEST_BODY, ReviewServer, Service
from swerve.store.view import Run
from tests.fixture_runs import Made, finding, held, keep_pictures, noise


@pytest.fixture
def run(tmp_path: Path) -> Run:
    records = [finding(case, "turn") for case in "abc"]
    made = Made(records).write(tmp_path / "run")
    for number, record in enumerate(records):
        keep_pictures(made, record, noise(number), noise(-number - 1))
    return made


@contextmanager
def served(run: Run, reviewer: str = "anna", *, blind: bool = True, held: bool = False) -> Iterator[ReviewServer]:
    findings = queue(run, 99 if held else None, held=held)
    service = Service(run, Desk(reviewer, findings, blind=blind), ReviewPictures(run))
    with ReviewServer(service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def asked(server: ReviewServer, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, bytes]:
    """The status and content of a reply; `path` goes out as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, sent, {"Content-Type": "application/json", **headers})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def marked(server: ReviewServer, finding: str, mark: str | None, comment: str = "") -> dict[str, Any]:
    status, body = asked(
        server, f"/{server.service.token}/mark", "POST", {"finding": finding, "mark": mark, "comment": comment}
    )
    assert status == 200, body
    reply: dict[str, Any] = json.loads(body)
    return reply


def ids(run: Run) -> list[str]:
    return [one.id for one in run.findings()]


def test_mark_is_on_disk(run: Run) -> None:
    with served(run) as server:
        marked(server, ids(run)[0], "unnatural", "no sky")
        assert read_marks(run.folder) == {"anna": {ids(run)[0]: Judgement(ids(run)[0], Mark.UNNATURAL, "no sky")}}


def test_restart_remembers(run: Run) -> None:
    with served(run) as server:
        marked(server, ids(run)[0], "unnatural", "no sky")
    with served(run) as server:
        assert b"no sky" in asked(server, f"/{server.service.token}/")[1]


def test_two_reviewers_at_once(run: Run) -> None:
    one, two, _ = ids(run)
    with served(run, "anna") as first, served(run, "bob") as second:
        assert marked(first, one, "true positive")["others"] == []
        told = marked(second, one, "false positive")["others"]
        assert told == [{"reviewer": "anna", "mark": "true positive", "comment": ""}]
        marked(first, two, "unnatural")
    assert {name: len(said) for name, said in read_marks(run.folder).items()} == {"anna": 2, "bob": 1}


def test_others_stay_hidden(run: Run) -> None:
    one, two, _ = ids(run)
    MarkFile(run.folder, "bob").add([Judgement(one, Mark.TRUE, "bobs word"), Judgement(two, Mark.TRUE, "bobs other")])
    with served(run) as server:
        page = f"/{server.service.token}/"
        assert b"bobs" not in asked(server, page)[1]
        assert marked(server, one, None, "still looking")["others"] == []
        marked(server, one, "unnatural")
        shown = asked(server, page)[1]
        assert b"bobs word" in shown
        assert b"bobs other" not in shown
    with served(run, blind=False) as server:
        assert b"bobs other" in asked(server, f"/{server.service.token}/")[1]


def test_held_trial_is_natural_or_not(tmp_path: Path) -> None:
    run = Made([finding("a"), held("b")]).write(tmp_path / "run")
    one, two = (row["id"] for row in run.trials())
    with served(run, held=True) as server:
        there = f"/{server.service.token}/mark"
        assert b"is not a mark for a finding" in asked(server, there, "POST", {"finding": one, "mark": "natural"})[1]
        status, reply = asked(server, there, "POST", {"finding": two, "mark": "true positive"})
        assert (status, b"is not a mark for a trial that held" in reply) == (400, True)
        marked(server, two, "natural")
    assert read_marks(run.folder) == {"anna": {two: Judgement(two, Mark.NATURAL)}}


def test_undo_takes_back(run: Run) -> None:
    with served(run) as server:
        marked(server, ids(run)[0], "unnatural")
        marked(server, ids(run)[0], None)
    assert read_marks(run.folder) == {"anna": {}}


def test_pictures_are_served(run: Run) -> None:
    with served(run) as server:
        start = f"/{server.service.token}/"
        shots = json.loads(asked(server, f"{start}pictures/{ids(run)[0]}")[1])["shots"]
        status, body = asked(server, start + shots[0]["source"])
        assert (status, body[:8]) == (200, b"\x89PNG\r\n\x1a\n")
        assert asked(server, start + shots[0]["followup"])[1] != body


@pytest.mark.parametrize("token", ["", "x", "../", "%2e%2e", "%C3%A9"])
def test_wrong_token_is_refused(run: Run, token: str) -> None:
    with served(run) as server:
        address = f"/{token}/"
        assert asked(server, address)[0] == 403
        assert asked(server, f"{address}mark", "POST", {"finding": ids(run)[0], "mark": "unnatural"})[0] == 403
        assert asked(server, f"/{server.service.token[:-1]}/")[0] == 403
    assert read_marks(run.folder) == {}


@pytest.mark.parametrize(
    "path",
    [
        *("../campaign.json", "../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "//etc/passwd"),
        *("picture/../../campaign.json", "picture/ID/0/../../../campaign.json", "picture/ID/0/source/../x", "journal.jsonl"),
        *(
            "picture/ID/1/source",
            "picture/ID/-1/source",
            "picture/ID/0/other",
            "picture/ID/%C2%B2/source",
            "picture/none/0/source",
        ),
        *("pictures/none", "pictures/../journal.jsonl", "pictures/ID%00", "findings/", "mark", "picture/ID/00/source"),
    ],
)
def test_other_paths_are_nothing(run: Run, path: str) -> None:
    with served(run) as server:
        there = f"/{server.service.token}/{path.replace('ID', ids(run)[0])}"
        assert asked(server, there) == (404, b"There is no such page.")


def test_other_hosts_are_refused(run: Run) -> None:
    with served(run) as server:
        page = f"/{server.service.token}/"
        assert asked(server, page, Host="evil.example")[0] == 403
        assert asked(server, page, Origin="http://evil.example")[0] == 403
        assert asked(server, page, Origin=f"http://127.0.0.1:{server.server_port}")[0] == 200


def test_forms_cannot_mark(run: Run) -> None:
    body = json.dumps({"finding": ids(run)[0], "mark": "unnatural"}).encode()
    with served(run) as server:
        there = f"/{server.service.token}/mark"
        assert asked(server, there, "POST", body, **{"Content-Type": "text/plain"})[0] == 415
        assert asked(server, there, "POST", b" " * (LARGEST_BODY + 1))[0] == 413
        assert asked(server, there, "POST", body, **{"Content-Length": "-1"})[0] == 413
        assert asked(server, f"/{server.service.token}/other", "POST", body)[0] == 404
    assert read_marks(run.folder) == {}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", b"not JSON"),
        (b"[" * 50_000, b"not JSON"),
        (b"[]", b"finding 'None' is not under review"),
        (b'{"finding": "../x", "mark": "unnatural"}', b"finding '../x' is not under review"),
        (b'{"finding": ["ID"], "mark": "unnatural"}', b"is not under review"),
        (b'{"finding": "ID", "mark": "bad"}', b"'bad' is not a mark"),
        (b'{"finding": "ID", "mark": "unnatural", "comment": 7}', b"comment must be text"),
    ],
)
def test_bad_marks_are_told(run: Run, body: bytes, told: bytes) -> None:
    with served(run) as server:
        sent = body.replace(b"ID", ids(run)[0].encode())
        status, reply = asked(server, f"/{server.service.token}/mark", "POST", sent)
    assert status == 400
    assert told in reply
    assert read_marks(run.folder) == {}


def test_full_disk_is_told(run: Run) -> None:
    with served(run) as server:
        (run.folder / "review").write_text("not a folder")
        there = f"/{server.service.token}/mark"
        status, reply = asked(server, there, "POST", {"finding": ids(run)[0], "mark": "unnatural"})
    assert status == 500
    assert b"review" in reply


def test_edited_neighbour_loses_nothing(run: Run) -> None:
    with served(run) as server:
        MarkFile(run.folder, "bob").add([Judgement(ids(run)[0], Mark.TRUE)])
        path = run.folder / "review" / "bob.jsonl"
        path.write_text(path.read_text().replace("true", "True"))
        assert marked(server, ids(run)[0], "unnatural")["others"] == []
        status, body = asked(server, f"/{server.service.token}/")
        assert status == 500
        assert b"bob.jsonl: line 2 is damaged or was edited by hand" in body
    assert MarkFile(run.folder, "anna").read()[ids(run)[0]].mark is Mark.UNNATURAL


def test_only_this_machine_is_answered(run: Run) -> None:
    with served(run) as server:
        assert server.server_address[0] == "127.0.0.1"
        assert server.address.startswith(f"http://127.0.0.1:{server.server_port}/")
        assert len(server.service.token) == 32


def test_taken_port_is_told(run: Run) -> None:
    service = Service(run, Desk("anna", queue(run)), ReviewPictures(run))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"port {port} cannot be used"):
            ReviewServer(service, port)


def test_nothing_is_cached(run: Run) -> None:
    with served(run) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request("GET", f"/{server.service.token}/")
        reply = connection.getresponse()
        headers = dict(reply.getheaders())
        reply.read()
        connection.close()
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
