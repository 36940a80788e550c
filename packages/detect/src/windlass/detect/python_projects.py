"""Python projects whose packages are below `src`: programs find them only once the project is installed."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.known_files import KnownFiles, table

_OWN_REQUIREMENT_PATTERN: Final = re.compile(
    r"^[ \t]*+(?:(?:-e|--editable)[ \t=]*+)?\.(?:/|\[[\w, -]{0,100}+\])?[ \t]*+(?:#.*)?$", re.MULTILINE
)
"""Matches a line of requirements that installs the project itself."""


def has_to_be_installed(files: KnownFiles, requirements: str) -> bool:
    """Returns whether the project has to be installed besides its requirements."""
    if _OWN_REQUIREMENT_PATTERN.search(requirements):
        return False
    content = files.toml("pyproject.toml") if files.has("pyproject.toml") else {}
    is_project = bool(table(content, "project") and table(content, "build-system")) or files.has("setup.py")
    return bool(is_project) and any(
        folder.startswith("src/") and folder.count("/") == 1 and files.has(f"{folder}/__init__.py")
        for folder in files.tree.folders()
    )
