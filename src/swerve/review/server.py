"""A local server for the review page: bound to 127.0.0.1, behind a token that no other page can know.

Addresses never become file paths: a finding's id is looked up among those under review, and anything else is 404.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from swerve.core.errors import EnvironmentFault, InputError, SwerveError
from swerve.report.html import labels_of
from swerve.review.marks import Judgement, MarkFile, fitting_mark, read_marks
from swerve.review.page import Desk, Drawings, judgement_json, others_on, pictures_json, render, shot_bytes
from swerve.review.pictures import ReviewPictures
from swerve.review.queue import is_held
from swerve.store.record_json import Finding
from swerve.store.view import Run

HOST = "127.0.0.1"
LARGEST_BODY = 64 * 1024
IDLE_SECONDS = 30
JSON, HTML, PNG, TEXT = "application/json", "text/html; charset=utf-8", "image/png", "text/plain; charset=utf-8"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Reply:
    """A response to the browser."""

    body: bytes
    kind: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


def _refused(status: HTTPStatus, why: str) -> Reply:
    return Reply(why.encode(errors="replace"), TEXT, status)


def _as_json(data: Mapping[str, Any]) -> Reply:
    return Reply(json.dumps(data).encode(), JSON)


NOT_FOUND = _refused(HTTPStatus.NOT_FOUND, "There is no such page.")


@dataclass
class Service:
    """The server's logic without the network: page, pictures and marks of one reviewer of one run."""

    run: Run
    desk: Desk
    pictures: ReviewPictures
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    saved: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.file = MarkFile(self.run.folder, self.desk.reviewer)
        self.findings: dict[str, Finding] = {finding.id: finding for finding in self.desk.findings}

    def get(self, path: list[str]) -> Reply:
        """The response to a GET; `path` is what follows the token in the address."""
        match path:
            case [""]:
                return self._page()
            case ["pictures", finding] if finding in self.findings:
                return self._pictures(self.findings[finding])
            case ["picture", finding, shot, ("source" | "followup") as side] if finding in self.findings:
                return self._picture(finding, shot, side)
        return NOT_FOUND

    def _page(self) -> Reply:
        try:
            page = render(self.run, replace(self.desk, own=self.file.read(), others=self._others()))
        except SwerveError as error:  # a file of marks that was edited meanwhile
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        return Reply(page.encode(errors="replace"), HTML)

    def _others(self) -> dict[str, dict[str, Judgement]]:
        marks = read_marks(self.run.folder)
        return {name: judgements for name, judgements in marks.items() if name != self.desk.reviewer}

    def _pictures(self, finding: Finding) -> Reply:
        shown = self.pictures.of(finding)
        found = pictures_json(finding, shown, lambda shot, side: f"picture/{finding.id}/{shot}/{side}", self._drawings)
        return _as_json(found)

    @cached_property
    def _drawings(self) -> Drawings:
        return Drawings(self.run, labels_of(self.run, {finding.case for finding in self.desk.findings}))

    def _picture(self, finding: str, shot: str, side: str) -> Reply:
        shown = self.pictures.of(self.findings[finding])
        if shot not in map(str, range(len(shown.shots))):
            return NOT_FOUND
        return Reply(shot_bytes(shown, int(shot), side), PNG)

    def post(self, path: list[str], body: bytes) -> Reply:
        """The response to a POST: when it confirms the mark, the mark is on disk."""
        if path != ["mark"]:
            return NOT_FOUND
        try:
            judgement = self._judgement(body)
            with self.lock:
                self.file.add([judgement])
                self.saved += 1
        except InputError as error:
            return _refused(HTTPStatus.BAD_REQUEST, str(error))
        except SwerveError as error:
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        return _as_json({"saved": judgement_json(judgement), "others": self._others_after(judgement)})

    def _others_after(self, judgement: Judgement) -> list[dict[str, Any]]:
        """Others' marks once the reviewer has marked the finding; none if their files are damaged: this mark is saved."""
        if judgement.mark is None and self.desk.blind:
            return []
        try:
            return others_on(judgement.finding, self._others())
        except SwerveError:
            return []

    def _judgement(self, body: bytes) -> Judgement:
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise InputError("the page sent a mark that is not JSON; reload the page") from None
        given = data if isinstance(data, dict) else {}
        finding, mark, comment = given.get("finding"), given.get("mark"), given.get("comment", "")
        if not isinstance(finding, str) or finding not in self.findings:
            raise InputError(f"finding '{str(finding)[:40]}' is not under review here; reload the page")
        if not isinstance(comment, str):
            raise InputError("a comment must be text")
        held = is_held(self.findings[finding])
        return Judgement(finding, None if mark is None else fitting_mark(mark, held=held), comment)


class ReviewServer(ThreadingHTTPServer):
    """`Service` over HTTP."""

    daemon_threads = True

    def __init__(self, service: Service, port: int = 0) -> None:
        self.service = service
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise EnvironmentFault(
                f"port {port} cannot be used: {reason}; choose another --port, or leave it out"
            ) from error

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://{HOST}:{self.server_port}/{self.service.token}/"

    def server_close(self) -> None:
        """Stop serving, without waiting for a browser's idle connections."""
        super().server_close()
        self.service.pictures.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that disconnects; report anything else."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    server_version, sys_version = "swerve", ""
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        path = self._path()
        self._send(path if isinstance(path, Reply) else self.server.service.get(path))

    def do_POST(self) -> None:
        path = self._path()
        self._send(path if isinstance(path, Reply) else self._post_reply(path))

    def _post_reply(self, path: list[str]) -> Reply:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A mark is at most {LARGEST_BODY} bytes.")
        # Without a preflight request, a form on another page can send text, but not JSON.
        if self.headers.get_content_type() != JSON:
            return _refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A mark is sent as JSON.")
        return self.server.service.post(path, self.rfile.read(int(length)))

    def _path(self) -> list[str] | Reply:
        """The parts of the address after the token, or a refusal."""
        own = f"{HOST}:{self.server.server_port}"
        if self.headers.get("Host") != own or self.headers.get("Origin", f"http://{own}") != f"http://{own}":
            return _refused(HTTPStatus.FORBIDDEN, "This server only answers requests to its own address.")
        token, *rest = self.path.partition("?")[0].removeprefix("/").split("/")
        if not secrets.compare_digest(token.encode(errors="replace"), self.server.service.token.encode()):
            return _refused(HTTPStatus.FORBIDDEN, "Open the address that swerve review printed.")
        return rest

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in (*HEADERS.items(), ("Content-Type", reply.kind), ("Content-Length", str(len(reply.body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print no access log."""
