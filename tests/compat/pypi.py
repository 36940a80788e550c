"""The Python package of the full interface, installed as requirements.txt says, once for all processes that
test."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOCK = HERE / "requirements.txt"
MODULES = HERE.parents[1] / ".venv" / "compat"
_DONE = MODULES / ".done"


def install_package() -> Path:
    """Returns the folder to import the package from."""
    with LOCK.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not _DONE.exists() or _DONE.read_text() != LOCK.read_text():
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            exact = ["--require-hashes", "--no-deps", "--upgrade", "--target", str(MODULES), "-r", str(LOCK)]
            subprocess.run([*pip, *exact], check=True, capture_output=True)
            _DONE.write_text(LOCK.read_text())
    return MODULES
