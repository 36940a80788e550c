"""The npm packages of package.json, installed as the lock says, once for all processes that test."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from tests.needs import program

HERE = Path(__file__).parent
INSTALLED = HERE / "node_modules" / ".package-lock.json"


def install_packages() -> None:
    program("npm")
    with (HERE / "package.json").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not is_installed():
            subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=HERE, check=True, capture_output=True)


def is_installed() -> bool:
    return INSTALLED.exists() and INSTALLED.stat().st_mtime >= (HERE / "package-lock.json").stat().st_mtime
