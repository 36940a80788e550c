"""Engines of processes for tests, and what the machine itself says of what they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tests.engines.stations import Opener
from windlass.base.cgroups import Cgroups
from windlass.base.clock import SystemClock
from windlass.base.isolation.isolation import Isolation, NetworkRules
from windlass.engines.workload import Artifact
from windlass.process.engine import ProcessEngine
from windlass.process.exit_reason import Pauses


def open_engine(
    folder: Path, *, networks: bool = True, has_groups: bool = True, **given: Any
) -> ProcessEngine:
    given.setdefault("isolation", Isolation("auto", folder, rules=NetworkRules() if networks else None))
    groups = None if has_groups else Cgroups(None, folder)
    return ProcessEngine(
        folder, SystemClock(), pauses=Pauses(first=0.1, longest=0.4), weigh=0.2, groups=groups, **given
    )


class ProcessRig:
    cannot: Mapping[str, str] = {
        "exit codes": "the kernel tells them to the parent alone",
        "absolute": "without containers nothing can be mounted",
    }

    def __init__(self, folder: Path, **given: Any) -> None:
        """`given` goes to `open_engine`."""
        self._given = given
        self.folder = folder / "engine"
        self._artifacts = folder / "artifacts"

    def opener(self) -> Opener:
        return partial(open_engine, self.folder, **self._given)

    async def artifact(self, program: str) -> Artifact:
        return self.made(program)

    def made(self, program: str, **given: Any) -> Artifact:
        folder = self._artifacts / str(len(list(self._artifacts.glob("*"))))
        (folder / "app").mkdir(parents=True)
        (folder / "app" / "main.py").write_text(program)
        command = (sys.executable, "-I", "-S", "main.py")
        return msgspec.structs.replace(Artifact(kind="native", ref=str(folder), command=command), **given)

    def artifact_folder(self, artifact: Artifact) -> Path:
        return Path(artifact.ref)

    async def copies(self, service: str) -> Sequence[tuple[int, int]]:
        """Returns the copies by their session leaders: a process that left its session belongs to the copy
        that started it."""
        found = []
        for folder, home in self._processes(service):
            said = _read(folder / "cmdline")
            if b"main.py" in said.split(b"\0")[1:] and _leads(int(folder.name)):
                generation, _, index = home.name.partition("-")
                found.append((int(generation), int(index)))
        return found

    async def traces(self, service: str) -> Collection[str]:
        left = [f"process {folder.name} of {home}" for folder, home in self._processes(service)]
        stays = ("removed", "caches")  # the latter until it is discarded
        left += [str(path) for path in self.folder.rglob(f"*{service}*") if path.parent.name not in stays]
        left += [str(path) for path in (self.folder / "ports").glob("*") if service in str(path.readlink())]
        return left + [str(path) for path in (self.folder / "ended").glob("*")]

    async def remembered(self) -> bytes:
        not_ours = ("secret", "output")  # a wanted file, and what the program says itself
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.name not in not_ours]
        return b"".join(path.read_bytes() for path in files)

    def _processes(self, service: str) -> list[tuple[Path, Path]]:
        """Returns processes whose environment names this service in the folder of this engine."""
        mark, found = os.fsencode(f"WINDLASS_FILES={self.folder}/services/{service}/"), []
        for folder in Path("/proc").glob("[0-9]*"):
            environment = _read(folder / "environ")
            if mark in environment:  # most are of other processes, and some are long
                words = [os.fsdecode(word) for word in environment.split(b"\0") if word.startswith(mark)]
                found += [(folder, Path(word.partition("=")[2]).parent) for word in words]
        return found


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # it ended meanwhile, or belongs to another user
