"""Files of requirements of Python: their usual places, and those that they include."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from windlass.detect.known_files import KnownFiles

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
"""Lines that install a project, or a lock to which pip adds nothing."""
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
