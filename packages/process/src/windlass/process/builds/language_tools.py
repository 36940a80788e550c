"""Finds the toolchain of a language on this machine before any command of the build runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Hashable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from windlass.base import subprocesses
from windlass.builders.builder import BuildError
from windlass.detect import Toolchain, languages
from windlass.process.builds import tree
from windlass.process.builds.pip import install_in_folder
from windlass.process.builds.toolchains import MissingToolchain, Toolchains
from windlass.process.builds.tools import Tools, find_program, machine_path

_PARTS_PATTERN: Final = re.compile(r"&&|\|\||[;|\n]")
_ASSIGNMENT_PATTERN: Final = re.compile(r"[A-Za-z_]\w*=")
_WHEEL: Final = "wheel"
OR_DOCKER: Final = " Or add a Dockerfile, and deploy to a cluster with the Docker engine."


class FoundToolchain(Struct, frozen=True):
    """A toolchain whose version is new enough for the application."""

    toolchain: Toolchain
    folder: Path | None = None
    """The folder of the toolchain's programs if it must come first in the PATH."""
    fetched: Path | None = None
    """The folder of a fetched toolchain. Instances cannot read it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that point to the operator's files and the toolchain's home."""


def is_installed(toolchain: Toolchain) -> bool:
    """Returns whether this machine has the toolchain's programs, in any version."""
    return bool(find_program(toolchain.program, machine_path()) or _other_homes(toolchain))


class ToolchainSearch:
    """Searches the toolchain of one build."""

    def __init__(self, tools: Tools, toolchains: Toolchains, stack: ExitStack, cwd: Path) -> None:
        """`cwd` is the folder of the application. Some programs read files there to choose their version."""
        self._tools, self._toolchains, self._held, self._cwd = tools, toolchains, stack, cwd

    async def find(self, toolchain: Toolchain, version_range: str, why: str) -> FoundToolchain:
        """Returns a toolchain that this machine has, or else a fetched one. Raises BuildError if there is
        none. `why` is the reason for the language, for the message."""
        own = _files_of_operator(toolchain, self._tools.surroundings)
        self._tools.cells.readable.extend(map(Path, own.values()))
        present = await self._present(toolchain, own)
        is_enough = present is not None and not toolchain.is_old(present, version_range)
        home = await self._other_home(toolchain, version_range, present if is_enough else None)
        if is_enough and not home:
            return FoundToolchain(toolchain, variables=own)
        if home:
            variables = {toolchain.home_variable: str(home)} if toolchain.home_variable else {}
            return FoundToolchain(toolchain, home / "bin", variables={**own, **variables})
        reason = ""
        if toolchain.wheel:
            try:
                folder = await self._fetch(toolchain, version_range)
                return FoundToolchain(
                    toolchain, folder / _WHEEL / toolchain.wheel_programs, folder / _WHEEL, own
                )
            except MissingToolchain as missing:
                reason = f" It could not be fetched: {missing}"
        raise _missing_version(toolchain, present, version_range, why, reason)

    async def _present(self, toolchain: Toolchain, version_files: Mapping[str, str]) -> str | None:
        """Returns the version of the toolchain in the PATH.

        Returns an empty string if the version does not matter, and None if there is no such program.
        """
        if not self._tools.find(toolchain.program):
            return None
        if not toolchain.version:
            return ""
        question = await subprocesses.in_thread(self._cache_key, toolchain, version_files)
        if version := self._toolchains.versions.find(question):
            return version
        answer = await self._tools.ask(toolchain.version, cwd=self._cwd, extra_variables=version_files)
        if not answer or not toolchain.numbers_in(answer):
            return None
        self._toolchains.versions.add(question, answer)
        return answer

    def _cache_key(self, toolchain: Toolchain, version_files: Mapping[str, str]) -> Hashable:
        """Returns a key of everything that can change the version that the program reports.

        Other files of the repository can change it too: rustup also reads rust-toolchain.toml in the folders
        above, and executes the program that it names. So an answer counts for builds in this folder only,
        which no other service has.
        """
        program = Path(self._tools.find(toolchain.version[0]) or "")
        facts = program.stat()
        files = [self._cwd / name for name in toolchain.version_files]
        read = tree.digest(self._cwd, [file for file in files if tree.resolve_inside(self._cwd, file)])
        told = toolchain.version, program, facts.st_ino, facts.st_mtime_ns
        return (*told, self._cwd, read, *sorted(version_files.items()))

    async def _other_home(self, toolchain: Toolchain, version_range: str, present: str | None) -> Path | None:
        """Returns the folder of another installation to use. `present`: the version in the PATH, if it is new
        enough: then only an older one is better, and only for toolchains of which the nearest is used."""
        limit = toolchain.numbers_in(present or "")
        wanted = toolchain.numbers_in(version_range)
        if limit and (not toolchain.takes_nearest or not wanted or limit[0] == wanted[0]):
            return None
        for home in _other_homes(toolchain):
            program = home / "bin" / toolchain.version[0]
            answer = await self._tools.ask([program, *toolchain.version[1:]], cwd=self._tools.home)
            if answer and not toolchain.is_old(answer, version_range):
                is_older = not limit or toolchain.numbers_in(answer) < limit
                return home if is_older else None
        return None

    async def _fetch(self, toolchain: Toolchain, version_range: str) -> Path:
        least = ".".join(map(str, toolchain.numbers_in(version_range)))
        spec = f"{toolchain.wheel}>={least}" if least else toolchain.wheel

        async def install(tools: Tools, folder: Path) -> None:
            await install_in_folder(tools, [spec], folder / _WHEEL)

        name = f"{toolchain.wheel}-{least or 'any'}"
        return await self._toolchains.fetch(name, install, self._tools, self._held)


def check_programs(commands: Iterable[str], path: list[str], reason: str) -> None:
    """Refuses commands whose first program belongs to a known language and is not installed."""
    for program in dict.fromkeys(name for command in commands for name in programs_of(command)):
        if not find_program(program, path) and (advice := advice_to_install(program, reason)):
            raise BuildError(f"{advice}{OR_DOCKER}")


def advice_to_install(program: str, reason: str) -> str:
    """Returns how to install a missing program of a known language. Returns an empty string for other
    programs."""
    for language in languages():
        if (toolchain := language.toolchain) and program in toolchain.programs:
            package = toolchain.programs[program]
            install = f"apt-get install {package}" if package else toolchain.newer
            return (
                f"Install {program} on this machine: `{install}`. {reason}, and the machine that runs "
                f"Windlass has no {program} ({toolchain.title})."
            )
    return ""


def programs_of(command: str) -> list[str]:
    """Returns the programs that a command line starts. For `env A=1 mix x && npm ci`, these are mix and
    npm."""
    programs = []
    for part in _PARTS_PATTERN.split(command):
        try:
            words = shlex.split(part)
        except ValueError:
            continue
        while words and (words[0] in ("env", "exec") or _ASSIGNMENT_PATTERN.match(words[0])):
            words.pop(0)
        programs += words[:1]
    return programs


def _files_of_operator(toolchain: Toolchain, surroundings: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that point to readable files of the operator. The default paths are below the
    home folder."""
    home = surroundings.get("HOME", "/nonexistent")
    files = {
        name: surroundings.get(name) or f"{home}/{path}" for name, path in toolchain.operator_files.items()
    }
    return {name: file for name, file in files.items() if os.access(file, os.R_OK)}


def _other_homes(toolchain: Toolchain) -> list[Path]:
    """Returns other installations of the toolchain, sorted by the version in their folder names."""
    folders = {
        folder.resolve()
        for pattern in toolchain.homes
        for folder in Path("/").glob(pattern)
        if os.access(folder / "bin" / toolchain.program, os.X_OK)
    }
    return sorted(folders, key=lambda folder: (toolchain.numbers_in(folder.name), folder.name))


def _missing_version(
    toolchain: Toolchain, installed_version: str | None, version_range: str, why: str, reason: str
) -> BuildError:
    least = ".".join(map(str, toolchain.numbers_in(version_range)))
    is_older = bool(installed_version and least) or not toolchain.package
    named = toolchain.newer.format(version=least) if is_older else ""
    command = named or f"apt-get install {toolchain.package}"
    numbers = ".".join(map(str, toolchain.numbers_in(installed_version or "")))
    has = f"{toolchain.title} {numbers}" if numbers else f"no {toolchain.title} of this version"
    newer = f" {version_range} or newer" if least else ""
    return BuildError(
        f"Install {toolchain.title}{newer} on this machine: `{command}`. {why}, and the machine that runs "
        f"Windlass has {has}.{reason}{OR_DOCKER}"
    )
