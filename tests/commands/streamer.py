"""A server of streams that says what it was told to, and goes away when it was told to."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from tests.stub_server import StubServer

STAMP = "2026-01-31T09:05:00.007Z"


class Turn(NamedTuple):
    """The answer to one request."""

    pieces: Sequence[bytes] = ()
    breaks: bool = False
    """True if it breaks off at the end, as if the server were killed."""
    status: int = 200


def line(message: str, id: str = "", pod: str = "web-1") -> bytes:
    said = {"id": id or message, "created_at": STAMP, "message": message, "pod_name": pod, "version": "7"}
    return f"id: {said['id']}\ndata: {json.dumps(said)}\n\n".encode()


def remark(kind: str, message: str = "") -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'message': message})}\n\n".encode()


END = remark("end")


class Streamer(StubServer):
    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.turns = list(turns)
        self.asked: list[dict[str, str]] = []
        """The headers of each request."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Streamer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append({name.lower(): value for name, value in self.headers.items()})
        turn = self.server.turns.pop(0)
        self.close_connection = True
        if turn.status != 200:
            return self._refuse(turn.status)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in turn.pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
        if turn.breaks:
            time.sleep(0.2)  # what arrives together with the end of the connection may be read as nothing
        else:
            self.wfile.write(b"0\r\n\r\n")
        return None

    def _refuse(self, status: int) -> None:
        said = json.dumps({"message": f"no, {status}"}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Tests have enough to say."""


@contextlib.contextmanager
def streaming(*turns: Turn) -> Iterator[Streamer]:
    with Streamer(turns) as server, server.in_thread():
        yield server
