"""The folder that is deployed, and the paths in it for paths of the image."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from msgspec import Struct

from windlass.builders.builder import BuildError, Order
from windlass.process.builds import tree

# The character before it may end a word, an assignment or an item of a list of paths.
_PATHS = re.compile(r"(?<![\w./$}~-])/[\w.@+-]+(?:/[\w.@+-]*)*")


class Layout(Struct, frozen=True, kw_only=True):
    app: Path
    top: str = "/"
    """The path of `app` in the image."""
    workdir: str = "/"
    """The working folder in the image, at or below `top`."""
    image: bool = False
    """True if there is an image. Without one, a path is a path of this machine."""

    @property
    def below(self) -> str:
        """The working folder, below `app`."""
        below = posixpath.relpath(self.workdir, self.top)
        return "" if below == "." else below

    @property
    def folder(self) -> Path:
        return self.app / self.below

    def here(self, text: str) -> str:
        """Replaces paths of the image, in the deployed folder, by paths from the working folder."""
        return _PATHS.sub(lambda match: self._relative(match[0]), text) if self.image else text

    def _relative(self, path: str) -> str:
        whole = posixpath.normpath(path)
        # Below the root of the image, only files of the repository are replaced; other paths are the
        # machine's.
        if not below(whole, self.top) or (self.top == "/" and not os.path.lexists(self.app / whole[1:])):
            return path
        relative = posixpath.relpath(whole, self.workdir)
        return f"{relative}/" if path.endswith("/") and relative != "." else relative


def folder_of(order: Order) -> Path:
    """Returns the folder of the application. Raises BuildError if the commit does not hold it."""
    folder = tree.resolve_inside(order.source, order.source / order.root.strip("/"))
    if folder is None or not folder.is_dir():
        raise BuildError(f"root_path: name a folder of the repository: there is no folder {order.root}.")
    return folder


def below(path: str, top: str) -> bool:
    """Returns whether a path of the image is this folder, or in it."""
    return path == top or path.startswith(top.rstrip("/") + "/")
