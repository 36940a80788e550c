"""The folder that is deployed, and what paths of the image mean in it."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from msgspec import Struct

# What stands before it may end a word, an assignment or an item of a list of paths.
_PATHS = re.compile(r"(?<![\w./$}~-])/[\w.@+-]+(?:/[\w.@+-]*)*")


class Layout(Struct, frozen=True, kw_only=True):
    app: Path
    top: str = "/"
    """The path in the image that `app` stands for."""
    workdir: str = "/"
    """In the image; at or below `top`."""
    image: bool = False
    """Without one, a path means a path of this machine."""

    @property
    def below(self) -> str:
        """The working folder, below `app`."""
        found = posixpath.relpath(self.workdir, self.top)
        return "" if found == "." else found

    @property
    def folder(self) -> Path:
        return self.app / self.below

    def here(self, text: str) -> str:
        """Replaces paths of the image by paths from the working folder, as far as they are ours."""
        return _PATHS.sub(lambda found: self._relative(found[0]), text) if self.image else text

    def _relative(self, path: str) -> str:
        whole = posixpath.normpath(path)
        # Below the root of the image there may be anything; what is not of the repository is the machine's.
        if not below(whole, self.top) or (self.top == "/" and not os.path.lexists(self.app / whole[1:])):
            return path
        made = posixpath.relpath(whole, self.workdir)
        return f"{made}/" if path.endswith("/") and made != "." else made


def below(path: str, top: str) -> bool:
    """Whether a path of the image is this folder, or in it."""
    return path == top or path.startswith(top.rstrip("/") + "/")
