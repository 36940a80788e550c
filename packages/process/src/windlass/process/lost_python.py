"""Finds builds whose Python is gone.

A Python of the machine is not part of a build. An upgrade of the operating system may remove it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PYTHON_LINKS: Final = ("venv/bin/python", "bin/python")
"""Symbolic links from a build to its Python: that of its virtual environment, and that of a program without
packages."""


def has_lost_python(build: Path) -> bool:
    """Returns whether a build has a link to a Python that does not exist any more."""
    links = [build / name for name in _PYTHON_LINKS]
    return any(os.path.islink(link) and not os.path.exists(link) for link in links)  # noqa: PTH110, PTH114 (they never raise)
