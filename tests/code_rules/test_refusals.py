"""Every refusal with 401, 403, 404 or 409 says what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.source import SOURCES, folder_of, place
from tests.syntax import nodes

FAILURES = {"Unauthorized", "Forbidden", "Missing", "Conflict", "refused", "_no_more"}
"""Classes of failures, and functions that make one of their argument."""
VERBS = (
    "add ask change check choose clone complete connect continue create delete deploy go invite leave list "
    "look make move open push read remove rename repeat replay resume send set sign uninstall upload use wait"
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
    for call in nodes(source):
        if isinstance(call, ast.Call) and call.args:
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            text = text_of(call.args[0]) if name in FAILURES else ""
            # What is only handed on has its words elsewhere.
            yield from (line for line in text.split("\n") if re.search(r"\w", line))


def without_remedy(source: str) -> list[str]:
    return [message for message in refusals(source) if not REMEDY.search(message)]


def test_every_refusal_says_what_to_do():
    found = {
        f"{place(file)}: {message}"
        for file in SOURCES
        for message in without_remedy(file.read_text())
        if message not in SHORT
    }
    assert sorted(found) == []


ADVISING = {
    "BadOutput": 0,
    "BuildError": 0,
    "LockConflict": 0,
    "RegistryFailure": 1,
    "RunFailed": 0,
    "UnresolvableVariable": 0,
}
"""Failures whose message begins with an order, by the place of the message among the arguments."""
ADVISING_FOLDERS = ("control", "registries")
ORDERS = f"{VERBS} allow divide fix give make pull raise try write"
BEGINNING = re.compile(rf"^([\w.…\[\]]+: )?(…\Z|({ORDERS.replace(' ', '|')})\b)", re.I)
"""An order at the beginning, after the field that it is about. Some are handed on from elsewhere."""


def without_beginning(source: str) -> list[str]:
    """Messages that do not begin with what to do."""
    messages = [
        text_of(call.args[ADVISING[name]])
        for call in nodes(source)
        if isinstance(call, ast.Call)
        and (name := getattr(call.func, "id", getattr(call.func, "attr", ""))) in ADVISING
        and len(call.args) > ADVISING[name]
    ]
    return [message for message in messages if not BEGINNING.search(message)]


def test_failures_of_runs_and_registries_begin_with_what_to_do():
    found = {
        f"{place(file)}: {message}"
        for folder in ADVISING_FOLDERS
        for file in sorted(folder_of(folder).rglob("*.py"))
        for message in without_beginning(file.read_text())
    }
    assert sorted(found) == []


def test_a_failure_that_begins_with_the_reason_is_found():
    bad = 'RegistryFailure(Problem.NAME, f"{host} is gone: check it")\nBuildError("It is full: make room")\n'
    good = 'RegistryFailure(Problem.NAME, "config.region: check it")\nBuildError(f"Choose another {name}")'
    assert without_beginning(bad + good) == ["… is gone: check it", "It is full: make room"]


def test_the_table_of_refusals_is_not_empty():
    assert sum(len([*refusals(file.read_text())]) for file in SOURCES) > 40


def test_the_check_reports_a_refusal_without_a_remedy():
    bad = 'raise Conflict(f"{name} is being deleted")\nraise Missing("List them first: there is none")'
    assert without_remedy(bad) == ["… is being deleted"]
