"""Reads the requested version of a language from a version file or from `.tool-versions`."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.recipe import Recipe

_VERSION_PATTERN: Final = re.compile(r"[\w.*^~<>=!|, +/-]{1,60}")


def choose_version(recipe: Recipe, version: str, file: str) -> None:
    if _VERSION_PATTERN.fullmatch(version.strip()):
        recipe.choose(f"{file} names it.", language_version=version.strip())


def choose_version_by_file(files: KnownFiles, recipe: Recipe, tool: str, *names: str) -> None:
    """Chooses the version in the first line of one of these files, or the tool's version in
    `.tool-versions`."""
    for name in names:
        version = files.line(name).removeprefix(f"{tool}-").removeprefix("v")
        choose_version(recipe, version, name)
    for line in files.text(".tool-versions").splitlines():
        match line.split():
            case [named, version, *_] if named == tool:
                choose_version(recipe, version, ".tool-versions")
