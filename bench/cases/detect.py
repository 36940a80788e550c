"""Detection: how an application among 50,000 files is built and started, against a walk over their names."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from bench.measure import Bench, Line, Target
from windlass.base.file_names import file_names, read_beginning
from windlass.detect import Tree, detect

_FILES = 50_000
_AT_MOST = Target(0.3, "≤", "s")


def run(bench: Bench) -> list[Line]:
    one, many = bench.folder / "one application", bench.folder / "many applications"
    _write(one, 1)
    _write(many, 100)
    return [_line(bench, folder) for folder in (one, many)]


def _write(top: Path, applications: int) -> None:
    """Writes applications of Django whose packages share the files: 50 in a folder, as sources have them."""
    for number in range(applications):
        application = top / f"apps/shop{number}" if applications > 1 else top
        application.mkdir(parents=True)
        (application / "requirements.txt").write_text("django==5.1\n")
        (application / "manage.py").write_text("import django\n")
    for number in range(_FILES):
        package = number // 50
        folder = top / f"apps/shop{package % applications}/part{package % 40}/package{package}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"module{number}.py").write_text(f"NUMBER = {number}\n")


def _line(bench: Bench, folder: Path) -> Line:
    _detect(folder)
    turns = [(_detect(folder), _walk(folder)) for _ in range(bench.effort.starts)]
    ours, limit = zip(*turns, strict=True)
    return Line(
        what=f"{folder.name} in {_FILES:,} files",
        unit="s",
        ours=list(ours),
        limit=list(limit),
        target=_AT_MOST,
    )


def _detect(folder: Path) -> float:
    began = time.perf_counter()
    detect(Tree(file_names(folder), partial(read_beginning, folder)))
    return time.perf_counter() - began


def _walk(folder: Path) -> float:
    began = time.perf_counter()
    for _ in os.walk(folder):
        pass
    return time.perf_counter() - began
