"""Finds the Python versions with wheels for every package that an application pins, in its requirements
files and those that they include.

A newer Python would compile these packages, which needs a compiler and fails for most old sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from windlass.detect.known_files import KnownFiles, table, text_in, texts
from windlass.detect.wheel_table import NEWEST, WHEELS

MOST_FILES: Final = 20
REQUIREMENTS: Final = (
    "requirements.txt",
    *(
        f"requirements/{name}.txt"
        for name in ("production", "prod", "requirements", "main", "base", "common")
    ),
)
"""Files of requirements, the first choice first."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*+")
_INSTALLS_MORE: Final = re.compile(r"^(?:-e|--editable|\.|.*--hash)|://", re.MULTILINE)
"""Matches lines that install a project, or a lock file to which pip adds nothing."""
_INCLUDE: Final = re.compile(r"(?:-r|--requirement)[ \t=]*+(\S++)")


def package_name(line: str) -> str:
    """Returns the name of the package that a line names, in its usual form; empty if it names none."""
    name = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""


def missing_requirements(text: str, declared: Sequence[str]) -> list[str]:
    """Returns the dependencies of a project that its requirements do not name, if they can be added."""
    if _INSTALLS_MORE.search(text):
        return []
    names = set(_names(text.splitlines()))
    return [line for line in declared if (name := package_name(line)) and name not in names]


def _names(lines: Iterable[str]) -> Iterator[str]:
    return (package_name(line.strip()) for line in lines)


def requirements_files(files: KnownFiles) -> Iterator[str]:
    """Yields the requirements file, and those that it includes, each once."""
    ahead = [files.has(*REQUIREMENTS) or REQUIREMENTS[0]]
    for path in ahead:
        if not files.has(path):
            continue
        yield path
        folder = path.rpartition("/")[0]
        for line in files.text(path).splitlines():
            if included := _INCLUDE.fullmatch(line.strip()):
                inner = f"{folder}/{included[1].removeprefix('./')}".strip("/")
                if inner not in ahead and len(ahead) < MOST_FILES:
                    ahead.append(inner)


SETUPTOOLS: Final = "setuptools<81"
_WITHOUT_SINCE: Final = {"gunicorn": (21,), "apscheduler": (3, 11), "djangorestframework-simplejwt": (5, 3)}
"""The first version of each that does without pkg_resources."""
PIN: Final = re.compile(
    r"^(?:name = \")?(?P<name>[a-z][\w.-]*+)(?:\[[^\]\n]*+\])?"
    r"(?:[ \t]*+==[ \t]*+|\"\nversion = \")(?P<version>\d[\d.]*+)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of requirements, or two lines of a lock of uv, Poetry or PDM."""
_OWN_SETUPTOOLS: Final = re.compile(r"^setuptools[ \t]*+[=~>]", re.IGNORECASE | re.MULTILINE)


def old_package_in(text: str) -> str:
    """Returns the first package of requirements or a lock that needs an old setuptools, such as `gunicorn
    20.1.0`. Empty if there is none, or if the requirements choose a setuptools themselves."""
    if _OWN_SETUPTOOLS.search(text):
        return ""
    for match in PIN.finditer(text):
        since = _WITHOUT_SINCE.get(match["name"].lower().replace("_", "-"))
        if since and version_numbers(match["version"]) < since:
            return f"{match['name']} {match['version']}"
    return ""


def version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split(".") if part)


LOCKS: Final = ("uv.lock", "poetry.lock", "pdm.lock")
PINNING_FILES: Final = (*LOCKS, *REQUIREMENTS, "Pipfile.lock", "pyproject.toml")
_PIPFILE: Final = "Pipfile.lock"
MOST_OF_LOCK: Final = 8 << 20
"""Bytes of a lock that are read."""
_OLDEST: Final = 8
"""The oldest minor version that a range names."""
_ELSEWHERE: Final = re.compile(
    r"python(?:_full)?_version[ \t]*+(?:<=?|==)[ \t]*+['\"]3"
    r"|(?:sys_platform|platform_system|os_name)[ \t]*+==[ \t]*+['\"](?!linux|Linux|posix)"
)
"""Matches markers of requirements for older Pythons or other systems."""


class PinnedPython(Struct, frozen=True):
    """A range of Pythons, or one, and the pin that keeps newer ones out."""

    version: str
    pin: str
    """The package and its version, such as `numpy 1.24.0`."""
    file: str

    @property
    def reason(self) -> str:
        return f"{self.pin} in {self.file} has wheels for no newer Python."


class _Pin(Struct, frozen=True):
    name: str
    version: str
    file: str

    @property
    def package(self) -> str:
        return re.sub(r"[-_.]+", "-", self.name).lower()


def python_of_pins(files: KnownFiles) -> PinnedPython | None:
    """Returns the Pythons that have wheels of all pins. None if the newest Python has them, or if none has
    them all."""
    minors, pins = _minors_by_package(files), {pin.package: pin for pin in _pins(files)}
    if not minors:
        return None
    oldest = max(oldest for oldest, _ in minors.values())
    package = min(minors, key=lambda name: minors[name][1])
    newest = minors[package][1]
    if newest >= NEWEST or oldest > newest:
        return None
    first = max(oldest, _OLDEST)
    version = f">=3.{first},<=3.{newest}" if first < newest else f"3.{newest}"
    pin = pins[package]
    return PinnedPython(version, f"{pin.name} {pin.version}", pin.file)


def _minors_by_package(files: KnownFiles) -> Mapping[str, tuple[int, int]]:
    """Returns the oldest and the newest minor version with a wheel of each package. A lock may pin a package
    more than once, for several Pythons."""
    minors: dict[str, tuple[int, int]] = {}
    for pin in _pins(files):
        oldest, newest = minors_of(pin.package, pin.version)
        former = minors.get(pin.package, (oldest, newest))
        minors[pin.package] = min(oldest, former[0]), max(newest, former[1])
    return minors


def minors_of(package: str, version: str) -> tuple[int, int]:
    """Returns the oldest and the newest minor version of CPython with a wheel, as far as they are limited."""
    numbers, limits = version_numbers(version), (0, NEWEST)
    for row in WHEELS.get(package, "").split():
        first, _, minors = row.partition("=")
        if version_numbers(first) > _without_zeros(numbers):
            break
        oldest, _, newest = minors.partition("-")
        limits = int(oldest), int(newest) or NEWEST
    return limits


def _without_zeros(numbers: tuple[int, ...]) -> tuple[int, ...]:
    while numbers[-1:] == (0,):
        numbers = numbers[:-1]
    return numbers


def _pins(files: KnownFiles) -> Iterator[_Pin]:
    """Yields the pins of the file that decides what is installed."""
    if lock := files.has(*LOCKS):
        yield from _pins_in(files.beginning(lock, MOST_OF_LOCK), lock)
    elif files.has(*REQUIREMENTS):
        for path in requirements_files(files):
            yield from _pins_in(files.text(path), path)
    elif files.has(_PIPFILE):
        yield from _pins_of_pipfile(files.beginning(_PIPFILE, MOST_OF_LOCK))
    elif files.has("pyproject.toml"):
        listed = texts(files.toml("pyproject.toml"), "project", "dependencies")
        yield from _pins_in("\n".join(listed), "pyproject.toml")


def _pins_in(text: str, file: str) -> Iterator[_Pin]:
    for match in PIN.finditer(text):
        marker = text[match.end() : match.end() + 500].partition("\n")[0]
        if not _ELSEWHERE.search(marker):
            yield _Pin(match["name"], match["version"], file)


def _pins_of_pipfile(text: str) -> Iterator[_Pin]:
    try:
        packages = table(json.loads(text), "default")
    except (ValueError, RecursionError):  # the installation says so
        return
    for name in packages:
        version = text_in(packages, name, "version")
        if version.startswith("==") and not _ELSEWHERE.search(text_in(packages, name, "markers")):
            yield from _pins_in(f"{name}{version}", _PIPFILE)
