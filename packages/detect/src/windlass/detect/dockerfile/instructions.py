"""Text of single instructions. An untrusted value can neither end its instruction nor begin another.

A command of plain characters is written as it is; any other one in the JSON form, whose escapes hold line
ends and everything else. Names of files are copied only if they are plain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

_PLAIN_COMMAND: Final = re.compile(r"[A-Za-z0-9./_~$][ -\[\]-~]*+")
"""Printable ASCII without a backslash, which could continue a line or escape something."""
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_.@+][A-Za-z0-9_./@+-]*+")
_DEBIAN: Final = re.compile(r"[a-z0-9][a-z0-9.+-]++(?:[:=][A-Za-z0-9.+:~-]++)?")


class CacheMount(Struct, frozen=True):
    """A folder that builds keep. The builder puts the organization before the id."""

    id: str
    target: str
    is_locked: bool = False
    """True for tools that cannot share the folder with another build at the same time."""

    def __str__(self) -> str:
        sharing = ",sharing=locked" if self.is_locked else ""
        return f"--mount=type=cache,id={self.id},target={self.target}{sharing}"


def is_plain_path(path: str) -> bool:
    """Returns True for names that an instruction takes as they are: no blanks, patterns, variables or
    options."""
    return bool(_PLAIN_PATH.fullmatch(path)) and ".." not in path.split("/")


def run(command: str, caches: Sequence[CacheMount] = ()) -> str:
    text = command if _is_plain(command) else json_words(("sh", "-c", command))
    return "RUN " + " \\\n    ".join([*map(str, caches), text])


def json_words(argv: Sequence[str]) -> str:
    """Returns the JSON form, which is plain ASCII whatever the words hold."""
    return json.dumps([word.replace("\0", "").encode(errors="replace").decode() for word in argv])


def copy(paths: Sequence[str]) -> Iterator[str]:
    """Copies files to where they were: an instruction for each folder, since COPY keeps no folders."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    for folder, inside in folders.items():
        yield f"COPY {' '.join(inside)} ./{folder}{'/' if folder else ''}"


def env(variables: Mapping[str, str]) -> str:
    return "ENV " + " \\\n    ".join(f"{name}={value}" for name, value in variables.items())


def apt(packages: Sequence[str]) -> str:
    """Installs Debian packages, and leaves no lists behind. Raises ValueError for other names."""
    for package in packages:
        if not _DEBIAN.fullmatch(package):
            raise ValueError(f"system_packages: name Debian packages: {package[:60]!r} is none.")
    listed = " \\\n        ".join(packages)
    return (
        "RUN apt-get update \\\n"
        f"    && apt-get install --yes --no-install-recommends \\\n        {listed} \\\n"
        "    && rm -rf /var/lib/apt/lists/*"
    )


def _is_plain(command: str) -> bool:
    return bool(_PLAIN_COMMAND.fullmatch(command)) and "<<" not in command and command == command.strip()
