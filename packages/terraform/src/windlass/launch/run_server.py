"""The server that a Terraform run sends its requests to: the one that started it or, if that is gone,
another of its place."""

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

PATIENCE: Final = 300.0
"""Seconds for which Windlass may be unavailable."""
FIRST_PATIENCE: Final = 60.0
"""The same at the beginning of a run in a container, which may have the wrong address."""
_PAUSE: Final = 1.0
_SLOWEST, _SLOWEST_OF_SEVERAL = 60.0, 20.0
"""Seconds that a server may take to answer: one that is paused accepts connections and answers nothing."""
_PASSED_ON: Final = ("Authorization", "Content-Type", "Content-MD5")
_AWAY: Final = 503
_BY_SOCKET: Final = "http+unix://"
"""The prefix of an address with a quoted socket path instead of a host."""


class RunServer:
    """The servers of the place of a run, as one: requests go to the one that answered last."""

    def __init__(self, urls: Sequence[str], token: str, advice: str) -> None:
        self._urls, self._advice = list(urls), advice
        self._slowest = _SLOWEST if len(self._urls) == 1 else _SLOWEST_OF_SEVERAL
        credential = base64.b64encode(f"run:{token}".encode()).decode()
        self._headers = {"Authorization": f"Basic {credential}", "Content-Type": "application/json"}

    @property
    def are_several(self) -> bool:
        return len(self._urls) > 1

    def greet(self) -> None:
        """Checks that the server can be reached, because Terraform's own message would be less specific."""
        self.send("GET", "/run", patience=FIRST_PATIENCE)

    def send(self, method: str, path: str, body: bytes = b"", patience: float = PATIENCE) -> bytes:
        """Returns the answer. Asks again while the server is unavailable; raises LaunchRefused with its
        refusal."""
        until = time.monotonic() + patience
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
            time.sleep(_PAUSE)

    def pass_on(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Returns the status and the answer to a request of the program, which repeats it after a 503."""
        try:
            return 200, self._ask_all(method, path, body, headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            return _AWAY, f"Windlass does not answer: {error}".encode()

    def _ask_all(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Sends a request to one server after the other; raises the failure of the last one if none
        answers."""
        for _ in self._urls[1:]:
            try:
                return self._send_request(method, path, body, headers)
            except OSError as error:  # an HTTPError is one, too
                if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                    raise
                self._urls.append(self._urls.pop(0))
                say(f"a server does not answer ({error}): another one is asked")
        return self._send_request(method, path, body, headers)

    def _send_request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        url, handlers = _way_to(self._urls[0])
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
    """Returns whether an address is a Unix socket, which Terraform cannot use."""
    return url.startswith(_BY_SOCKET)


def _way_to(url: str) -> tuple[str, list[urllib.request.BaseHandler]]:
    """Returns an address for urllib, and what it needs besides to get there."""
    if not is_socket(url):
        return url, []
    path, _, rest = url.removeprefix(_BY_SOCKET).partition("/")
    return f"http://windlass/{rest}", [_BySocket(urllib.parse.unquote(path))]


class _BySocket(urllib.request.HTTPHandler):
    """Connects to a socket in the file system."""

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
                try:  # the address of a socket must be short
                    self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")  # noqa: PTH119
                finally:
                    os.close(folder)

        return self.do_open(SocketConnection, request)


def relay(server: RunServer) -> str:
    """Returns an address at which the program reaches its state through any server: the program knows only
    one address. Requests are forwarded with their own credential."""
    import http.server  # noqa: PLC0415 (it takes a while, and one server needs none)

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
            """Prints nothing: the output is that of the run."""

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{listening.server_address[1]}"
