"""The web server of the guestbook."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from . import VERSION, page
from .book import Book, address_in
from .postgres import DatabaseError

_MAX_BODY_BYTES = 4096


class Server(ThreadingHTTPServer):
    # Waits for requests in progress before the server ends.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, variables: Mapping[str, str]) -> None:
        super().__init__((host, port), Handler)
        url = address_in(variables)
        self.book = Book(url) if url else None
        self.docs = variables.get("DOCS_URL", "")


class Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = f"guestbook/{VERSION}"
    timeout = 30

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/":
                self._answer(HTTPStatus.OK, page.page(self._render_book(), self._facts(), self.server.docs))
            case "/healthz":
                self._answer(HTTPStatus.OK, "ok\n", "text/plain")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.\n", "text/plain")

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _MAX_BODY_BYTES:
            self.close_connection = True
            return self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "That is too long.\n", "text/plain")
        fields = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"))
        name, message = (fields.get(key, [""])[0].replace("\0", "").strip() for key in ("name", "message"))
        if self.path != "/sign" or self.server.book is None or not name or not message:
            return self._answer(HTTPStatus.BAD_REQUEST, "Say who you are, and something.\n", "text/plain")
        try:
            self.server.book.sign(name[:40], message[:200])
        except (OSError, DatabaseError) as error:
            return self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"Not kept: {error}\n", "text/plain")
        return self._answer(HTTPStatus.SEE_OTHER, "", location="./")

    def _render_book(self) -> str:
        if self.server.book is None:
            return page.nothing("No variable names one. Add a database to the environment, and deploy again.")
        try:
            return page.book(*self.server.book.visit())
        except (OSError, DatabaseError) as error:
            print(f"the database cannot be used: {error}", file=sys.stderr, flush=True)
            return page.nothing(f"It cannot be used now: {error}.")

    def _facts(self) -> list[tuple[str, str]]:
        return [("Version", VERSION), ("Instance", f"{socket.gethostname()}, process {os.getpid()}")]

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/html", location: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(prog="guestbook", description="Counts visitors, and lets them sign.")
    parser.add_argument("--host", default="127.0.0.1")
    options = parser.parse_args()
    server = Server(options.host, int(os.environ.get("PORT", "8080")), os.environ)
    # A separate thread is needed: the signal handler runs in the serving thread, which would wait for itself.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"guestbook {VERSION} listens on {options.host}:{server.server_port}", flush=True)
    with server:
        server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
