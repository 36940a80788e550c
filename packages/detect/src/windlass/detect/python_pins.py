"""Finds the Python versions that have wheels for all pinned packages of an application, including those of
included requirements files.

With a newer Python, pip would compile these packages, which needs a compiler and fails for most old sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from windlass.detect.known_files import KnownFiles, table, text_in, texts
from windlass.detect.wheel_table import NEWEST_MINOR, WHEELS

MAX_FILES: Final = 20
REQUIREMENTS: Final = (
    "requirements.txt",
    *(
        f"requirements/{name}.txt"
        for name in ("production", "prod", "requirements", "main", "base", "common")
    ),
    "requirements-prod.txt", "requirements_prod.txt", "requirement.txt", "required.txt", "requirments.txt",
    "requirement/requirements.txt", "reqs.txt", "req.txt",
)  # fmt: skip
"""Requirements files, in order of precedence."""
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*+")
_INSTALLS_MORE_PATTERN: Final = re.compile(r"^(?:-e|--editable|\.|.*--hash)|://", re.MULTILINE)
"""Matches lines that install a project, and lines of a lock file to which pip cannot add packages."""
_INCLUDE_PATTERN: Final = re.compile(r"(?:-r|--requirement)[ \t=]*+(\S++)")


def package_name(line: str) -> str:
    """Returns the normalized name of the package in a requirement line; empty if the line contains none."""
    name = _NAME_PATTERN.match(line)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""


def missing_requirements(text: str, declared_requirements: Sequence[str]) -> list[str]:
    """Returns the project's dependencies that are missing in its requirements. Empty if nothing can be
    added."""
    if _INSTALLS_MORE_PATTERN.search(text):
        return []
    names = set(_package_names(text.splitlines()))
    return [line for line in declared_requirements if (name := package_name(line)) and name not in names]


def _package_names(lines: Iterable[str]) -> Iterator[str]:
    return (package_name(line.strip()) for line in lines)


def requirements_files(files: KnownFiles) -> Iterator[str]:
    """Yields the requirements file and the files that it includes, each once."""
    ahead = [files.has(*REQUIREMENTS) or REQUIREMENTS[0]]
    for path in ahead:
        if not files.has(path):
            continue
        yield path
        folder = path.rpartition("/")[0]
        for line in files.text(path).splitlines():
            if included := _INCLUDE_PATTERN.fullmatch(line.strip()):
                inner = f"{folder}/{included[1].removeprefix('./')}".strip("/")
                if inner not in ahead and len(ahead) < MAX_FILES:
                    ahead.append(inner)


SETUPTOOLS: Final = "setuptools<81"
_FIRST_WITHOUT_SETUPTOOLS: Final = {
    "gunicorn": (21,),
    "apscheduler": (3, 11),
    "djangorestframework-simplejwt": (5, 3),
}
"""The first version of each package that does not need pkg_resources."""
PIN: Final = re.compile(
    r"^(?:name = \")?(?P<name>[a-z][\w.-]*+)(?:\[[^\]\n]*+\])?"
    r"(?:[ \t]*+==[ \t]*+|\"\nversion = \")(?P<version>\d[\d.]*+)",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches a pin: one line of a requirements file, or two lines of a lock file of uv, Poetry or PDM."""
_OWN_SETUPTOOLS_PATTERN: Final = re.compile(r"^setuptools[ \t]*+[=~>]", re.IGNORECASE | re.MULTILINE)


def old_package_in(text: str) -> str:
    """Returns the first package in requirements or a lock file that needs an old setuptools, such as
    `gunicorn 20.1.0`. Empty if there is none, or if setuptools is pinned."""
    if _OWN_SETUPTOOLS_PATTERN.search(text):
        return ""
    for match in PIN.finditer(text):
        since = _FIRST_WITHOUT_SETUPTOOLS.get(match["name"].lower().replace("_", "-"))
        if since and version_numbers(match["version"]) < since:
            return f"{match['name']} {match['version']}"
    return ""


_COMPANION_REQUIREMENTS: Final[Mapping[str, Sequence[tuple[tuple[int, ...], Sequence[str]]]]] = {
    "flask": (
        ((2,), ("itsdangerous<2.1", "jinja2<3.1", "markupsafe<2.1", "werkzeug<2.1")),
        ((2, 3), ("werkzeug<3",)),
    ),
    "flask-login": (((0, 6, 3), ("werkzeug<3",)),),
    "flask-sqlalchemy": (((3,), ("sqlalchemy<2",)),),
    "openai": (((1, 55, 3), ("httpx<0.28",)),),
    "opencv-python": (((4, 10), ("numpy<2",)),),
    "opencv-python-headless": (((4, 10), ("numpy<2",)),),
    "pandas": (((2, 1), ("numpy<2",)),),
    "passlib": (((1, 8), ("bcrypt<5",)),),
    "streamlit": (((1, 22), ("altair<5",)),),
}
"""Packages with the versions below which they fail with the newest versions of packages that they depend on,
although they allow these, and what to install instead."""


def companions_in(text: str) -> Mapping[str, str]:
    """Returns older versions to install beside the pinned packages of requirements, which do not name them:
    each with the package that needs it, such as `Flask 2.2.2`."""
    named = set(_package_names(text.splitlines()))
    found: dict[str, str] = {}
    for match in PIN.finditer(text):
        version = version_numbers(match["version"])
        rows = _COMPANION_REQUIREMENTS.get(match["name"].lower().replace("_", "-"), ())
        for companion in next((added for limit, added in rows if version < limit), ()):
            is_new = package_name(companion) not in {*named, *map(package_name, found)}
            if is_new:
                found[companion] = f"{match['name']} {match['version']}"
    return found


def version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split(".") if part)


LOCKS: Final = ("uv.lock", "poetry.lock", "pdm.lock")
PINNING_FILES: Final = (*LOCKS, *REQUIREMENTS, "Pipfile.lock", "pyproject.toml")
_PIPFILE_LOCK: Final = "Pipfile.lock"
MAX_LOCK_BYTES: Final = 8 << 20
"""Maximum bytes of a lock file that are read."""
_OLDEST_MINOR: Final = 8
"""The oldest minor version that a range can begin with."""
_OLDER_PYTHON_MARKER_PATTERN: Final = re.compile(
    r"python(?:_full)?_version[ \t]*+(?:<=?|==)[ \t]*+['\"]3"
    r"|(?:sys_platform|platform_system|os_name)[ \t]*+==[ \t]*+['\"](?!linux|Linux|posix)"
)
"""Matches environment markers that limit a requirement to older Python versions or other systems."""


class PinnedPython(Struct, frozen=True):
    """A Python version or range, and the pinned package that excludes newer versions."""

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
    """Returns the Python versions that have wheels for all pinned packages. None if the newest Python has
    them, or if no Python has all of them."""
    minors, pins = _minors_by_package(files), {pin.package: pin for pin in _pins(files)}
    if not minors:
        return None
    oldest = max(oldest for oldest, _ in minors.values())
    package = min(minors, key=lambda name: minors[name][1])
    newest = minors[package][1]
    if newest >= NEWEST_MINOR or oldest > newest:
        return None
    first = max(oldest, _OLDEST_MINOR)
    version = f">=3.{first},<=3.{newest}" if first < newest else f"3.{newest}"
    pin = pins[package]
    return PinnedPython(version, f"{pin.name} {pin.version}", pin.file)


def _minors_by_package(files: KnownFiles) -> Mapping[str, tuple[int, int]]:
    """Returns the oldest and the newest Python minor version with a wheel, for each package. A lock file may
    pin a package several times, for different Python versions."""
    minors: dict[str, tuple[int, int]] = {}
    for pin in _pins(files):
        oldest, newest = minors_of(pin.package, pin.version)
        former = minors.get(pin.package, (oldest, newest))
        minors[pin.package] = min(oldest, former[0]), max(newest, former[1])
    return minors


def minors_of(package: str, version: str) -> tuple[int, int]:
    """Returns the oldest and the newest CPython minor version with a wheel. Unlimited if the package is
    unknown."""
    numbers, limits = version_numbers(version), (0, NEWEST_MINOR)
    for row in WHEELS.get(package, "").split():
        first, _, minors = row.partition("=")
        if version_numbers(first) > _without_zeros(numbers):
            break
        oldest, _, newest = minors.partition("-")
        limits = int(oldest), int(newest) or NEWEST_MINOR
    return limits


def _without_zeros(version_numbers: tuple[int, ...]) -> tuple[int, ...]:
    while version_numbers[-1:] == (0,):
        version_numbers = version_numbers[:-1]
    return version_numbers


def _pins(files: KnownFiles) -> Iterator[_Pin]:
    """Yields the pins in the file with the highest precedence."""
    if lock := files.has(*LOCKS):
        yield from _pins_in(files.beginning(lock, MAX_LOCK_BYTES), lock)
    elif files.has(*REQUIREMENTS):
        for path in requirements_files(files):
            yield from _pins_in(files.text(path), path)
    elif files.has(_PIPFILE_LOCK):
        yield from _pins_of_pipfile(files.beginning(_PIPFILE_LOCK, MAX_LOCK_BYTES))
    elif files.has("pyproject.toml"):
        listed = texts(files.toml("pyproject.toml"), "project", "dependencies")
        yield from _pins_in("\n".join(listed), "pyproject.toml")


def _pins_in(text: str, file: str) -> Iterator[_Pin]:
    for match in PIN.finditer(text):
        marker = text[match.end() : match.end() + 500].partition("\n")[0]
        if not _OLDER_PYTHON_MARKER_PATTERN.search(marker):
            yield _Pin(match["name"], match["version"], file)


def _pins_of_pipfile(text: str) -> Iterator[_Pin]:
    try:
        packages = table(json.loads(text), "default")
    except (ValueError, RecursionError):  # the installation reports the malformed file
        return
    for name in packages:
        version = text_in(packages, name, "version")
        if version.startswith("==") and not _OLDER_PYTHON_MARKER_PATTERN.search(
            text_in(packages, name, "markers")
        ):
            yield from _pins_in(f"{name}{version}", _PIPFILE_LOCK)
