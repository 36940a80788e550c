"""Pythons of this machine that are on no PATH: those that the operator has installed with uv or pyenv."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_HOMES: Final = (
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "cpython-3.*"),
    ("PYENV_ROOT", ".pyenv", "versions/3.*"),
)
"""The variable of a folder, the usual folder below the operator's home, and the pattern of Pythons in it."""
_NAME: Final = re.compile(r"(?:cpython-)?(?P<minor>3\.\d+)\.(?P<patch>\d+)(?:-|$)")


def installed_pythons(surroundings: Mapping[str, str]) -> dict[str, Path]:
    """Returns the program of each minor version, such as 3.13, of its newest patch."""
    programs = sorted(_programs(surroundings))
    return {minor: program for _, minor, program in programs}


def _programs(surroundings: Mapping[str, str]) -> Iterator[tuple[int, str, Path]]:
    """Yields the patch, the minor version and the program of each."""
    home = surroundings.get("HOME", "/nonexistent")
    for variable, below, pattern in _HOMES:
        for folder in Path(surroundings.get(variable) or f"{home}/{below}").glob(pattern):
            match = _NAME.match(folder.name)
            program = folder / "bin" / f"python{match['minor']}" if match else folder
            if match and os.access(program, os.X_OK):
                yield int(match["patch"]), match["minor"], program
