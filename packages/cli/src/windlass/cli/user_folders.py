"""The user's folders for settings and caches, as defined by XDG."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from windlass.base.environment import for_tools

_FOLDER_NAME: Final = "windlass"


def settings_folder() -> Path:
    """Returns the user's settings folder, which may not exist yet."""
    return _folder("XDG_CONFIG_HOME", ".config")


def cache_folder() -> Path:
    """Returns the user's cache folder, which may not exist yet."""
    return _folder("XDG_CACHE_HOME", ".cache")


def has_display() -> bool:
    """Returns whether the user has a graphical display for a browser window."""
    environment = for_tools()
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _folder(variable: str, default: str) -> Path:
    # XDG requires that a relative path is ignored.
    base = Path(for_tools().get(variable, ""))
    return (base if base.is_absolute() else Path("~").expanduser() / default) / _FOLDER_NAME
