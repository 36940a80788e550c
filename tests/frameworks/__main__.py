"""Makes each application of the table, deploys it, looks at its page, and writes the table of the manual.

    python -m tests.frameworks [--engine ENGINE] [--write] [part of a name ...]

Generators and dependencies come from the ordinary registries. Takes about a minute a row. On docker, images
that the engine lacks get a stand-in. Rows that were tried replace those in the table.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.frameworks.languages import LANGUAGES
from tests.frameworks.rows import ROWS, Row
from tests.frameworks.standins import base_images, bases_of
from tests.frameworks.table import Outcome, write

PATIENCE = 900.0
GENERATOR_PATIENCE = 600.0
ENDED = {"RUNNING", "ERROR"}


class Server:
    """A Windlass of its own, with an environment to deploy to."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.token = secrets.token_hex(24)
        self.port, self.gateway = _free_port(), _free_port()
        self.folder = folder
        self.environment = ""
        self.output = (folder.parent / f"{engine}.log").open("w")
        settings = {
            "WINDLASS_ADMIN_TOKEN": self.token,
            "WINDLASS_PORT": str(self.port),
            "WINDLASS_GATEWAY_PORT": str(self.gateway),
            "WINDLASS_DATA_DIR": str(folder),
            "WINDLASS_ENGINE": engine,
            "WINDLASS_GIT_ALLOW_LOCAL": "1",
            "WINDLASS_RATE_LIMIT": "1000000",
        }
        command = [str(Path(sys.executable).with_name("windlass")), "serve"]
        self.process = subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=self.output, stderr=subprocess.STDOUT
        )

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Token {self.token}", "Content-Type": "application/json"}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text}")
        return json.loads(text) if text else None

    def begin(self) -> None:
        while True:
            try:
                organization = self.call("GET", "/organization")["id"]
                break
            except OSError:
                time.sleep(0.2)
        project = self.call("POST", f"/organization/{organization}/project", {"name": "frameworks"})["id"]
        made = self.call("POST", f"/project/{project}/environment", {"name": "all"})
        self.environment = made["id"]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.output.close()


@contextmanager
def serving(engine: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="windlass-frameworks-", ignore_cleanup_errors=True) as top:
        server = Server(Path(top) / "data", engine)
        try:
            server.begin()
            yield server
        finally:
            server.stop()


def generate(row: Row, folder: Path) -> Path:
    """Makes the application, as a repository."""
    app = folder / "app"
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "CI": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}

    def run(command: str, cwd: Path) -> None:
        subprocess.run(
            command, shell=True, cwd=cwd, env=environment, check=True, timeout=GENERATOR_PATIENCE,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    if row.command:
        run(row.command, folder)
    for name, text in row.files.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(text)
    for name, text in row.appended.items():
        with (app / name).open("a") as file:
            file.write(text)
    if row.after:
        run(row.after, app)
    shutil.rmtree(app / ".git", ignore_errors=True)
    author = "-c user.name=x -c user.email=x@example.com"
    run(f"git init -q -b main && git add -A && git {author} commit -qm x", app)
    return app


def deploy(server: Server, row: Row, engine: str, repository: Path) -> Outcome:
    name = re.sub(r"[^a-z0-9]+", "-", row.name.lower()).strip("-")
    body = {
        "name": name,
        "git_repository": {"url": f"file://{repository}", "branch": "main", "root_path": row.root_path},
        "ports": [{"internal_port": 8080, "publicly_accessible": True, "protocol": "HTTP"}]
        if row.text
        else [],
        "memory": 2048,
        **row.settings,
    }
    application = server.call("POST", f"/environment/{server.environment}/application", body)["id"]
    start = time.monotonic()
    server.call("POST", f"/application/{application}/deploy")
    state = {"state": ""}
    while state["state"] not in ENDED and time.monotonic() - start < PATIENCE:
        time.sleep(0.25)
        state = server.call("GET", f"/application/{application}/status")
    seconds = time.monotonic() - start
    history = server.call("GET", f"/application/{application}/deploymentHistory")["results"]
    lines = (
        server.call("GET", f"/application/{application}/deployment/{history[0]['id']}/log?tail=2000")[
            "results"
        ]
        if history
        else []
    )
    log = "\n".join(str(line.get("message", line)) for line in lines)
    shown = re.search(r"Detected framework: ([\w. ]+)", log)
    problem = _problem(server, row, application, state)
    _delete(server, application)
    return Outcome(row, engine, shown[1].strip() if shown else "", seconds, problem, log)


def _delete(server: Server, application: str) -> None:
    """Waits until it is gone: containers would outlive the server."""
    server.call("DELETE", f"/application/{application}")
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE:
        known = server.call("GET", f"/environment/{server.environment}/application")["results"]
        if all(other["id"] != application for other in known):
            return
        time.sleep(0.25)


def _problem(server: Server, row: Row, application: str, state: Any) -> str:
    if state["state"] != "RUNNING":
        return f"{state['state']}: {json.dumps(state)[:1500]}"
    if not row.text:
        return ""
    url = server.call("GET", f"/application/{application}/link")["results"][0]["url"]
    return _look(row, url)


def _look(row: Row, url: str) -> str:
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=60)) as connection:
        connection.request("GET", row.path, headers={"Host": parts.netloc, "Accept": "text/html"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    if answer.status == 200 and row.text in text:
        return ""
    return f"The page answered {answer.status}: {text[:300]}"


def _free_port() -> int:
    import socket

    with closing(socket.socket()) as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def attempt(server: Server, row: Row, engine: str) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="windlass-app-") as folder:
        try:
            repository = generate(row, Path(folder))
        except subprocess.CalledProcessError as error:
            return Outcome(row, engine, "", 0, f"The generator failed: {error.stdout[-800:]}", "")
        except subprocess.TimeoutExpired:
            return Outcome(row, engine, "", 0, "The generator took too long.", "")
        if engine != "docker":
            return deploy(server, row, engine, repository)
        try:
            with base_images(bases_of(repository, row.root_path)) as stand_ins:
                return deploy(server, row, engine, repository)._replace(stand_ins=tuple(stand_ins))
        except LookupError as reason:
            return Outcome(row, engine, row.framework, 0, f"not tried: {reason}", "")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", help="parts of names of rows; none: all")
    options.add_argument("--write", action="store_true", help="write the table of docs/frameworks.md")
    options.add_argument("--engine", default="process")
    options.add_argument("--log", action="store_true", help="print the build log of each")
    chosen = options.parse_args()
    rows = [row for row in (*ROWS, *LANGUAGES) if chosen.engine in row.engines]
    rows = [row for row in rows if not chosen.names or any(part in row.name for part in chosen.names)]
    outcomes: list[Outcome] = []
    with serving(chosen.engine) as server:
        for row in rows:
            outcome = attempt(server, row, chosen.engine)
            wrong = outcome.framework != row.framework and not outcome.problem
            if wrong:
                outcome = outcome._replace(problem=f"It was detected as {outcome.framework or 'nothing'}.")
            outcomes.append(outcome)
            if chosen.write:
                write(chosen.engine, [outcome])
            print(f"{row.name}: {outcome.problem or 'runs'} ({outcome.seconds:.0f} s)", flush=True)
            if outcome.problem or chosen.log:
                print(outcome.log[-6000:], flush=True)
    return 1 if any(outcome.problem for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
