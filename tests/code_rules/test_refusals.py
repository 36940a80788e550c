"""Every refusal with 401, 403, 404 or 409 says what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.syntax import parsed

SOURCE = Path(__file__).parents[2] / "src/windlass"
FAILURES = {"Unauthorized", "Forbidden", "Missing", "Conflict", "refused", "_no_more"}
"""Classes of failures, and functions that make one of their argument."""
VERBS = (
    "add ask change check choose complete connect create delete deploy go invite leave list look make open "
    "read remove rename repeat replay send set sign uninstall upload use wait"
)
REMEDY = re.compile(rf"(^|[:;.,] (or )?)({VERBS.replace(' ', '|')})\b", re.I)
"""An order that the caller can follow."""


SHORT = {
    "There is no … … here…": "of a name that was typed, in a sentence that names it",
    "The repository cannot be read: …": "the words of git's failures, which say what to do",
    "accessibility: …": "the engine's own words, which have a test of their own",
}
"""Refusals without a remedy of their own, with the reason."""


def text_of(node: ast.AST) -> str:
    """The words of a text in the source; values are shown as …"""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(text_of, values))
        case ast.IfExp(body=body, orelse=other):
            return f"{text_of(body)}\n{text_of(other)}"
    return "…"


def refusals(source: str) -> Iterator[str]:
    for call in ast.walk(parsed(source)):
        if isinstance(call, ast.Call) and call.args:
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            text = text_of(call.args[0]) if name in FAILURES else ""
            # What is only handed on has its words elsewhere.
            yield from (line for line in text.split("\n") if re.search(r"\w", line))


def without_remedy(source: str) -> list[str]:
    return [message for message in refusals(source) if not REMEDY.search(message)]


def test_every_refusal_says_what_to_do():
    found = {
        f"{file.relative_to(SOURCE)}: {message}"
        for file in sorted(SOURCE.rglob("*.py"))
        for message in without_remedy(file.read_text())
        if message not in SHORT
    }
    assert sorted(found) == []


def test_the_table_of_refusals_is_not_empty():
    assert sum(len([*refusals(file.read_text())]) for file in SOURCE.rglob("*.py")) > 40


def test_a_refusal_without_a_remedy_is_found():
    bad = 'raise Conflict(f"{name} is being deleted")\nraise Missing("List them first: there is none")'
    assert without_remedy(bad) == ["… is being deleted"]
