"""Files of requirements of Python: their usual places, and those that they include."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from windlass.core.detect.known_files import KnownFiles

MOST_FILES: Final = 20
REQUIREMENTS: Final = (
    "requirements.txt",
    *(
        f"requirements/{name}.txt"
        for name in ("production", "prod", "requirements", "main", "base", "common")
    ),
)
"""Files of requirements, the first choice first."""
_INCLUDE: Final = re.compile(r"(?:-r|--requirement)[ \t=]*+(\S++)")


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
