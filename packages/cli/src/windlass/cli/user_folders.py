"""Folders of the user for settings and caches, by the XDG convention."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from windlass.base.environment import for_tools

_OWN: Final = "windlass"


def settings_folder() -> Path:
    """Returns the folder of the user's settings, which may not exist."""
    return _folder("XDG_CONFIG_HOME", ".config")


def cache_folder() -> Path:
    """Returns the folder of what can be computed again, which may not exist."""
    return _folder("XDG_CACHE_HOME", ".cache")


def has_display() -> bool:
    """Returns whether the user has a screen on which a browser can open a window."""
    environment = for_tools()
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _folder(variable: str, usual: str) -> Path:
    # The convention: a path that is not absolute is ignored.
    base = Path(for_tools().get(variable, ""))
    return (base if base.is_absolute() else Path("~").expanduser() / usual) / _OWN
