"""A language: the files by which it is recognized, and the function that fills a recipe from them."""

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

LAST: Final = 100
_MOST_MANIFESTS: Final = 20
_OUTSIDE: Final = re.compile(r"(?<![\w.*/\\-])\.\.[/\\]")
"""A relative path that leads out of the folder."""


class Language(Struct, frozen=True, kw_only=True):
    """One for each file of `languages`."""

    name: str
    manifests: tuple[str, ...]
    """Files that make a folder its own application: their paths, or endings such as `*.csproj`."""
    code: tuple[str, ...] = ()
    """Files that show an application only where no other application is around them."""
    rank: int
    """Order among languages that a folder may hold at once; the lowest is the application's own, others are
    its tools."""
    fill: Callable[[KnownFiles, Recipe], None]
    """Chooses the values of a recipe. Values that hints chose before stay."""
    may_listen: Callable[[KnownFiles], bool] = lambda files: True
    """False if the files show that no program of theirs can listen on a port."""
    toolchain: Toolchain | None = None
    """The toolchain; None if the language needs no programs on the machine."""
    manifests_with_paths: tuple[str, ...] = ()
    """Manifests that may name files outside of their folder, such as a library beside it."""
    inherited_value: str = ""
    """A regular expression for a value of these manifests that comes from a folder above."""

    def marker(self, tree: Tree, folder: str = "", *, manifests_only: bool = False) -> str:
        """Returns the file of a folder that shows the language, or an empty text."""
        markers = self.manifests if manifests_only else (*self.manifests, *self.code)
        return next(matching_files(tree, markers, folder), "")

    def needs_files_outside(self, tree: Tree) -> bool:
        """Returns whether a manifest of the top folder names a path that leads out, or has an inherited
        value."""
        files = KnownFiles(tree)
        names = islice(matching_files(tree, self.manifests_with_paths), _MOST_MANIFESTS)
        texts = [files.text(name) for name in names]
        patterns = [_OUTSIDE, *([re.compile(self.inherited_value)] if self.inherited_value else [])]
        return any(pattern.search(text) for text in texts for pattern in patterns)


def matching_files(tree: Tree, patterns: Iterable[str], folder: str = "") -> Iterator[str]:
    """Yields files of a folder by their paths, or by endings such as `*.csproj`, in order of the patterns."""
    for pattern in patterns:
        if pattern.startswith("*"):
            yield from sorted(name for name in tree.names(folder) if name.endswith(pattern[1:]))
        elif tree.has(f"{folder}/{pattern}".strip("/")):
            yield pattern
