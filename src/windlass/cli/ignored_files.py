"""Rules of .gitignore, .dockerignore and .windlassignore: which files of a folder are not uploaded.

A rule of .windlassignore wins over those of .gitignore, also one with `!` that brings a file back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

NEVER: Final = frozenset(
    [".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__", ".DS_Store", ".env", ".env.local"]
)
"""Names that are always left out: histories, fetched packages, and secrets of this machine."""
_LOCAL_SECRETS: Final = re.compile(r"\.env\..+\.local")
_KEPT_FOR_DOCKER: Final = ("Dockerfile", ".dockerignore")


class IgnoreRule(Struct, frozen=True):
    """One line of an ignore file."""

    pattern: str
    """A regular expression for the whole path, relative to the uploaded folder."""
    brings_back: bool = False
    folders_only: bool = False

    def matches(self, path: str, is_folder: bool) -> bool:
        return (is_folder or not self.folders_only) and _compile(self.pattern).fullmatch(path) is not None


def git_rules(text: str, folder: str = "") -> list[IgnoreRule]:
    """Returns the rules of a .gitignore in this folder (`a/b/`, or empty for the top)."""
    return [rule for line in text.splitlines() if (rule := _git_rule(line, re.escape(folder)))]


def docker_rules(text: str) -> list[IgnoreRule]:
    """Returns the rules of a .dockerignore. All of its patterns begin at the top."""
    lines = (line.strip() for line in text.splitlines())
    return [_docker_rule(line) for line in lines if line and not line.startswith("#")]


def is_ignored(rules: Sequence[IgnoreRule], path: str, is_folder: bool) -> bool:
    """True if the last rule that matches a path leaves it out."""
    last = next((rule for rule in reversed(rules) if rule.matches(path, is_folder)), None)
    return last is not None and not last.brings_back


def is_ignored_for_docker(rules: Sequence[IgnoreRule], path: str) -> bool:
    """True if a file is not for docker: by the last rule for it or for a folder that it is in."""
    if not rules or path.rpartition("/")[2].startswith(_KEPT_FOR_DOCKER):
        return False
    parts = path.split("/")
    paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    last = next((rule for rule in reversed(rules) if any(rule.matches(part, True) for part in paths)), None)
    return last is not None and not last.brings_back


def is_never_uploaded(name: str) -> bool:
    return name in NEVER or _LOCAL_SECRETS.fullmatch(name) is not None


def brings_back(rules: Iterable[IgnoreRule]) -> bool:
    return any(rule.brings_back for rule in rules)


def _git_rule(line: str, folder: str) -> IgnoreRule | None:
    line = re.sub(r"(?<!\\) +$", "", line.rstrip("\r"))
    if not line or line.startswith("#"):
        return None
    back = line.startswith("!")
    line = line[1:] if back else line
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    begins_here = "/" in line
    anywhere = "" if begins_here else r"(?:.+/)?"
    return IgnoreRule(folder + anywhere + _expression(line.lstrip("/")), back, folders_only)


def _docker_rule(line: str) -> IgnoreRule:
    back = line.startswith("!")
    path = (line[1:] if back else line).strip().strip("/").removeprefix("./")
    return IgnoreRule(_expression(path or "."), back)


def _expression(glob: str) -> str:
    """Translates a pattern with *, **, ? and [] to a regular expression."""
    parts, place = [], 0
    while place < len(glob):
        rest = glob[place:]
        if rest.startswith("**/"):
            parts.append(r"(?:.+/)?")
            place += 3
        elif rest == "**" and (not parts or parts[-1] == "/"):
            parts.append(r".+")
            place += 2
        elif rest[0] == "*":
            stars = len(rest) - len(rest.lstrip("*"))
            parts.append(r"[^/]*")
            place += stars
        elif rest[0] == "?":
            parts.append(r"[^/]")
            place += 1
        elif rest[0] == "[" and (inner := re.match(r"\[([!^]?)(\]?[^\]/]*)\]", rest)):
            parts.append(_class_of(inner[1], inner[2]))
            place += inner.end()
        else:
            escaped = rest[0] == "\\" and len(rest) > 1
            letter = rest[1] if escaped else rest[0]
            parts.append("/" if letter == "/" else re.escape(letter))
            place += 2 if escaped else 1
    return "".join(parts)


def _class_of(negation: str, letters: str) -> str:
    inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", letters)
    return f"[{'^' if negation else ''}{inside}]"


@lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error:
        return re.compile(r"(?!)")  # git, too, lets a pattern that is none match nothing
