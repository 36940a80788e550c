"""Handlers do not decide who may do what: they ask `may`, through `control.request.permissions`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.source import folder_of, place
from tests.tables import rows
from windlass.core.access import Scope

ROOMS = ("api", "console", "control")
RIGHTS = {"permits", "allows", "limited_to"}
"""Attributes of actors, permits and scopes that only `core.access` looks at."""
SPECS = {"spec"}
"""A body of a request has the field `limited_to`, too."""
SCOPES = {scope.name for scope in Scope}


def decisions(text: str) -> Iterator[str]:
    """Yields what looks at the rights of a caller, or compares scopes, by itself."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=value, attr=attr) if attr in RIGHTS and name_of(value) not in SPECS:
                yield f"line {node.lineno}: looks at {attr}"
            case ast.Compare(left=left, comparators=others) if any(map(is_scope, (left, *others))):
                yield f"line {node.lineno}: compares scopes"
            case ast.BinOp(left=left, right=right, op=ast.BitAnd()) if is_scope(left) or is_scope(right):
                yield f"line {node.lineno}: compares scopes"
            case ast.match_case(pattern=ast.MatchValue(value=value)) if is_scope(value):
                yield f"line {node.pattern.lineno}: compares scopes"
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(attr)), *_]) if attr in RIGHTS:
                yield f"line {node.lineno}: looks at {attr}"
            case _:
                pass


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_scope(node: ast.expr) -> bool:
    """True for `Scope.ADMIN`, `ROLE_IDS[Scope.ADMIN]`, `token.scopes`, `operation.need` and the like."""
    if any(isinstance(one, ast.Attribute) and name_of(one.value) == "Scope" for one in ast.walk(node)):
        return True
    return isinstance(node, ast.Attribute) and node.attr in {"need", "scopes"}


@pytest.mark.parametrize("name", ROOMS)
def test_no_handler_makes_a_permission_decision_itself(name: str):
    found = [
        f"{place(path)} {decision}"
        for path in sorted(folder_of(name).rglob("*.py"))
        for decision in decisions(path.read_text())
    ]
    assert found == [], "ask may, or a function of control.permissions"


@rows(
    "text",
    [
        "call.actor.limited_to is not None",
        "for permit in actor.permits[org]: pass",
        "grant.allows(need)",
        "scope is Scope.ADMIN",
        "document['role_id'] == ROLE_IDS[Scope.ADMIN]",
        "Scope.ADMIN.word in document['scopes']",
        "call.operation.need in allowed",
        "flags & Scope.WRITE",
        "getattr(actor, 'permits')",
        "match need:\n    case Scope.READ: pass",
    ],
)
def test_the_check_finds_a_permission_decision_made_in_a_handler(text: str):
    assert [*decisions(text)]


@pytest.mark.parametrize(
    "text",
    [
        "may(call.actor, Scope.ADMIN, where)",
        "draft.spec.limited_to or ()",
        "Actor(permits={}, limited_to=None)",
        "ROLE_IDS[Scope.ADMIN]",
    ],
)
def test_a_handler_that_calls_may_is_accepted(text: str):
    assert not [*decisions(text)]


def test_the_attributes_that_the_check_searches_for_exist():
    for attribute in RIGHTS:
        assert attribute in folder_of("core/access/actor.py").read_text(), attribute
