"""Finds the installed programs Terraform and OpenTofu, and their versions.

A program is asked for its version once; it is asked again when its file has changed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from windlass.base.log import log

NAMES: Final = {"TERRAFORM": "terraform", "OPEN_TOFU": "tofu"}
"""The name of the program of each engine."""
_PATIENCE: Final = 20.0
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*")
_log = log("builders.terraform")


class InstalledProgram(Struct, frozen=True):
    """A program of this machine."""

    engine: str
    version: str
    path: str


class Programs(Protocol):
    """The programs that run modules; see `control.kinds.terraform`."""

    def look(self) -> Sequence[InstalledProgram]:
        """Returns all of them, the newest of each engine first. May run each of them."""
        ...


class InstalledPrograms:
    """The programs in the folders of a PATH: `terraform`, `tofu`, and versions such as `terraform-1.10`."""

    def __init__(self, surroundings: Mapping[str, str]) -> None:
        self._path = surroundings.get("PATH", os.defpath)
        self._known: dict[tuple[str, int, int], InstalledProgram | None] = {}

    def look(self) -> Sequence[InstalledProgram]:
        programs = [program for path in self._files() if (program := self._program(*path))]
        by_version = {(program.engine, program.version): program for program in reversed(programs)}
        return sorted(by_version.values(), key=_newest_first)

    def _files(self) -> Iterator[tuple[str, Path]]:
        for folder in dict.fromkeys(self._path.split(os.pathsep)):
            for engine, name in NAMES.items():
                if folder.startswith("/"):
                    for path in (Path(folder, name), *sorted(Path(folder).glob(f"{name}-[0-9]*"))):
                        if path.is_file() and os.access(path, os.X_OK):
                            yield engine, path.resolve()

    def _program(self, engine: str, path: Path) -> InstalledProgram | None:
        about = path.stat()
        key = (str(path), about.st_mtime_ns, about.st_size)
        if key not in self._known:
            version = _version_of(path)
            self._known[key] = InstalledProgram(engine, version, str(path)) if version else None
        return self._known[key]


def choose(programs: Sequence[InstalledProgram], engine: str, version: str) -> InstalledProgram | None:
    """Returns the newest program of an engine whose version begins with this one; empty is any."""
    parts = version.split(".") if version else []
    for program in programs:
        if program.engine == engine and program.version.split(".")[: len(parts)] == parts:
            return program
    return None


def _version_of(path: Path) -> str:
    """Asks a program for its version. One that does not answer is none."""
    environment = {"PATH": os.defpath, "HOME": "/nonexistent", "CHECKPOINT_DISABLE": "1"}
    try:
        done = subprocess.run(
            [path, "version", "-json"], env=environment, capture_output=True, timeout=_PATIENCE, check=True
        )
        version = str(json.loads(done.stdout)["terraform_version"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        _log.warning("a program does not tell its version", extra={"program": str(path), "why": str(error)})
        return ""
    return version if _VERSION.fullmatch(version) else ""


def _newest_first(program: InstalledProgram) -> tuple[str, list[int]]:
    numbers = [-int(part) for part in re.findall(r"[0-9]+", program.version)[:3]]
    return program.engine, numbers
