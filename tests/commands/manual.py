"""The manual's examples, run as they are printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SERVER = "http://127.0.0.1:8080"
"""The address of a server in the manual."""


_NOT_RUN_PATTERN = re.compile(r"^make | ID\b| --at 20")
"""An id, or the time of an earlier state, is that of the reader's server."""


def examples(page: Path) -> str:
    """All blocks of shell of a page, as one script that stops at the first failure, without calls of make and
    lines that a person completes."""
    blocks = re.findall(r"^```sh\n(.+?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    lines = [line for line in "\n".join(blocks).splitlines() if not _NOT_RUN_PATTERN.search(line)]
    return "\n".join(["set -euo pipefail", "shopt -s expand_aliases", *lines])


def run_examples(page: Path, folder: Path, **environment: str) -> str:
    """By people's shell, with `windlass` and a small stand-in for jq on the path."""
    # Pages call windlass by its name, or as `make run` installs it.
    here = folder / "windlass"
    tools = here / ".venv/bin"
    tools.mkdir(parents=True)
    make_application(folder / "shop")
    program(tools / "windlass", f'exec "{sys.executable}" -m windlass "$@"')
    program(tools / "jq", f'exec "{sys.executable}" "{__file__}" "$@"')
    ended = subprocess.run(
        ["bash", "-c", examples(page).replace(SERVER, environment.get("WINDLASS_URL", SERVER))],
        cwd=here,
        env={"PATH": f"{tools}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache"), **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr or ended.stdout[-1500:]
    return ended.stdout


def make_application(folder: Path) -> None:
    """The repository of an application, beside the folder of the examples; its commit is pushed."""
    folder.mkdir()
    (folder / "app.py").write_text("from flask import Flask\napp = Flask(__name__)\n")
    (folder / "requirements.txt").write_text("flask\n")
    (folder / ".env").write_text("GREETING=hello\n")
    for words in (
        "init -q -b main",
        "remote add origin https://github.com/acme/shop.git",
        "add app.py requirements.txt",
        "-c user.name=a -c user.email=a@example.com commit -q -m First",
        "update-ref refs/remotes/origin/main HEAD",
        "branch -q -u origin/main",
    ):
        subprocess.run(["git", "-C", str(folder), *words.split()], check=True)


def program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def pick(document: Any, path: str) -> list[str]:
    """Picks values as jq does, for the paths of the manual: `.token`, `.results[].name`, `.results[0].id`."""
    values = [document]
    for name, is_list, index in re.findall(r"\.(\w+)(\[(\d*)\])?", path):
        values = [value[name] for value in values]
        if is_list:
            values = [item for value in values for item in (value[int(index) :][:1] if index else value)]
    return [str(value) for value in values]


if __name__ == "__main__":
    print("\n".join(pick(json.load(sys.stdin), sys.argv[-1])))
