"""The connection of a run to its Windlass server. If that server is gone, requests go to another
server of the same engine."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.launch.launcher import LaunchRefused, say

OUTAGE_TIMEOUT: Final = 300.0
"""Seconds for which Windlass may be unavailable during a run."""
FIRST_OUTAGE_TIMEOUT: Final = 60.0
"""Seconds for which Windlass may be unavailable at the start of a run in a container. The time is shorter
because the container may have a wrong address."""
_RETRY_PAUSE: Final = 1.0
_ANSWER_TIMEOUT, _SHORT_ANSWER_TIMEOUT = 60.0, 20.0
"""Seconds to wait for a response. A paused server accepts connections but does not respond."""
_PASSED_ON: Final = ("Authorization", "Content-Type", "Content-MD5")
_UNAVAILABLE_STATUS: Final = 503
_SOCKET_SCHEME: Final = "http+unix://"
"""Prefix of an address with the quoted path of a Unix socket in the place of a host."""


class RunServer:
    """All servers that can handle a run's requests, used like one server. Requests go to the server that last
    responded."""

    def __init__(self, urls: Sequence[str], token: str, advice: str) -> None:
        self._urls, self._advice = list(urls), advice
        self._slowest = _ANSWER_TIMEOUT if len(self._urls) == 1 else _SHORT_ANSWER_TIMEOUT
        credential = base64.b64encode(f"run:{token}".encode()).decode()
        self._headers = {"Authorization": f"Basic {credential}", "Content-Type": "application/json"}

    @property
    def are_several(self) -> bool:
        return len(self._urls) > 1

    def greet(self) -> None:
        """Checks that the server is reachable before the run begins. A later error message of the
        program would be less specific."""
        self.send("GET", "/run", timeout=FIRST_OUTAGE_TIMEOUT)

    def send(self, method: str, path: str, body: bytes = b"", timeout: float = OUTAGE_TIMEOUT) -> bytes:
        """Sends a request and returns the response. Retries while the server is unavailable. Raises
        LaunchRefused with the server's error message if the server refuses the request."""
        until = time.monotonic() + timeout
        is_said = False
        while True:
            try:
                return self._ask_all(method, path, body, self._headers)
            except urllib.error.HTTPError as error:
                if error.code < 500 or time.monotonic() > until:
                    raise LaunchRefused(self._refusal(error)) from error
            except OSError as error:
                if time.monotonic() > until:
                    raise LaunchRefused(
                        f"Deploy again once Windlass runs: it does not answer: {error}{self._advice}"
                    ) from error
                if not is_said:
                    say(f"Windlass does not answer ({error}): it is asked again{self._advice}")
                    is_said = True
            time.sleep(_RETRY_PAUSE)

    def pass_on(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Forwards a request of the program and returns the status and the response. The program
        repeats a request after status 503."""
        try:
            return 200, self._ask_all(method, path, body, headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            return _UNAVAILABLE_STATUS, f"Windlass does not answer: {error}".encode()

    def _ask_all(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Sends a request to one server after the other until one responds. Raises the error of the last
        server if none responds."""
        for _ in self._urls[1:]:
            try:
                return self._send_request(method, path, body, headers)
            except OSError as error:  # an HTTPError is an OSError
                if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                    raise
                self._urls.append(self._urls.pop(0))
                say(f"a server does not answer ({error}): another one is asked")
        return self._send_request(method, path, body, headers)

    def _send_request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        url, handlers = _http_address(self._urls[0])
        request = urllib.request.Request(  # noqa: S310 (the address is Windlass's own)
            url + path, data=body or None, headers=dict(headers), method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)
        with opener.open(request, timeout=self._slowest) as answer:
            return bytes(answer.read())

    def _refusal(self, error: urllib.error.HTTPError) -> str:
        try:
            return str(json.loads(error.read())["message"])
        except (ValueError, KeyError, TypeError, OSError):
            return f"{self._urls[0]} answers with status {error.code}, and not as Windlass does{self._advice}"


def is_socket(url: str) -> bool:
    """Returns whether the address is a Unix socket. Other programs cannot connect to such an
    address."""
    return url.startswith(_SOCKET_SCHEME)


def _http_address(url: str) -> tuple[str, list[urllib.request.BaseHandler]]:
    """Returns an HTTP address for urllib, and the handlers that are needed to connect to it."""
    if not is_socket(url):
        return url, []
    path, _, rest = url.removeprefix(_SOCKET_SCHEME).partition("/")
    return f"http://windlass/{rest}", [_UnixSocketHandler(urllib.parse.unquote(path))]


class _UnixSocketHandler(urllib.request.HTTPHandler):
    """Connects to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        path = self._path

        class SocketConnection(http.client.HTTPConnection):
            def connect(self) -> None:
                self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.sock.settimeout(self.timeout)
                folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)  # noqa: PTH120
                try:  # the path of a socket address has a length limit
                    self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")  # noqa: PTH119
                finally:
                    os.close(folder)

        return self.do_open(SocketConnection, request)


def relay(server: RunServer) -> str:
    """Starts a local HTTP server and returns its address.

    A program may accept only one address for its state. The relay forwards its requests, with their
    credential, to any available server.
    """
    import http.server  # noqa: PLC0415 (a slow import, not needed for one server)

    class Relay(http.server.BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
            status, answer = server.pass_on(self.command, self.path, body, headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_DELETE = do_LOCK = do_UNLOCK = _pass_on

        def log_message(self, format: str, *args: Any) -> None:
            """Suppresses the log, because the standard output belongs to the run."""

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{listening.server_address[1]}"
