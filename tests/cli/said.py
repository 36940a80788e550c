"""A command of the command line, run in this process: its output and its exit code."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.tokens import ADMIN
from windlass.cli.main import main


class Said:
    """The output of a command and its exit code."""

    def __init__(self, result: Any) -> None:
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.code: int = result.exit_code
        self.out: str = result.stdout
        self.err: str = result.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"<{self.code} out={self.out!r} err={self.err!r}>"


_TURN = threading.Lock()


def say(
    *words: str,
    url: str = "",
    token: str | None = ADMIN,
    stdin: str | None = None,
    width: int = 120,
    home: Path | None = None,
) -> Said:
    """`home`: a folder for the settings of the user, instead of that of all tests."""
    environment = {"WINDLASS_URL": url or None, "WINDLASS_TOKEN": token, "COLUMNS": str(width)}
    if home is not None:
        environment["XDG_CONFIG_HOME"] = str(home)
    assert _TURN.acquire(blocking=False), "Use HTTP: two commands at once would mix their output."
    try:
        return Said(CliRunner().invoke(main, words, env=environment, input=stdin))
    finally:
        _TURN.release()
