"""Repositories to fetch from, and the servers that hold them: real git on both sides."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.stub_server import StubServer

PERSON = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def git(folder: Path, *words: str, stdin: bytes | None = None) -> str:
    """git as anybody has it, with every protocol open: also the control of what ours must not do."""
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), **PERSON}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=given, input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


class Repository:
    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main", *options)

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def git(self, *words: str) -> str:
        return git(self.folder, *words)

    def write(self, **files: str) -> Repository:
        return self.put({name.replace("__", "."): text for name, text in files.items()})

    def put(self, files: dict[str, str | bytes]) -> Repository:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self

    def link(self, name: str, target: str) -> Repository:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return self

    def commit(self, message: str = "A change") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


class Server:
    """`git http-backend` on a loopback port; what it was asked is kept."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.password = ""
        self.redirects: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.newest_protocol = True
        self.hangs = False
        self.asked = threading.Event()
        self.release = threading.Event()
        self.requests: list[str] = []
        self.authorizations: set[str] = set()
        self.port = 0
        self.sent = 0

    def url(self, name: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}/{name}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append(request.path)
        self.asked.set()
        sent = request.headers.get("Authorization", "")
        self.authorizations |= {sent} if sent else set()
        if self.hangs:
            self.release.wait(60)
        elif (target := self._redirected(request.path)) is not None:
            request.send_response(301)
            request.send_header("Location", target)
            request.send_header("Content-Length", "0")
            request.end_headers()
        elif self.password and self._password(sent) != self.password:
            request.send_response(401)
            request.send_header("WWW-Authenticate", 'Basic realm="git"')
            request.send_header("Content-Length", "0")
            request.end_headers()
        else:
            self._backend(request)

    def _redirected(self, path: str) -> str | None:
        return next(
            (
                target + path[len(start) :]
                for start, target in self.redirects.items()
                if path.startswith(start)
            ),
            None,
        )

    def _password(self, header: str) -> str:
        return base64.b64decode(header.removeprefix("Basic ")).decode().rpartition(":")[2]

    def _backend(self, request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        given = {
            "PATH": os.environ["PATH"],
            **PERSON,
            **self.environment,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "HTTP_AUTHORIZATION": request.headers.get("Authorization", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        if self.newest_protocol:
            given["GIT_PROTOCOL"] = request.headers.get("Git-Protocol", "")
        done = subprocess.run(
            ["git", "http-backend"], env=given, input=body, capture_output=True, check=False
        )
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().splitlines()]
        status = next((value for name, value in lines if name == "Status"), "200")
        request.send_response(int(status.split()[0]))
        for name, value in lines:
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(rest)))
        request.end_headers()
        request.wfile.write(rest)
        self.sent += len(rest)


@contextmanager
def serving(root: Path, address: str = "127.0.0.1", context: ssl.SSLContext | None = None):
    server = Server(root)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.answer(self)

        do_POST = do_GET

        def log_message(self, *given: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the client was killed, which is what some tests do
                super().handle()

    with listening(Handler, address, context) as server.port:
        yield server
        server.release.set()


@contextmanager
def plain_files(folder: Path):
    """A web server that knows nothing of git."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *given: object) -> None:
            pass

    with listening(partial(Handler, directory=str(folder))) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def self_signed(folder: Path):
    """Serves HTTPS with an untrusted certificate; yields its port and the requests that came through."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "self-signed.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(certificate.public_bytes(Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with listening(Handler, context=context) as port:
        yield port, requests


@contextmanager
def listening(handler, address: str = "127.0.0.1", context: ssl.SSLContext | None = None):
    made = StubServer((address, 0), handler)
    if context:
        # The handshake is left to the thread of the request: it fails, which is the point.
        made.socket = context.wrap_socket(made.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made.server_port
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


class Listener:
    """A port on loopback that must not be called; what callers say first is kept."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._sockets = [self._listen(socket.AF_INET, "127.0.0.1", 0)]
        self.port = self._sockets[0].getsockname()[1]
        with suppress(OSError):  # a machine without IPv6
            self._sockets.append(self._listen(socket.AF_INET6, "::1", self.port))
        self._threads = [threading.Thread(target=self._serve, args=(each,)) for each in self._sockets]
        for thread in self._threads:
            thread.start()

    def _listen(self, family: int, address: str, port: int) -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((address, port))
            made.listen()
        except OSError:
            made.close()
            raise
        return made

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                caller, _ = listening.accept()
            except OSError:
                return
            with caller:
                caller.settimeout(2)
                try:
                    self.heard.append(caller.recv(1000))
                except OSError:
                    self.heard.append(b"")

    def close(self) -> None:
        for each in self._sockets:
            each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()
