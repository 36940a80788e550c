"""A changed line of source: built by Windlass, and by the tool itself in a working copy that it knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from bench.machine import SERVER_CORE, Failed, stay_on
from bench.measure import Bench, Line, Target
from bench.servers import windlass
from bench.services import Deployed, commit_all, make_environment

_AT_MOST = Target(1.2, "≤")
_PACKAGES = 40
_MODULES = 300
_GO_MAIN = """package main

import (
\t"fmt"
\t"net/http"
\t"os"
%s)

const changed = %d

func main() {
\thttp.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, changed%s) })
\tpanic(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
"""
_RUST_MAIN = """use std::io::{Read, Write};

const CHANGED: u32 = %d;

fn main() {
    let port = std::env::var("PORT").unwrap();
    let listener = std::net::TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let text = serde_json::json!({ "changed": CHANGED }).to_string();
        let head = format!("HTTP/1.1 200 OK\\r\\nContent-Length: {}\\r\\n\\r\\n", text.len());
        let _ = stream.write_all((head + &text).as_bytes());
    }
}
"""
_PACKAGE = """{
  "name": "shop", "private": true,
  "scripts": {"build": "webpack --mode production --entry ./main.js", "start": "node server.js"},
  "devDependencies": {"webpack": "^5.90.0", "webpack-cli": "^5.1.0"}
}
"""
_SERVER = """require("http")
  .createServer((_, answer) => answer.end("hi")).listen(process.env.PORT, "127.0.0.1")
"""


class Project(Struct, frozen=True):
    """An application in one language, and the commands of its tool."""

    name: str
    needs: Sequence[str]
    """Programs that this machine must have."""
    write: Callable[[Path], None]
    change: Callable[[Path, int], None]
    """Changes one line to one that was never there."""
    commands: Sequence[Sequence[str]]
    """What rebuilds the application in a working copy."""
    before: Sequence[Sequence[str]] = ()
    """What installs its dependencies in a working copy, which is not measured."""
    lock: str = ""
    """The file with the versions of dependencies, which its tool writes and both sides have."""
    variables: Mapping[str, str] = {}


def run(bench: Bench) -> list[Line]:
    lines: list[Line] = []
    for project in PROJECTS[: bench.effort.projects]:
        missing = [program for program in project.needs if not shutil.which(program)]
        if missing:
            print(f"{', '.join(missing)} is not installed: the rebuild of {project.name} is left out")
            continue
        try:
            lines.append(_rebuilds(bench, project))
        except Failed as failed:
            print(f"the rebuild of {project.name} is left out: {failed}")
    return lines


def _rebuilds(bench: Bench, project: Project) -> Line:
    folder = bench.folder / f"rebuilds-{project.name.replace(' ', '-')}"
    folder.mkdir()
    ours, theirs = folder / "repository", folder / "working-copy"
    for copy in (ours, theirs):
        copy.mkdir()
        project.write(copy)
        project.change(copy, 0)
    for command in (*project.before, *project.commands):
        _run(project, command, theirs)
    if project.lock:
        shutil.copy(theirs / project.lock, ours)
    settings = {"WINDLASS_GIT_ALLOW_LOCAL": "1", "WINDLASS_STOP_SECONDS": "1"}
    numbers = iter(range(1, 1_000_000))
    with windlass(folder / "data", settings=settings) as server:
        service = Deployed(server, make_environment(server), "app", ours, 8080)
        service.deploy(commit_all(ours))

        def rebuild() -> float:
            project.change(ours, next(numbers))
            return service.deploy(commit_all(ours)).build

        def by_the_tool() -> float:
            project.change(theirs, next(numbers))
            began = time.perf_counter()
            for command in project.commands:
                _run(project, command, theirs)
            return time.perf_counter() - began

        rebuild()  # a rebuild after a whole build still fills caches
        by_the_tool()
        rounds = bench.timed({"ours": rebuild, "limit": by_the_tool})
        service.delete()
    return Line(
        what=f"{project.name}, one line changed, against its tool in a working copy",
        unit="s",
        ours=rounds["ours"],
        limit=rounds["limit"],
        target=_AT_MOST,
    )


def _run(project: Project, command: Sequence[str], folder: Path) -> None:
    """On the core of servers, as the steps of Windlass."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **project.variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: stay_on(SERVER_CORE),
    )
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stdout[-500:]}")


def _write_go(folder: Path, packages: int) -> None:
    (folder / "go.mod").write_text("module shop\n\ngo 1.21\n")
    for number in range(packages):
        package = folder / f"part{number}"
        package.mkdir()
        for file in range(10):
            body = "\n".join(f"func F{file}x{n}(a int) int {{ return a*{n} + {file} }}" for n in range(50))
            (package / f"file{file}.go").write_text(f"package part{number}\n\n{body}\n")


def _change_go(folder: Path, packages: int, number: int) -> None:
    imports = "".join(f'\t"shop/part{n}"\n' for n in range(packages))
    calls = "".join(f", part{n}.F0x1(changed)" for n in range(packages))
    (folder / "main.go").write_text(_GO_MAIN % (imports, number, calls))


def _write_rust(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n\n'
        '[dependencies]\nserde_json = "1"\nregex = "1"\n'
    )


def _write_webpack(folder: Path) -> None:
    (folder / "package.json").write_text(_PACKAGE)
    (folder / "server.js").write_text(_SERVER)
    for number in range(_MODULES):
        (folder / f"part{number}.js").write_text(f"export const part{number} = (a) => a * {number}\n")


def _change_webpack(folder: Path, number: int) -> None:
    imports = "".join(f"import {{ part{n} }} from './part{n}.js'\n" for n in range(_MODULES))
    calls = " + ".join(f"part{n}({number})" for n in range(_MODULES))
    (folder / "main.js").write_text(f"{imports}document.title = {calls}\n")


def _change_rust(folder: Path, number: int) -> None:
    (folder / "src" / "main.rs").write_text(_RUST_MAIN % number)


_GO = {"GOFLAGS": "-trimpath -buildvcs=false", "GOTOOLCHAIN": "local", "GOTELEMETRY": "off"}
_GO_BUILD = (("go", "build", "-o", "bin/", "."),)

PROJECTS = (
    Project(
        "webpack",
        ("node", "npm"),
        _write_webpack,
        _change_webpack,
        (("npm", "run", "build"),),
        before=(("npm", "install", "--package-lock-only"), ("npm", "ci")),
        lock="package-lock.json",
    ),
    Project(
        "Go, small",
        ("go",),
        lambda folder: _write_go(folder, 0),
        lambda folder, number: _change_go(folder, 0, number),
        _GO_BUILD,
        variables=_GO,
    ),
    Project(
        f"Go, {_PACKAGES} packages",
        ("go",),
        lambda folder: _write_go(folder, _PACKAGES),
        lambda folder, number: _change_go(folder, _PACKAGES, number),
        _GO_BUILD,
        variables=_GO,
    ),
    Project(
        "Rust",
        ("cargo",),
        _write_rust,
        _change_rust,
        (("cargo", "build", "--release"),),
        lock="Cargo.lock",
    ),
)
