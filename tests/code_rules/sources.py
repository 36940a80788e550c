"""The files that the rules look at, each read once: their places in the repository and their texts."""

from __future__ import annotations

from tests.source import ROOT, folder_of

EXAMPLE = folder_of("demo/application")
"""A user's application."""


def _texts(*patterns: str) -> dict[str, str]:
    return {
        file.relative_to(ROOT).as_posix(): file.read_text()
        for pattern in patterns
        for file in sorted(ROOT.glob(pattern))
        if EXAMPLE not in file.parents
    }


SOURCE = _texts("packages/*/src/windlass/**/*.py")
TESTS = _texts("tests/**/*.py")
PAGES = _texts("*.md", "docs/**/*.md")
