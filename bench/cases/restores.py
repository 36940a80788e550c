"""A backup of a large installation, and its restore into an empty folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench.fill import fill
from bench.machine import SERVER_CORE, start
from bench.measure import Bench, Line, Target
from windlass.config import DATABASE

_GB = 1e9
_MANY = 1_300_000
"""Projects whose rows and indexes fill a GB."""


def run(bench: Bench) -> list[Line]:
    folder = bench.folder / "restores"
    data, to, file = folder / "data", folder / "to", folder / "backup.zip"
    folder.mkdir()
    fill(data, _MANY * bench.effort.many // 1_000_000)
    size = (data / DATABASE).stat().st_size / _GB
    saved = _seconds("backup", file, data)
    to.mkdir()
    shutil.copy(data / "key", to)
    restored = _seconds("restore", file, to)
    shutil.rmtree(folder)
    return [
        Line(
            what=f"{verb} a database of {size:.2f} GB, for each GB",
            unit="s",
            ours=[took / size],
            target=Target(60, "≤", "s"),
        )
        for verb, took in (("back up", saved), ("restore", restored))
    ]


def _seconds(command: str, file: Path, data: Path) -> float:
    words = [sys.executable, "-m", "windlass", command, str(file), "--data-dir", str(data)]
    began = time.perf_counter()
    if status := start(words, SERVER_CORE, {}, data / "server.log").wait():
        raise subprocess.CalledProcessError(status, command)
    return time.perf_counter() - began
