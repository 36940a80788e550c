"""Names the variables that a folder says its application needs, and the command that sets them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from windlass.base.file_names import read_beginning
from windlass.terminal.tables import plain

_OWN: Final = ".env"
_EXAMPLES: Final = (".env.example", ".env.sample", ".env.template", ".env.dist", "example.env")
_MANIFEST: Final = "app.json"
_NAME: Final = re.compile(r"^[ \t]*+(?:export[ \t]++)?([A-Za-z_]\w{0,200}+)[ \t]*+=", re.MULTILINE)
_LARGEST: Final = 100_000
_MOST: Final = 8


def hint_at_variables(folder: Path) -> str:
    """Returns what to do about the variables that files of the folder name, or an empty text."""
    if (folder / _OWN).is_file():
        return f"{_OWN} is never uploaded. Set its variables with: windlass env import {_OWN}"
    for name in (*_EXAMPLES, _MANIFEST):
        if variables := _names_in(folder, name):
            shown = ", ".join(variables[:_MOST]) + (", …" if len(variables) > _MOST else "")
            example = shlex.quote(f"{variables[0]}=…")
            return f"{name} names variables: {plain(shown)}. Set each with: windlass env set {plain(example)}"
    return ""


def _names_in(folder: Path, name: str) -> list[str]:
    try:
        text = read_beginning(folder, name, _LARGEST).decode("utf-8", "replace")
    except OSError:  # there is none, or it is a link, which may lead anywhere
        return []
    return list(dict.fromkeys(_of_manifest(text) if name == _MANIFEST else _NAME.findall(text)))


def _of_manifest(text: str) -> Iterator[str]:
    """Yields the variables of an app.json that have no value of their own."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    variables = document.get("env") if isinstance(document, dict) else None
    for name, about in (variables if isinstance(variables, dict) else {}).items():
        is_settled = isinstance(about, str) or (isinstance(about, dict) and bool(about.get("value")))
        is_optional = isinstance(about, dict) and about.get("required") is False
        if not is_settled and not is_optional:
            yield name
