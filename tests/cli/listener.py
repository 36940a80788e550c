"""A server that writes down what it is asked, and says yes to everything."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from tests.stub_server import StubServer

HOME = "6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a11"
YES = {"id": HOME, "results": [], "created_at": "2026-01-31T09:05:00.007Z"}


class Heard(NamedTuple):
    method: str
    path: str
    query: str
    body: Any
    headers: dict[str, str]


class Listener(StubServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heard: list[Heard] = []
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, json.dumps(YES).encode())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Listener

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        text = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(text) if text else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.heard.append(Heard(self.command, path, query, body, headers))
        status, sent, content = self.server.answer
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            **sent,
            "content-length": str(len(content)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def log_message(self, *_: Any) -> None:
        """Tests have enough to say."""


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    with Listener() as server, server.in_thread():
        yield server
