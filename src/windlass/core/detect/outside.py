"""Finds out whether an application is built with files that are outside of its folder, such as a library that
is beside it in the same repository."""

from __future__ import annotations

import re
from typing import Final

from windlass.core.detect.known_files import KnownFiles
from windlass.core.detect.tree import Tree

_MANIFESTS: Final = {
    "Python": ("requirements.txt", "pyproject.toml"),
    "Go": ("go.mod",),
    "Rust": ("Cargo.toml",),
    "Java": ("pom.xml", "settings.gradle", "settings.gradle.kts"),
    "Ruby": ("Gemfile",),
    "PHP": ("composer.json",),
    "Elixir": ("mix.exs",),
}
"""By language: files that name others. Node has a way of its own, by the workspace."""
_PROJECTS: Final = (".csproj", ".fsproj", ".vbproj")
_OUTSIDE: Final = re.compile(r"(?<![\w.*/\\-])\.\.[/\\]")
_INHERITS: Final = re.compile(r"\bworkspace[ \t]*+=[ \t]*+true\b")
"""Of Cargo: a value that the workspace above has."""


def names_what_is_outside(language: str, tree: Tree) -> bool:
    """True if a manifest in the top folder names a path that leads out of it, or needs the one above."""
    files = KnownFiles(tree)
    names: tuple[str, ...] = _MANIFESTS.get(language, ())
    if language == ".NET":
        names = tuple(name for name in sorted(tree.names()) if name.endswith(_PROJECTS))[:20]
    texts = [files.text(name) for name in names]
    inherits = language == "Rust" and any(_INHERITS.search(text) for text in texts)
    return inherits or any(_OUTSIDE.search(text) for text in texts)
