"""Folders that are moved whole."""

from __future__ import annotations

import os
from pathlib import Path


def move(source: Path, target: Path) -> None:
    """Renames, and never copies or replaces. Absent is fine: an interrupted move may be repeated."""
    if not os.path.lexists(source):
        return
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.path.lexists(target):
        raise FileExistsError(f"{target} is there already, and {source} is not moved over it")
    source.rename(target)
