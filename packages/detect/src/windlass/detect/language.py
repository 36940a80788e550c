"""A language: the files by which it is recognized, and the function that fills a recipe from these files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from windlass.detect.known_files import KnownFiles
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.tree import Tree

LAST_PRECEDENCE: Final = 100
_MAX_MANIFESTS: Final = 20
_OUTSIDE_PATH_PATTERN: Final = re.compile(r"(?<![\w.*/\\-])\.\.[/\\]")
"""Matches a relative path that leads out of the folder."""


class Language(Struct, frozen=True, kw_only=True):
    """A language. Each module of `languages` declares one."""

    name: str
    manifests: tuple[str, ...]
    """Files that mark a folder as an application of its own: paths, or suffixes such as `*.csproj`."""
    code: tuple[str, ...] = ()
    """Files that mark a folder as an application only if the folder is not inside another application."""
    lone_code: tuple[str, ...] = ()
    """Files that mark a folder as an application if no other file marks it as one of any language."""
    rank: int
    """The precedence if a folder contains several languages. The lowest rank is the application's language;
    the other languages are its tools."""
    fill: Callable[[KnownFiles, Recipe], None]
    """The function that chooses values for the recipe. Values that hints chose before are kept."""
    may_listen: Callable[[KnownFiles], bool] = lambda files: True
    """Returns whether a program in these files may listen on a port."""
    toolchain: Toolchain | None = None
    """The toolchain; None if the language needs no installed programs."""
    manifests_with_paths: tuple[str, ...] = ()
    """Manifests that may refer to files outside their folder, such as a library in a sibling folder."""
    inherited_value: str = ""
    """A regular expression for manifest values that are inherited from a parent folder."""

    def marker(self, tree: Tree, folder: str = "", *, manifests_only: bool = False) -> str:
        """Returns the file by which the language is recognized in a folder; empty if there is none."""
        markers = self.manifests if manifests_only else (*self.manifests, *self.code)
        return next(matching_files(tree, markers, folder), "")

    def needs_files_outside(self, tree: Tree) -> bool:
        """Returns whether a manifest in the top folder refers to a path outside the folder or inherits a
        value."""
        files = KnownFiles(tree)
        names = islice(matching_files(tree, self.manifests_with_paths), _MAX_MANIFESTS)
        texts = [files.text(name) for name in names]
        patterns = [
            _OUTSIDE_PATH_PATTERN,
            *([re.compile(self.inherited_value)] if self.inherited_value else []),
        ]
        return any(pattern.search(text) for text in texts for pattern in patterns)


def matching_files(tree: Tree, patterns: Iterable[str], folder: str = "") -> Iterator[str]:
    """Yields files of a folder that match paths, or suffixes such as `*.csproj`, in the order of the
    patterns."""
    for pattern in patterns:
        if pattern.startswith("*"):
            yield from sorted(name for name in tree.names(folder) if name.endswith(pattern[1:]))
        elif tree.has(f"{folder}/{pattern}".strip("/")):
            yield pattern
