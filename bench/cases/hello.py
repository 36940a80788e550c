"""A first application: from the POST that creates it to its page, against the tools that a person calls."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from bench.machine import SERVER_CORE, Failed, stay_on
from bench.measure import Bench, Line, Target
from bench.servers import Windlass, free_port, windlass
from bench.services import commit_all, make_environment

_AT_MOST = Target(1.5, "≤", "s")
_PATIENCE = 120.0
_PAGE = "hello"
_FLASK = f"""from flask import Flask

app = Flask(__name__)


@app.get("/")
def page():
    return "{_PAGE}"
"""
_EXPRESS = f"""require("express")().get("/", (_, answer) => answer.send("{_PAGE}")).listen(process.env.PORT)
"""
_GO = f"""package main

import (
\t"fmt"
\t"net/http"
\t"os"
)

func main() {{
\thttp.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {{ fmt.Fprint(w, "{_PAGE}") }})
\tpanic(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}}
"""


class Hello(Struct, frozen=True):
    """An application of one page, and what its tools would do."""

    name: str
    tools: str
    """What is not counted as ours."""
    files: Mapping[str, str]
    needs: Sequence[str] = ()
    """Programs that this machine must have."""
    lock: Sequence[str] = ()
    """Writes the file with the versions of dependencies, once."""
    commands: Sequence[Sequence[str]] = ()
    """What installs and builds it in an empty folder."""
    start: Sequence[str] = ()
    """What serves the page on the port in PORT. Nothing if no process is needed."""


HELLOS = (
    Hello(
        "Python",
        "venv, pip and gunicorn",
        {"app.py": _FLASK, "requirements.txt": "flask==3.1.2\ngunicorn==23.0.0\n"},
        commands=(
            (sys.executable, "-m", "venv", "venv"),
            ("venv/bin/pip", "install", "-r", "requirements.txt"),
        ),
        start=("venv/bin/gunicorn", "app:app"),
    ),
    Hello(
        "Node",
        "npm and node",
        {
            "server.js": _EXPRESS,
            "package.json": json.dumps(
                {
                    "name": "hello",
                    "scripts": {"start": "node server.js"},
                    "dependencies": {"express": "^5.0.0"},
                }
            ),
        },
        needs=("node", "npm"),
        lock=("npm", "install", "--package-lock-only"),
        commands=(("npm", "ci"),),
        start=("node", "server.js"),
    ),
    Hello(
        "Go",
        "go build",
        {"main.go": _GO, "go.mod": "module hello\n\ngo 1.21\n"},
        needs=("go",),
        commands=(("go", "build", "-o", "bin/", "."),),
        start=("bin/hello",),
    ),
    Hello("a static site", "no tool", {"index.html": f"<p>{_PAGE}</p>"}),
)


def run(bench: Bench) -> list[Line]:
    settings = {"WINDLASS_GIT_ALLOW_LOCAL": "1", "WINDLASS_STOP_SECONDS": "1"}
    lines: list[Line] = []
    with windlass(bench.folder / "hello", settings=settings) as server:
        environment = make_environment(server)
        for hello in HELLOS[: bench.effort.projects]:
            missing = [program for program in hello.needs if not shutil.which(program)]
            if missing:
                print(f"{', '.join(missing)} is not installed: the page of {hello.name} is left out")
                continue
            lines += _measured(bench, hello, server, environment)
    return lines


def _measured(bench: Bench, hello: Hello, server: Windlass, environment: str) -> list[Line]:
    folder = bench.folder / f"hello-{hello.name}".replace(" ", "-")
    folder.mkdir()
    for name, text in hello.files.items():
        (folder / name).write_text(text)
    if hello.lock:
        _run(hello.lock, folder)
    commit_all(folder)
    deeds = {
        "ours": lambda: _by_windlass(server, environment, folder),
        "limit": lambda: _by_the_tools(hello, folder, bench.folder / "hello-tools"),
    }
    for deed in deeds.values():
        deed()  # fills the caches of the tools
    rounds = bench.timed(deeds)
    beyond = [ours - limit for ours, limit in zip(rounds["ours"], rounds["limit"], strict=True)]
    return [
        Line(
            what=f"{hello.name}: from POST to the page, against {hello.tools}",
            unit="s",
            ours=rounds["ours"],
            limit=rounds["limit"] if hello.start else (),
        ),
        Line(what=f"{hello.name}: beyond its tools", unit="s", ours=beyond, target=_AT_MOST),
    ]


def _by_windlass(server: Windlass, environment: str, repository: Path) -> float:
    """A new application each time: nothing but downloads was there before."""
    began = time.perf_counter()
    body = {"name": "hello", "git_repository": {"url": repository.as_uri(), "branch": "main"}}
    made = str(server.ask("POST", f"/environment/{environment}/application", body)["id"])
    server.raw("POST", f"/application/{made}/deploy")
    try:
        url = _address(server, made)
        _wait_for_page(int(url.port or 80), url.netloc)
        return time.perf_counter() - began
    except Failed:
        raise Failed(str(server.ask("GET", f"/application/{made}/status"))) from None
    finally:
        _delete(server, made)


def _address(server: Windlass, application: str) -> SplitResult:
    """Waits until what was found in its files has given it a port."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if links := server.ask("GET", f"/application/{application}/link")["results"]:
            return urlsplit(str(links[0]["url"]))
        time.sleep(0.005)
    raise Failed("no address")


def _delete(server: Windlass, application: str) -> None:
    server.raw("DELETE", f"/application/{application}")
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(Failed):
            server.raw("GET", f"/application/{application}")
            time.sleep(0.05)
            continue
        return
    raise Failed("an application of the benchmark is not deleted")


def _by_the_tools(hello: Hello, source: Path, folder: Path) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    began = time.perf_counter()
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(".git"))
    for command in hello.commands:
        _run(command, folder)
    if not hello.start:
        return 0.0
    with _started(hello.start, folder) as port:
        _wait_for_page(port, f"127.0.0.1:{port}")
        return time.perf_counter() - began


@contextlib.contextmanager
def _started(command: Sequence[str], folder: Path) -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen(
        [str(folder / command[0]) if "/" in command[0] else command[0], *command[1:]],
        cwd=folder,
        env={**os.environ, "PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: stay_on(SERVER_CORE),
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def _wait_for_page(port: int, host: str) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if _shows_page(port, host):
            return
        time.sleep(0.005)
    raise Failed(f"no page at {host}")


def _shows_page(port: int, host: str) -> bool:
    with (
        contextlib.suppress(OSError, http.client.HTTPException),
        contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)) as connection,
    ):
        connection.request("GET", "/", headers={"Host": host})
        answer = connection.getresponse()
        return _PAGE.encode() in answer.read() and answer.status == 200
    return False


def _run(command: Sequence[str], folder: Path) -> None:
    """On the core of servers, as the steps of Windlass."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: stay_on(SERVER_CORE),
    )
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stdout[-500:]}")
