"""The beginning of every launcher: its variables, and its refusal.

It needs nothing but Python: some launchers also run in containers, without the rest of Windlass.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

Variables = Mapping[str, str]


class LaunchRefused(Exception):
    """A program cannot be started. The message is for the person who deployed."""


def launch(start: Callable[[Variables], NoReturn]) -> NoReturn:
    """Runs a launcher. Its refusal becomes the last line of the log, without a trace."""
    os.umask(0o077)
    try:
        start(dict(os.environ))  # noqa: TID251 (the variables of an instance, which are no settings of Windlass)
    except LaunchRefused as refusal:
        say(str(refusal))
    except OSError as error:
        say(f"cannot start: {error}")
    sys.exit(1)


def say(message: str) -> None:
    sys.stderr.write(f"windlass: {message}\n")
    sys.stderr.flush()
