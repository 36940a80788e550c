"""A server of its own for tests of the console, with real processes and a git repository."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.documented import DOCUMENT
from tests.free_ports import free_port

TOKEN: Final = "token-of-the-tests-of-the-console-0123456789"
PROGRAM: Final = """\
import http.server, os, sys

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(("Hello " + os.environ.get("GREETING", "world") + VERSION).encode())

    def log_message(self, *words):
        print(f"GET {self.path}\\n", end="", flush=True)  # in one piece: there are other threads

VERSION = ""
http.server.ThreadingHTTPServer(("0.0.0.0", int(os.environ["PORT"])), Page).serve_forever()
"""


class Refused(Exception):
    """The server refused a request of a test."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


class Server:
    def __init__(
        self,
        folder: Path,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        program: tuple[str, ...] = ("-m", "windlass"),
    ) -> None:
        self.folder, self._settings, self._program = folder, settings or {}, program
        self.port, self.gateway = port or free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.org = str(self.call("GET", "/organization")["results"][0]["id"])

    def start(self) -> None:
        command = [sys.executable, *self._program, "serve", "--port", str(self.port)]
        command += ["--gateway-port", str(self.gateway), "--data-dir", str(self.folder / "data")]
        environment = os.environ | {
            "WINDLASS_ADMIN_TOKEN": TOKEN,
            "WINDLASS_RATE_LIMIT": "1000000",
            "WINDLASS_GIT_ALLOW_LOCAL": "1",
            "WINDLASS_ENGINE": "process",
            "WINDLASS_STOP_SECONDS": "1",
            "WINDLASS_SETTLE_SECONDS": "0.2",
            **self._settings,
        }
        with (self.folder / "log").open("ab") as file:
            self._process = subprocess.Popen([*command], env=environment, stderr=file, stdout=file)
        until = time.monotonic() + 120  # A machine under load is slow.
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=1):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(20)

    def end(self) -> None:
        """Ends the server with all its services."""
        self.stop()
        words = [sys.executable, "-m", "windlass", "stop", "--all", "--data-dir", str(self.folder / "data")]
        subprocess.run(words, check=False, capture_output=True, timeout=30)

    def call(self, method: str, path: str, body: Any = None, token: str = TOKEN) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, f"{method} {path}: {error.read().decode()}") from error
        return json.loads(text) if text else None

    def link(self, token: str = TOKEN) -> str:
        """Returns a link that signs a browser in."""
        return str(self.call("POST", "/account/signInLink", {}, token)["url"])

    # Things to look at

    def environment(self, name: str = "production", project: str = "Shop") -> str:
        made = self.call("POST", f"/organization/{self.org}/project", {"name": project})
        environment = self.call("POST", f"/project/{made['id']}/environment", {"name": name})
        return str(environment["id"])

    def application(self, environment: str, repository: Repository, name: str = "shop") -> str:
        body = {"name": name, "git_repository": {"url": repository.url, "branch": "main"}}
        return str(self.call("POST", f"/environment/{environment}/application", body)["id"])

    def example(self, environment: str, kind: str) -> str:
        """Creates the service of the document's example; returns its path."""
        creation = DOCUMENT["paths"][f"/environment/{{env_id}}/{kind}"]["post"]
        body = creation["requestBody"]["content"]["application/json"]["example"]
        made = self.call("POST", f"/environment/{environment}/{kind}", body)
        return f"/{kind}/{made['id']}"

    def deploy(self, app: str, wanted: str = "SUCCEEDED") -> str:
        """Deploys an application and waits for its end; returns the id of the deployment."""
        self.call("POST", f"/application/{app}/deploy", {})
        until = time.monotonic() + 60
        while True:
            newest = self.call("GET", f"/application/{app}/deployment?page_size=1")["results"][0]
            if newest["status"] in {"SUCCEEDED", "FAILED"}:
                assert newest["status"] == wanted, newest
                return str(newest["id"])
            assert time.monotonic() < until, newest
            time.sleep(0.1)


class Repository:
    """A git repository with a program that answers requests."""

    def __init__(self, folder: Path, author: str = "Ann Lee") -> None:
        folder.mkdir(parents=True)
        self.folder, self.url = folder, f"file://{folder}"
        self._author = author
        self.git("init", "-q", "-b", "main")
        self.commit({"app.py": PROGRAM, "Procfile": "web: python app.py\n"}, "First version")

    def git(self, *words: str) -> None:
        identity = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", self._author), ("EMAIL", "ann@example.com"))
        }
        subprocess.run(
            ["git", *words], cwd=self.folder, check=True, capture_output=True, env=os.environ | identity
        )

    def commit(self, files: dict[str, str], message: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
