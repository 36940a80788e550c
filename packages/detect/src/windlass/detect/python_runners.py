"""Removes the package manager from commands such as `uv run uvicorn main:app`. The build creates the virtual
environment, and the manager is not available at runtime."""

from __future__ import annotations

import re
from typing import Final

RUNNERS: Final = ("uv", "poetry", "pdm", "pipenv")
OPTIONS: Final = ("--", "--frozen", "--locked", "--no-dev", "--no-sync")
"""Options before the command that have no effect if the environment is complete."""
_RUNNER_PATTERN: Final = re.compile(
    rf"(^|&&|\|\||;)([ \t]*+(?:exec[ \t]++)?)(?:{'|'.join(RUNNERS)})[ \t]++run[ \t]++"
    rf"(?:(?:{'|'.join(OPTIONS)})[ \t]++){{0,5}}(?=[^\s-])(\S{{1,200}}?\.py(?=[ \t]|$))?",
    re.MULTILINE,
)


def without_runner(command: str) -> str:
    """Returns the command that the package manager would run."""
    return _RUNNER_PATTERN.sub(_command_without_runner, command)


def _command_without_runner(match: re.Match[str]) -> str:
    file = f"python {match[3]}" if match[3] else ""
    return f"{match[1]}{match[2]}{file}"
