"""A command that a message tells has a name in it as one word of the shell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.source import SOURCES, place
from tests.syntax import nodes

COMMAND = re.compile(r"(?:^|[`: ])windlass [a-z][^`\n]*\Z")
"""The text before a value, where a command has begun and goes on."""
NAME = re.compile(r"(^|\W)(name|job|service)(\W|$)")


def bare_names(source: str) -> Iterator[str]:
    """Yields values in commands that are names and are not quoted."""
    for text in nodes(source):
        if not isinstance(text, ast.JoinedStr):
            continue
        before = ""
        for part in text.values:
            value = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
            if COMMAND.search(before) and NAME.search(value) and "quote(" not in value:
                yield value
            before += str(part.value) if isinstance(part, ast.Constant) else "…"


def test_names_in_commands_are_quoted():
    bare = {
        f"{place(file)}: {value}"
        for file in SOURCES
        for value in bare_names(file.read_text())
        if value != "kebab(family.name)"  # of the program, not of a person
    }
    assert bare == set()


def test_the_check_reports_an_unquoted_name_in_a_command():
    assert list(bare_names('f"{name} runs: see `windlass logs {name}`"')) == ["name"]
    assert list(bare_names('f"See: windlass log --job {plain(job)}"')) == ["plain(job)"]
    assert list(bare_names('f"See `windlass logs {quote(name)}`: {name} runs"')) == []
