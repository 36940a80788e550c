"""Shared code of launchers, the programs that prepare and start an instance's program.

Needs only the standard library: some launchers also run in containers, without the rest of Windlass.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

Variables = Mapping[str, str]


class LaunchRefused(Exception):
    """Raised if a program cannot be started. The message is for the user who deployed."""


def launch(start: Callable[[Variables], NoReturn]) -> NoReturn:
    """Runs a launcher. Logs its refusal as one line without a stack trace."""
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
