"""The control plane reads documents as structs: `Any` is rare in it, and each use has a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.source import SOURCES, place
from tests.syntax import nodes
from windlass.core.declare.document import Document

ROOMS = re.compile(r"control/|terraform/(?!families/|state_files\.py)")
"""Rooms that read documents. The state file is that of another program."""
MOST = 5


def uses_of_any(source: str) -> Iterator[int]:
    """Yields the lines that say `Any`, also inside an annotation that is a text."""
    for node in nodes(source):
        match node:
            case ast.Name(id="Any") | ast.Attribute(attr="Any"):
                yield node.lineno
            case ast.Constant(value=str(text)) if "Any" in text.replace("[", " ").replace("]", " ").split():
                if _is_type(text):
                    yield node.lineno


def _is_type(text: str) -> bool:
    """True for a text that is an expression: a type in quotes, and no sentence."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def test_any_is_rare_in_the_control_plane() -> None:
    found = [
        f"{place(path)}:{line}"
        for path in SOURCES
        if ROOMS.match(place(path))
        for line in uses_of_any(path.read_text())
    ]
    assert len(found) <= MOST, "\n".join(found)


def test_the_search_finds_every_use_of_any_and_no_import_or_string() -> None:
    uses = (
        "x: Any = 1",
        "def f(x: dict[str, Any]): ...",
        "x: 'list[Any]'",
        "x: typing.Any",
        "y = cast(Any, x)",
    )
    others = ("'Any event'", "AnyKind", "from typing import Any")
    assert [line for line in (*uses, *others) if [*uses_of_any(line)]] == [*uses]


def test_values_of_a_stored_document_are_typed_as_object() -> None:
    """mypy then refuses every look-up whose value is used as it is."""
    assert Document == dict[str, object]
