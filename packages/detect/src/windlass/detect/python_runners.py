"""Commands that package managers of Python run in their environment, such as `uv run uvicorn main:app`. The
environment is made at the build, and the manager is not beside the program later."""

from __future__ import annotations

import re
from typing import Final

RUNNERS: Final = ("uv", "poetry", "pdm", "pipenv")
OPTIONS: Final = ("--", "--frozen", "--locked", "--no-dev", "--no-sync")
"""Words before the command that change nothing where the environment is complete."""
_RUNNER: Final = re.compile(
    rf"(^|&&|\|\||;)([ \t]*+(?:exec[ \t]++)?)(?:{'|'.join(RUNNERS)})[ \t]++run[ \t]++"
    rf"(?:(?:{'|'.join(OPTIONS)})[ \t]++){{0,5}}(?=[^\s-])(\S{{1,200}}?\.py(?=[ \t]|$))?",
    re.MULTILINE,
)


def without_runner(command: str) -> str:
    """Returns the command that the manager would run."""
    return _RUNNER.sub(_program, command)


def _program(match: re.Match[str]) -> str:
    file = f"python {match[3]}" if match[3] else ""
    return f"{match[1]}{match[2]}{file}"
