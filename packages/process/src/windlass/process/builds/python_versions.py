"""Determines the Python version that a repository requires, and finds a suitable interpreter.

Interpreters that the operator has installed with uv or pyenv are not in the PATH, so their folders are
searched.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.file_names import file_names, read_beginning
from windlass.builders.builder import BuildError
from windlass.builders.small_files import read_small_text
from windlass.detect import Tree, is_in_range, plain_version
from windlass.detect.known_files import KnownFiles
from windlass.detect.python_pins import PINNING_FILES, python_of_pins
from windlass.process.builds.pip import find_pip, own_python
from windlass.process.builds.python_managers import UV, find_program
from windlass.process.builds.toolchains import MissingToolchain, Toolchains
from windlass.process.builds.tools import Tools

_INSTALL_FOLDERS: Final = (
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "cpython-3.*"),
    ("PYENV_ROOT", ".pyenv", "versions/3.*"),
)
"""For each tool: a variable with its folder, the default folder below the operator's home, and a pattern of
the Python folders in it."""
_NAME_PATTERN: Final = re.compile(r"(?:cpython-)?(?P<minor>3\.\d+)\.(?P<patch>\d+)(?:-|$)")


def installed_pythons(surroundings: Mapping[str, str]) -> dict[str, Path]:
    """Returns the interpreter with the newest patch for each minor version, such as 3.13."""
    programs = sorted(_programs(surroundings))
    return {minor: program for _, minor, program in programs}


def _programs(surroundings: Mapping[str, str]) -> Iterator[tuple[int, str, Path]]:
    """Yields the patch number, the minor version and the interpreter of each installation."""
    home = surroundings.get("HOME", "/nonexistent")
    for variable, below, pattern in _INSTALL_FOLDERS:
        for folder in Path(surroundings.get(variable) or f"{home}/{below}").glob(pattern):
            match = _NAME_PATTERN.match(folder.name)
            program = folder / "bin" / f"python{match['minor']}" if match else folder
            if match and os.access(program, os.X_OK):
                yield int(match["patch"]), match["minor"], program


VERSION_FILES: Final = (".python-version", "runtime.txt")
NEWEST_MINOR, OLDEST_MINOR = 15, 9
"""The minor versions that are searched for on this machine."""
DEFAULT_MINOR: Final = 13
"""The newest minor version that is used if the repository names none, as in images. Newer ones are used once
most packages have wheels for them."""
FETCHED_MINORS: Final = (13, 12, 11, 10, 14, 9)
"""The minor versions that can be fetched for a range, in order of preference."""
_PIPFILE_PATTERN: Final = re.compile(
    r"^python(?:_full)?_version[ \t]*+=[ \t]*+['\"](\d[\d.]{0,12})['\"]", re.MULTILINE
)
_LOCKS: Final = (
    ("uv.lock", re.compile(r"^requires-python = \"([^\"\n]{1,80})\"", re.MULTILINE)),
    ("pylock.toml", re.compile(r"^requires-python = \"([^\"\n]{1,80})\"", re.MULTILINE)),
    ("Pipfile.lock", re.compile(r"\"python_(?:full_)?version\": \"(\d[\d.]{0,12})\"")),
)
_MAX_FILE_LENGTH: Final = 100_000
_PLACE_SCRIPT: Final = (
    'for found in "$1"/pythons/*/bin/python"$2"; do mv "${found%/bin/*}" "$1/python"; exit 0; done; exit 1'
)
"""Shell command that moves the fetched Python to a path without its version."""
_FORBIDDING_VALUES: Final = frozenset({"never", "manual", "false"})


_IGNORED_RELEASE_PATTERN: Final = re.compile(r"([\w.!+]{1,40}) Requires-Python ([^;\n]{1,80})")
"""Matches a version of a package that pip ignores, because it requires another Python."""
_NOT_FOUND_PATTERN: Final = re.compile(
    r"No matching distribution found for ([\w.-]{1,100})(?:\[[^\]\n]{0,200}\])?([^\s;]{0,80})"
)
_REFUSED_PACKAGE_PATTERN: Final = re.compile(
    r"Package '([^']{1,100})' requires a different Python: \S{1,40} not in '([^']{1,80})'"
    r"|depends on Python([<>=!~][^\s]{1,40}?),? "
)


class PythonRequirement(Struct, frozen=True):
    """A version or a range of versions, and the file that requires it."""

    version: str = ""
    named_by: str = ""
    is_strict: bool = False
    """Whether the installation fails with any other version."""

    def holds(self, version: str) -> bool:
        return not self.version or is_in_range(version, self.minor or self.version)

    @property
    def minor(self) -> str:
        """The first two numbers of an exact version, or an empty string for a range."""
        return ".".join(plain_version(self.version).split(".")[:2])


class Interpreter(Struct, frozen=True):
    path: str
    version: str
    """A full version such as 3.11.7."""
    programs: Path | None = None
    """The folder of the interpreter's programs if it is not in the PATH."""
    fetched: Path | None = None
    """The folder of a fetched Python, with its programs in `bin`. None for a Python of this machine."""
    complaint: str = ""
    """A message with the remedy if the repository requires another version than this one."""


def wanted_in(folder: Path, pyproject: dict[str, Any]) -> PythonRequirement:
    """Returns the required Python version.

    The sources in order of priority: .python-version, runtime.txt, .tool-versions, Pipfile, pyproject.toml,
    and the versions for which all pinned packages have wheels.
    """
    for name in VERSION_FILES:
        if version := _first_line(folder / name).removeprefix("python-"):
            return PythonRequirement(version, name) if plain_version(version) else PythonRequirement()
    for line in _text(folder / ".tool-versions").splitlines():
        match line.split():
            case ["python", version, *_] if plain_version(version):
                return PythonRequirement(version, ".tool-versions")
    if named := _PIPFILE_PATTERN.search(_text(folder / "Pipfile")[:_MAX_FILE_LENGTH]):
        return PythonRequirement(named[1], "Pipfile")
    return required_in(pyproject) or _of_lock(folder) or _of_pins(folder) or PythonRequirement()


def _of_lock(folder: Path) -> PythonRequirement | None:
    """Returns the Python version for which a lock file was made."""
    for name, pattern in _LOCKS:
        if (folder / name).is_file():
            beginning = read_beginning(folder, name, _MAX_FILE_LENGTH).decode(errors="replace")
            if named := pattern.search(beginning):
                return PythonRequirement(named[1], name)
    return None


def _of_pins(folder: Path) -> PythonRequirement | None:
    if not any((folder / name).is_file() for name in PINNING_FILES):
        return None
    pinned = python_of_pins(KnownFiles(Tree(file_names(folder), partial(read_beginning, folder))))
    return PythonRequirement(pinned.version, f"{pinned.pin} in {pinned.file}") if pinned else None


def required_in(pyproject: dict[str, Any]) -> PythonRequirement | None:
    """Returns the version range that pyproject.toml requires."""
    project, tools = pyproject.get("project"), pyproject.get("tool")
    required = project.get("requires-python") if isinstance(project, dict) else None
    if not isinstance(required, str):
        poetry = tools.get("poetry") if isinstance(tools, dict) else None
        named = poetry.get("dependencies") if isinstance(poetry, dict) else None
        required = named.get("python") if isinstance(named, dict) else None
    return (
        PythonRequirement(required, "pyproject.toml", is_strict=True) if isinstance(required, str) else None
    )


def required_by_packages(lines: Sequence[str], requirement: PythonRequirement) -> tuple[str, str] | None:
    """Returns a Python version that the packages accept, and the package that requires it.

    Reads them from the output of a failed installation. Returns None if it names no required version, or if
    the repository excludes this version.
    """
    found = _ranges_in("\n".join(lines))
    if found is None or requirement.minor:
        return None
    ranges, package = found
    for minor in FETCHED_MINORS:
        full = f"3.{minor}.999"
        if requirement.holds(full) and all(is_in_range(full, accepted) for accepted in ranges):
            return f"3.{minor}", package
    return None


def _ranges_in(text: str) -> tuple[list[str], str] | None:
    """Returns the ranges of Python versions that a package accepts, and the package."""
    if refused := _REFUSED_PACKAGE_PATTERN.search(text):
        return [refused[2] or refused[3]], refused[1] or "a package"
    missing = _NOT_FOUND_PATTERN.search(text)
    if missing is None:
        return None
    package, asked = missing[1], missing[2]
    fitting = [
        match[2].strip()
        for match in _IGNORED_RELEASE_PATTERN.finditer(text)
        if not asked or is_in_range(match[1], asked.replace("===", "=="))
    ]
    return (fitting[-1:], f"the package {package}") if fitting else None


def _first_line(file: Path) -> str:
    lines = (line.strip() for line in _text(file)[:200].splitlines())
    return next((line for line in lines if line and not line.startswith("#")), "")


def _text(file: Path) -> str:
    return read_small_text(file) if file.is_file() else ""


async def find_python(
    tools: Tools,
    toolchains: Toolchains,
    stack: ExitStack,
    requirement: PythonRequirement,
    *,
    use_newest: bool = True,
) -> Interpreter:
    """Returns a Python in the wanted range: the Python that runs Windlass, another Python of this machine, or
    a fetched Python. With `use_newest`, returns the newest Python of this machine in the range, up to the
    default version: this starts several programs.

    If there is none, returns the nearest version on this machine. Raises BuildError if the requirement is
    strict.
    """
    own = Interpreter(own_python(), ".".join(map(str, sys.version_info[:3])))
    if use_newest and not requirement.minor and (newer := await _newer(tools, own, requirement)):
        return newer
    if requirement.holds(own.version):
        return own
    for minor in (
        [requirement.minor]
        if requirement.minor
        else [f"3.{minor}" for minor in range(NEWEST_MINOR, OLDEST_MINOR - 1, -1)]
    ):
        if requirement.holds(f"{minor}.999") and (present := await _find(tools, minor)):
            return present
    try:
        return await _fetch(tools, toolchains, stack, requirement)
    except BuildError as missing:
        nearest = await _nearest(tools, own, requirement)
        return _fallback(nearest, requirement, missing)


async def _newer(
    tools: Tools, windlass_python: Interpreter, requirement: PythonRequirement
) -> Interpreter | None:
    for number in range(DEFAULT_MINOR, _minor_number(windlass_python.version), -1):
        if requirement.holds(f"3.{number}.999") and (present := await _find(tools, f"3.{number}")):
            return present
    return None


async def _find(tools: Tools, minor: str) -> Interpreter | None:
    path = tools.find(f"python{minor}")
    if path and (present := await _inspect(tools, path, minor)):
        return present
    program = installed_pythons(tools.surroundings).get(minor)
    if program is None:
        return None
    tools.cells.readable.append(program.parent.parent)
    present = await _inspect(tools, str(program), minor)
    return (
        replace(present, programs=program.parent) if present and await _can_install(tools, program) else None
    )


async def _can_install(tools: Tools, program: Path) -> bool:
    """Returns whether the pip that would install packages supports this Python, which may be too old."""
    pip = await find_pip(tools, str(program))
    return pip is None or bool(await tools.ask_once([*pip, "--python", program, "--version"], program))


async def _nearest(tools: Tools, windlass_python: Interpreter, requirement: PythonRequirement) -> Interpreter:
    """Returns the Python of this machine with the version nearest to the wanted one."""
    aim, ours = _minor_number(requirement.minor), _minor_number(windlass_python.version)
    if requirement.is_strict or not aim:
        return windlass_python
    nearer = (
        number for number in range(OLDEST_MINOR, NEWEST_MINOR + 1) if abs(number - aim) < abs(ours - aim)
    )
    for number in sorted(nearer, key=lambda number: abs(number - aim)):
        if present := await _find(tools, f"3.{number}"):
            return present
    return windlass_python


def _minor_number(version: str) -> int:
    """Returns the minor version as a number, such as 13 for 3.13.2, or 0 if the version has another form."""
    parts = version.split(".")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0


async def _inspect(tools: Tools, path: str, minor: str) -> Interpreter | None:
    words: list[str | Path] = [path, "-c", "import platform, venv; print(platform.python_version())"]
    answer = (await tools.ask_once(words, path) or "").strip()
    return Interpreter(path, answer) if answer.startswith(f"{minor}.") else None


async def _fetch(
    tools: Tools, toolchains: Toolchains, stack: ExitStack, requirement: PythonRequirement
) -> Interpreter:
    chosen = tools.surroundings.get("UV_PYTHON_DOWNLOADS", "").lower()
    if chosen in _FORBIDDING_VALUES:
        raise MissingToolchain(f"UV_PYTHON_DOWNLOADS is {chosen}.")
    toolchains.check_allowed()
    minor = requirement.minor or _first_in(requirement)
    uv = await find_program(UV, tools, toolchains, stack)
    folder = await toolchains.fetch(f"python-{minor}", partial(_install_python, uv, minor), tools, stack)
    present = await _inspect(tools, str(folder / "python" / "bin" / f"python{minor}"), minor)
    if present is None:
        raise MissingToolchain(f"uv fetched no working Python {minor}.")
    tools.say(f"Python {present.version} is used, as {requirement.named_by} asks.")
    return replace(present, fetched=folder / "python")


def _first_in(requirement: PythonRequirement) -> str:
    """Returns the preferred minor version in a range, to fetch it."""
    for minor in FETCHED_MINORS:
        if requirement.holds(f"3.{minor}.999"):
            return f"3.{minor}"
    raise MissingToolchain(
        f"no Python from 3.{min(FETCHED_MINORS)} to 3.{max(FETCHED_MINORS)} is in this range."
    )


async def _install_python(uv: Path, minor: str, tools: Tools, folder: Path) -> None:
    more = {"UV_PYTHON_INSTALL_DIR": str(folder / "pythons"), "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "30"}
    words: list[str | Path] = [uv, "python", "install", "--no-bin", minor]
    await tools.run(words, cwd=folder, extra_variables=more, title=f"uv python install {minor}")
    await tools.run(["/bin/sh", "-c", _PLACE_SCRIPT, "sh", folder, minor], cwd=folder, title="sh")


def _fallback(
    windlass_python: Interpreter, requirement: PythonRequirement, toolchain_error: BuildError
) -> Interpreter:
    version = requirement.minor or requirement.version
    command = (
        f"`uv python install {requirement.minor}`"
        if requirement.minor
        else "with uv or the system's packages"
    )
    advice = (
        f"Install Python {version} on the machine that runs Windlass ({command}): {requirement.named_by} "
        f"asks for it, and Python {windlass_python.version} is there"
    )
    if requirement.is_strict:
        raise BuildError(f"{advice}. It could not be fetched: {toolchain_error}") from toolchain_error
    return replace(windlass_python, complaint=f"{advice}.")
