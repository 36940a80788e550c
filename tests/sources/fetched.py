"""Helpers shared by the tests of git."""

from __future__ import annotations


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
