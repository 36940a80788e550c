"""A language: the files by which it is recognized, and the function that fills a recipe from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from windlass.core.detect.known_files import KnownFiles
from windlass.core.detect.recipe import Recipe
from windlass.core.detect.toolchain import Toolchain
from windlass.core.detect.tree import Tree

LAST: Final = 100


class Language(Struct, frozen=True, kw_only=True):
    """One for each file of `languages`."""

    name: str
    manifests: tuple[str, ...]
    """Files that make a folder an application of its own: their paths, or endings such as `*.csproj`."""
    code: tuple[str, ...] = ()
    """Files that show an application only where no other application is around them."""
    rank: int
    """Order among languages that a folder may hold at once; the lowest is the application's own, others are
    its tools."""
    fill: Callable[[KnownFiles, Recipe], None]
    """Chooses the values of a recipe. Values that hints chose before stay."""
    toolchain: Toolchain | None = None
    """None if the machine needs nothing for it beyond Windlass itself."""

    def marker(self, tree: Tree, folder: str = "", *, own: bool = False) -> str:
        """Returns the file of a folder that shows the language, or an empty text. `own`: only a manifest."""
        for marker in self.manifests if own else (*self.manifests, *self.code):
            if marker.startswith("*"):
                ends = marker.removeprefix("*")
                if named := sorted(name for name in tree.names(folder) if name.endswith(ends)):
                    return named[0]
            elif tree.has(f"{folder}/{marker}".strip("/")):
                return marker
        return ""
