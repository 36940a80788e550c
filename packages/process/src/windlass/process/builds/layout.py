"""The deployed folder, and the translation of paths in the image to paths in this folder."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from msgspec import Struct

from windlass.builders.builder import BuildError, Order
from windlass.builders.dockerfile_hints import is_below
from windlass.process.builds import tree

# The look-behind allows a path at the end of a word, an assignment or an item of a path list.
_PATHS_PATTERN = re.compile(r"(?<![\w./$}~-])/[\w.@+-]+(?:/[\w.@+-]*)*")


class Layout(Struct, frozen=True, kw_only=True):
    app: Path
    top: str = "/"
    """The path in the image that corresponds to `app`."""
    workdir: str = "/"
    """The working folder in the image, at or below `top`."""
    image: bool = False
    """Whether paths refer to an image. Otherwise, a path refers to this machine."""

    @property
    def below(self) -> str:
        """The working folder, relative to `app`."""
        below = posixpath.relpath(self.workdir, self.top)
        return "" if below == "." else below

    @property
    def folder(self) -> Path:
        return self.app / self.below

    def here(self, text: str) -> str:
        """Replaces paths in the image that lead into the deployed folder by paths relative to the working
        folder."""
        return _PATHS_PATTERN.sub(lambda match: self._relative(match[0]), text) if self.image else text

    def _relative(self, path: str) -> str:
        whole = posixpath.normpath(path)
        # If the deployed folder corresponds to the root of the image, a path is replaced only if the
        # repository has it. Other paths are paths of the machine.
        if not is_below(whole, self.top) or (self.top == "/" and not os.path.lexists(self.app / whole[1:])):
            return path
        relative = posixpath.relpath(whole, self.workdir)
        return f"{relative}/" if path.endswith("/") and relative != "." else relative


def folder_of(order: Order) -> Path:
    """Returns the folder of the application. Raises BuildError if the commit does not contain it."""
    folder = tree.resolve_inside(order.source, order.source / order.root.strip("/"))
    if folder is None or not folder.is_dir():
        raise BuildError(f"root_path: name a folder of the repository: there is no folder {order.root}.")
    return folder
