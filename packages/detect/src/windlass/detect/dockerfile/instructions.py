"""Formats Dockerfile instructions. An untrusted value cannot end its instruction or begin another one.

Commands of plain characters are written unchanged. All other commands are written in the JSON form, which
escapes line ends and special characters. Only files with plain names are copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

_PLAIN_COMMAND_PATTERN: Final = re.compile(r"[A-Za-z0-9./_~$][ -\[\]-~]*+")
"""Matches printable ASCII without backslashes, because a backslash could continue a line or escape a
character."""
_PLAIN_PATH_PATTERN: Final = re.compile(r"[A-Za-z0-9_.@+][A-Za-z0-9_./@+-]*+")
_DEBIAN_PACKAGE_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9.+-]++(?:[:=][A-Za-z0-9.+:~-]++)?")


class CacheMount(Struct, frozen=True):
    """A cache folder that persists between builds. The builder prefixes the id with the organization."""

    id: str
    target: str
    is_locked: bool = False
    """Returns whether builds use the folder one at a time, for tools that cannot share it."""

    def __str__(self) -> str:
        sharing = ",sharing=locked" if self.is_locked else ""
        return f"--mount=type=cache,id={self.id},target={self.target}{sharing}"


def is_plain_path(path: str) -> bool:
    """Returns whether an instruction can contain the path unchanged: without blanks, patterns, variables or
    options."""
    return bool(_PLAIN_PATH_PATTERN.fullmatch(path)) and ".." not in path.split("/")


def run(command: str, caches: Sequence[CacheMount] = ()) -> str:
    text = command if _is_plain(command) else json_words(("sh", "-c", command))
    return "RUN " + " \\\n    ".join([*map(str, caches), text])


def json_words(argv: Sequence[str]) -> str:
    """Returns the JSON form of a command. The result is plain ASCII, whatever characters the words
    contain."""
    return json.dumps([word.replace("\0", "").encode(errors="replace").decode() for word in argv])


def copy(paths: Sequence[str]) -> Iterator[str]:
    """Yields instructions that copy files to the same paths. Each folder has its own instruction, because
    COPY drops folder names."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    for folder, inside in folders.items():
        yield f"COPY {' '.join(inside)} ./{folder}{'/' if folder else ''}"


def env(variables: Mapping[str, str]) -> str:
    return "ENV " + " \\\n    ".join(f"{name}={value}" for name, value in variables.items())


def apt(packages: Sequence[str]) -> str:
    """Returns the instruction that installs Debian packages and deletes the package lists. Raises ValueError
    for invalid package names."""
    for package in packages:
        if not _DEBIAN_PACKAGE_PATTERN.fullmatch(package):
            raise ValueError(f"system_packages: name Debian packages: {package[:60]!r} is none.")
    listed = " \\\n        ".join(packages)
    return (
        "RUN apt-get update \\\n"
        f"    && apt-get install --yes --no-install-recommends \\\n        {listed} \\\n"
        "    && rm -rf /var/lib/apt/lists/*"
    )


def _is_plain(command: str) -> bool:
    return (
        bool(_PLAIN_COMMAND_PATTERN.fullmatch(command)) and "<<" not in command and command == command.strip()
    )
