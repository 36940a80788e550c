"""Applies a .dockerignore file with Docker's rules: the last matching pattern decides."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

DOCKERIGNORE: Final = ".dockerignore"
MAX_PATTERNS: Final = 1000
"""The maximum number of patterns in a file."""
MAX_FILE_BYTES: Final = 256 * 1024
"""The maximum size of a file, in bytes."""


class TooLong(ValueError):
    """Reports that a .dockerignore is too long. The message says what to do."""


Part = re.Pattern[str] | None
"""A segment of a pattern between two slashes. None stands for `**`."""


class Pattern(Struct, frozen=True):
    parts: tuple[Part, ...]
    keeps: bool = False
    """Whether the pattern begins with `!`, and so re-includes paths that earlier patterns ignore."""


class Ignore(Struct, frozen=True):
    patterns: tuple[Pattern, ...] = ()

    def __call__(self, path: PurePosixPath) -> bool:
        """Returns whether a path, relative to the file's folder, is ignored. Everything below an ignored
        folder is ignored, unless a later pattern re-includes it."""
        ignored = False
        for pattern in self.patterns:
            if pattern.keeps == ignored and _matches_path_or_parent(path.parts, pattern.parts):
                ignored = not pattern.keeps
        return ignored

    @property
    def length(self) -> int:
        """The number of segments in all patterns. It bounds the work to match one path."""
        return sum(len(pattern.parts) for pattern in self.patterns)

    @property
    def prunes(self) -> bool:
        """Whether no pattern can re-include a path below an ignored folder."""
        return not any(pattern.keeps for pattern in self.patterns)


def read(text: str) -> Ignore:
    lines = map(str.strip, text.removeprefix("\ufeff").splitlines())
    rules = (line for line in lines if line and not line.startswith("#"))
    return Ignore(tuple(filter(None, map(_parse_pattern, rules))))


def read_for_dockerfile(root: Path, dockerfile: PurePosixPath | None = None) -> Ignore:
    """Reads the .dockerignore of a folder. A file named after the Dockerfile has priority.

    Raises TooLong if the file is too long: its beginning alone would not exclude all files.
    """
    names = [f"{dockerfile}.dockerignore"] if dockerfile else []
    for name in (*names, DOCKERIGNORE):
        file = root / name
        if file.is_file() and not file.is_symlink():
            return _read_file(file, name)
    return Ignore()


def _read_file(file: Path, name: str) -> Ignore:
    with file.open("rb") as opened:
        content = opened.read(MAX_FILE_BYTES + 1)
    ignore = read(content.decode(errors="replace"))
    if len(content) > MAX_FILE_BYTES:
        raise TooLong(f"Shorten {name} to {MAX_FILE_BYTES // 1024} KiB: it is longer")
    if len(ignore.patterns) > MAX_PATTERNS:
        raise TooLong(f"Shorten {name} to {MAX_PATTERNS} patterns: it has {len(ignore.patterns)}")
    return ignore


def _parse_pattern(line: str) -> Pattern | None:
    keeps = line.startswith("!")
    parts: list[str] = []
    for part in line.removeprefix("!").strip().split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    # Two consecutive `**` mean the same as one, but take much longer to match.
    parts = [part for place, part in enumerate(parts) if parts[place : place + 2] != ["**", "**"]]
    return Pattern(tuple(map(_compiled_part, parts)), keeps) if parts else None


def _compiled_part(text: str) -> Part:
    return None if text == "**" else _compile_glob(text)


def _matches_path_or_parent(path: Sequence[str], pattern: Sequence[Part]) -> bool:
    """Returns whether a pattern matches a path or one of its parent folders.

    `here` contains the indexes of the pattern segments that may match next.
    """
    here = _add_indexes_after_stars([0], pattern)
    for name in path:
        here = _add_indexes_after_stars([*_find_following(here, pattern, name)], pattern)
        if not here or len(pattern) in here:
            return bool(here)
    return False


def _find_following(indexes: Collection[int], pattern: Sequence[Part], name: str) -> Iterator[int]:
    for at in indexes:
        if at == len(pattern):
            continue
        if (part := pattern[at]) is None:
            yield at
        elif part.match(name):
            yield at + 1


def _add_indexes_after_stars(indexes: list[int], pattern: Sequence[Part]) -> Collection[int]:
    """Adds the indexes after each `**`, because `**` also matches nothing."""
    further = [at + 1 for at in indexes if at < len(pattern) and pattern[at] is None]
    if not further:
        return indexes
    places = {*indexes}
    for at in further:
        places.add(at)
        while at < len(pattern) and pattern[at] is None:
            at += 1
            places.add(at)
    return places


@lru_cache(maxsize=MAX_PATTERNS)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    # fnmatch has no escapes, and writes `[!a]` for `[^a]`. Its expressions never backtrack over a star.
    plain = re.sub(r"\\(.)", lambda match: f"[{match[1]}]", pattern.replace("[^", "[!"))
    return re.compile(fnmatch.translate(plain))
