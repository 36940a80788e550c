"""Reads requirements files: the lines for pip, the included files, and the paths in the lines.

`python` decides what is installed and installs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from windlass.builders.builder import BuildError, Say
from windlass.builders.small_files import MAX_FILE_BYTES, read_small_text
from windlass.process.builds import tree

MAX_DEPTH: Final = 20
MAX_FILES: Final = 1000
"""Maximum number of files that are read. A file counts each time that it is included, because few files can
include each other so often that their lines fill the memory."""
MAX_LENGTH: Final = MAX_FILE_BYTES
"""Maximum number of characters of all these files together."""

_INCLUDE_PATTERN = re.compile(r"(?:-r\s*|--requirement(?:s)?[=\s]\s*)(?P<path>\S+)\s*(?:#.*)?\Z")
_CONSTRAINT_PATTERN = re.compile(r"(?:-c\s*|--constraint(?:s)?[=\s]\s*)(?P<path>\S+)\s*(?:#.*)?\Z")
_EDITABLE_PATTERN = re.compile(r"(?:-e|--editable)(?:\s+|=)")
_URL_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_COMMENT_PATTERN = re.compile(r"(?:^|\s)#.*")
_LOCAL_PATH_PATTERN = re.compile(r"\S+\s*@\s*file://(?:localhost)?(?P<path>[^\s;#]+)")


class Requirement(NamedTuple):
    line: str
    limits: bool = False
    """Whether the line is a constraint, which limits a version but does not install the package."""


def requirements_in(file: Path, root: Path, write_line: Say) -> Iterator[Requirement]:
    """Yields the lines of a requirements file, including the lines of included files."""
    return _RequirementFiles(file, root, write_line).read(file, 0)


class _RequirementFiles:
    """Reads a requirements file and the files that it includes."""

    def __init__(self, file: Path, root: Path, write_line: Say) -> None:
        self._name, self._root, self._say = file.name, root, write_line
        self._files = self._length = 0

    def read(self, file: Path, depth: int) -> Iterator[Requirement]:
        if depth > MAX_DEPTH:
            raise BuildError(f"Fix {file.name}: it includes other files too deep, or itself.")
        whole = tree.resolve_inside(self._root, file)
        if whole is None or not whole.is_file():
            name = file.relative_to(self._root) if file.is_relative_to(self._root) else file.name
            raise BuildError(f"Commit the file {name}, or take it out of the requirements: it is not there.")
        text = read_small_text(whole)
        self._count(len(text))
        for line in text.replace("\0", "").splitlines():
            plain = line.strip()
            if not plain or plain.startswith("#"):
                continue
            if included := _INCLUDE_PATTERN.match(plain):
                yield from self._include(included["path"], file, depth, line)
            elif limiting := _CONSTRAINT_PATTERN.match(plain):
                for requirement in self._include(limiting["path"], file, depth, line):
                    yield requirement._replace(limits=True)
            else:
                yield Requirement(_as_installed(line, self._say))

    def _count(self, length: int) -> None:
        self._files += 1
        self._length += length
        if self._files > MAX_FILES or self._length > MAX_LENGTH:
            raise BuildError(
                f"Shorten {self._name}: with all that it includes, it is longer than {MAX_FILES} files or "
                f"{MAX_LENGTH >> 20} MiB."
            )

    def _include(self, path: str, file: Path, depth: int, line: str) -> Iterator[Requirement]:
        if _URL_PATTERN.match(path):
            yield Requirement(line)
            return
        yield from self.read(tree.within(self._root, file.parent, path, file.name), depth + 1)


def _as_installed(line: str, write_line: Say) -> str:
    """Returns a line without `-e`, because an editable install would point to the temporary folder of the
    build."""
    if not (editable := _EDITABLE_PATTERN.match(line.lstrip())):
        return line
    rest = line.lstrip()[editable.end() :].strip()
    if _URL_PATTERN.match(rest) or re.match(r"(git|hg|svn|bzr)\+", rest):
        return rest if " @ " in rest or "#egg=" not in rest else _by_name(rest)
    write_line(f"{rest} is installed as it is now, and not as editable.")
    return rest


def _by_name(url: str) -> str:
    place, _, egg = url.partition("#egg=")
    name = egg.partition("&")[0]
    return f"{name} @ {place}"


def local_paths(requirements: str, folder: Path) -> Iterator[Path]:
    """Yields the paths in the repository that requirements refer to."""
    for line in requirements.splitlines():
        word = _COMMENT_PATTERN.sub("", line).strip().partition(";")[0].partition(" --hash")[0].strip()
        named = _LOCAL_PATH_PATTERN.match(word)
        path = named["path"] if named else word.removeprefix("file://").partition("[")[0].strip()
        if not path or path.startswith("-") or _URL_PATTERN.match(path):
            continue
        looks = named or word.startswith(("file:", ".", "/", "~")) or ("/" in path and "@" not in path)
        if looks or (path.endswith((".whl", ".tar.gz", ".zip")) and (folder / path).exists()):
            local = tree.within(folder, folder, path, "requirements.txt")
            if not local.exists():
                raise BuildError(f"Commit {path}, or take it out of requirements.txt: it is not there.")
            yield local
