"""Reads environment variables of this process that are not settings."""

from __future__ import annotations

import os


def wants_no_colour() -> bool:
    """Returns whether NO_COLOR is set and not empty; see https://no-color.org."""
    return bool(os.environ.get("NO_COLOR"))


def for_tools() -> dict[str, str]:
    """Returns the environment, for callers that pass parts of it to programs, or that follow a convention of
    the user's system, such as XDG_CONFIG_HOME."""
    return dict(os.environ)
