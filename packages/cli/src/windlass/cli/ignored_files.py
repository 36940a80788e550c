"""Rules of .gitignore and .windlassignore, and the files that .dockerignore cannot exclude.

Rules of .windlassignore override rules of .gitignore. A rule with `!` includes a file again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from windlass.base.dockerignore import DOCKERIGNORE, Ignore

NEVER_UPLOADED: Final = frozenset(
    [".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__", ".DS_Store", ".env", ".env.local"]
)
"""Names that are never uploaded: version histories, installed packages, and secrets of this machine."""
_LOCAL_SECRETS_PATTERN: Final = re.compile(r"\.env\..+\.local")
_ANY_FOLDERS_PATTERN: Final = "(?:[^/]+/)*"
_UPLOADED_FOR_DOCKER: Final = ("Dockerfile", DOCKERIGNORE)


class IgnoreRule(Struct, frozen=True):
    """One line of an ignore file."""

    pattern: str
    """A regular expression for the whole path, relative to the uploaded folder."""
    brings_back: bool = False
    folders_only: bool = False

    def matches(self, path: str, is_folder: bool) -> bool:
        return (is_folder or not self.folders_only) and _compile(self.pattern).fullmatch(path) is not None


def git_rules(text: str, folder: str = "") -> list[IgnoreRule]:
    """Parses a .gitignore. `folder`: the folder that contains the file (`a/b/`; empty for the top folder)."""
    return [rule for line in text.splitlines() if (rule := _git_rule(line, re.escape(folder)))]


def is_ignored(rules: Sequence[IgnoreRule], path: str, is_folder: bool) -> bool:
    """Returns whether a path is ignored. The last matching rule decides."""
    last = next((rule for rule in reversed(rules) if rule.matches(path, is_folder)), None)
    return last is not None and not last.brings_back


def is_ignored_for_docker(ignore: Ignore, path: PurePosixPath) -> bool:
    """Returns whether a .dockerignore excludes a file. Dockerfiles and .dockerignore files are never
    excluded."""
    return not path.name.startswith(_UPLOADED_FOR_DOCKER) and ignore(path)


def is_never_uploaded(name: str) -> bool:
    return name in NEVER_UPLOADED or _LOCAL_SECRETS_PATTERN.fullmatch(name) is not None


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
    anywhere = "" if begins_here else _ANY_FOLDERS_PATTERN
    return IgnoreRule(folder + anywhere + _expression(line.lstrip("/")), back, folders_only)


def _expression(glob: str) -> str:
    """Translates a pattern with *, **, ? and [] to a regular expression that backtracks only into the last
    star.

    For the other stars, the first match is sufficient, because it leaves the longest rest.
    """
    *parts, last = glob.replace("\\/", "/").split("/")
    text, block, floats = "", "", False
    for part in parts:
        if part != "**":
            block += f"{_segment_pattern(part)}/"
            continue
        text += f"(?>{_ANY_FOLDERS_PATTERN}?{block})" if floats and block else block
        block, floats = "", True
    if last == "**":
        return text + (f"(?>{_ANY_FOLDERS_PATTERN}?{block})" if floats and block else block) + "(?s:.+)"
    return text + (_ANY_FOLDERS_PATTERN if floats else "") + block + _segment_pattern(last)


def _segment_pattern(glob: str) -> str:
    """Translates the part of a pattern between two slashes."""
    pieces = [""]
    place = 0
    while place < len(glob):
        rest = glob[place:]
        if rest[0] == "*":
            place += len(rest) - len(rest.lstrip("*"))
            pieces.append("")
        elif rest[0] == "?":
            pieces[-1] += r"[^/]"
            place += 1
        elif rest[0] == "[" and (inner := re.match(r"\[([!^]?)(\]?[^\]/]*)\]", rest)):
            pieces[-1] += _character_class(inner[1], inner[2])
            place += inner.end()
        else:
            escaped = rest[0] == "\\" and len(rest) > 1
            pieces[-1] += re.escape(rest[1] if escaped else rest[0])
            place += 2 if escaped else 1
    first, *others = pieces
    between = [f"(?>[^/]*?{piece})" for piece in others[:-1]]
    return "".join([first, *between, *(f"[^/]*{piece}" for piece in others[-1:])])


def _character_class(negation: str, letters: str) -> str:
    inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", letters)
    return f"[{'^' if negation else ''}{inside}]"


@lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error:
        return re.compile(r"(?!)")  # an invalid pattern matches nothing, as in git
