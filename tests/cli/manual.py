"""The manual's examples, run as they are printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def examples(page: str) -> str:
    """All blocks of shell of a page, as one script that stops at the first failure."""
    blocks = re.findall(r"^```sh\n(.+?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    return "\n".join(["set -euo pipefail", *blocks])


def run_examples(page: str, folder: Path, **environment: str) -> str:
    """By people's shell, with `windlass` and a small stand-in for jq on the path."""
    tools = folder / "tools"
    tools.mkdir()
    program(tools / "windlass", f'exec "{sys.executable}" -m windlass "$@"')
    program(tools / "jq", f'exec "{sys.executable}" "{__file__}" "$@"')
    ended = subprocess.run(
        ["bash", "-c", examples(page)],
        cwd=folder,
        env={"PATH": f"{tools}:{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def pick(document: Any, path: str) -> list[str]:
    """As much of jq as the manual needs: `.token`, `.results[].name`."""
    found = [document]
    for name, every in re.findall(r"\.(\w+)(\[\])?", path):
        found = [one[name] for one in found]
        found = [inner for one in found for inner in one] if every else found
    return [str(one) for one in found]


if __name__ == "__main__":
    print("\n".join(pick(json.load(sys.stdin), sys.argv[-1])))
