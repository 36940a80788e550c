"""Finds the installed Terraform and OpenTofu programs and their versions.

The version of a program is cached until its file changes.
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

from windlass.base.environment import for_tools
from windlass.base.log import log

PROGRAM_NAMES: Final = {"TERRAFORM": "terraform", "OPEN_TOFU": "tofu"}
"""The name of each engine's program."""
_ASK_VERSION: Final = ("version", "-json")
_TIMEOUT: Final = 20.0
_VERSION_PATTERN: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*")
_log = log("builders.terraform")


class InstalledProgram(Struct, frozen=True):
    """A Terraform or OpenTofu program of this machine."""

    engine: str
    version: str
    path: str


class Programs(Protocol):
    """The programs that can run modules."""

    def find_all(self) -> Sequence[InstalledProgram]:
        """Returns all programs, the newest version of each engine first. May execute each program to read its
        version."""
        ...


class InstalledPrograms:
    """The programs in the PATH: `terraform`, `tofu`, and names with a version such as `terraform-1.10`."""

    def __init__(self, surroundings: Mapping[str, str] | None = None) -> None:
        """`surroundings` are the environment variables to use. The default is the environment of this
        process."""
        self._surroundings = surroundings
        self._known: dict[tuple[str, int, int], InstalledProgram | None] = {}
        self.unusable: dict[str, str] = {}
        """The paths of programs whose version could not be read, with the reason."""

    def find_all(self) -> Sequence[InstalledProgram]:
        programs = [program for path in self._files() if (program := self._program(*path))]
        by_version = {(program.engine, program.version): program for program in reversed(programs)}
        return sorted(by_version.values(), key=_newest_first)

    def _files(self) -> Iterator[tuple[str, Path]]:
        surroundings = for_tools() if self._surroundings is None else self._surroundings
        for folder in dict.fromkeys(surroundings.get("PATH", os.defpath).split(os.pathsep)):
            # An inherited PATH, for example from root, can contain folders that Windlass must not access.
            if not folder.startswith("/") or not os.access(folder, os.X_OK):
                continue
            for engine, name in PROGRAM_NAMES.items():
                for path in (Path(folder, name), *sorted(Path(folder).glob(f"{name}-[0-9]*"))):
                    if os.access(path, os.X_OK) and path.is_file():
                        yield engine, path.resolve()

    def _program(self, engine: str, path: Path) -> InstalledProgram | None:
        about = path.stat()
        key = (str(path), about.st_mtime_ns, about.st_size)
        if key not in self._known:
            self._known[key] = self._inspect(engine, path)
        return self._known[key]

    def _inspect(self, engine: str, path: Path) -> InstalledProgram | None:
        try:
            version = _version_of(path)
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
            self.unusable[str(path)] = str(error)
            _log.warning("%s is not used: it does not report its version", path, extra={"why": str(error)})
            return None
        self.unusable.pop(str(path), None)
        return InstalledProgram(engine, version, str(path))


def choose(programs: Sequence[InstalledProgram], engine: str, version: str) -> InstalledProgram | None:
    """Returns the newest program of an engine whose version begins with `version`. An empty version matches
    any."""
    parts = version.split(".") if version else []
    for program in programs:
        if program.engine == engine and program.version.split(".")[: len(parts)] == parts:
            return program
    return None


def _version_of(path: Path) -> str:
    environment = {"PATH": os.defpath, "HOME": "/nonexistent", "CHECKPOINT_DISABLE": "1"}
    done = subprocess.run(
        [path, *_ASK_VERSION], env=environment, capture_output=True, timeout=_TIMEOUT, check=True
    )
    version = str(json.loads(done.stdout)["terraform_version"])
    if not _VERSION_PATTERN.fullmatch(version):
        raise ValueError(f"{version[:40]!r} is not a version")
    return version


def _newest_first(program: InstalledProgram) -> tuple[str, list[int]]:
    numbers = [-int(part) for part in re.findall(r"[0-9]+", program.version)[:3]]
    return program.engine, numbers
