"""Counts the operations of the full interface that exist, act, are refused and are tested, by family.

- An operation *acts* if the OpenAPI document of this Windlass has it.
- It is *refused* if Windlass answers it with the reason for which it has none (`core/words/not_offered.py`).
- It *exists* if it acts or is refused.
- It is *walked* if the derived tests call it: with each scope, limit and organization, with wrong bodies.
- It has a *test of its own* if `tests.txt` names one, in which the operation succeeded. A test that was
  renamed or deleted does not count.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests.documented import DOCUMENT
from windlass.core.words.not_offered import NOT_OFFERED
from windlass.families import registry

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OPERATIONS, TESTS = HERE / "operations.toml", HERE / "tests.txt"
PAGE = ROOT / "docs/interface-coverage.md"
ANY_SERVICE = "{service_type}"
"""In a path, the segment of any kind of service."""

Route: TypeAlias = str
"""A method and a path, with `{}` for each parameter."""


def route(method: str, path: str) -> Route:
    return f"{method} {re.sub(r'{[^}]*}', '{}', path)}"


class Listed(NamedTuple):
    """An operation of the full interface, as the list has it."""

    method: str
    path: str
    use: str
    purpose: str

    @property
    def route(self) -> Route:
        return route(self.method, self.path.replace(ANY_SERVICE, "application"))

    @property
    def is_used(self) -> bool:
        """True if the contract or a client needs it."""
        return bool(self.use)


class ListedFamily(NamedTuple):
    number: int
    name: str
    priority: str
    operations: Sequence[Listed]


class Count(NamedTuple):
    """The numbers of a family, in the order of the columns."""

    all: int
    exist: int
    act: int
    refused: int
    walked: int
    own_test: int
    used: int
    """Operations that the contract or a client uses."""
    used_missing: int


@cache
def listed() -> Sequence[ListedFamily]:
    families = tomllib.loads(OPERATIONS.read_text())["family"]
    return [
        ListedFamily(
            family["number"],
            family["name"],
            family["priority"],
            [Listed(*row) for row in family["operations"]],
        )
        for family in families
    ]


def all_listed() -> Iterator[Listed]:
    return (operation for family in listed() for operation in family.operations)


@cache
def acting() -> frozenset[Route]:
    return frozenset(
        route(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods
    )


@cache
def refused() -> frozenset[Route]:
    return frozenset(operation for operations in NOT_OFFERED.values() for operation in operations)


@cache
def walked() -> frozenset[Route]:
    return frozenset(route(operation.method, operation.path) for operation in registry().operations)


def read_tests(text: str) -> Mapping[Route, str]:
    """Reads the lines `METHOD path test`."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line)
    return {line[0]: line[1] for line in lines}


def has_test(test: str) -> bool:
    """True if the file has a test of this name."""
    file, name = test.split("::", 1)
    path = ROOT / file
    return path.exists() and bool(re.search(rf"def {re.escape(name.split('::')[-1])}\(", path.read_text()))


@cache
def own_tests() -> frozenset[Route]:
    return frozenset(operation for operation, test in read_tests(TESTS.read_text()).items() if has_test(test))


def count(operations: Iterable[Listed]) -> Count:
    rows = [(operation, operation.route) for operation in operations]
    act = [row for row in rows if row[1] in acting()]
    known = [row for row in rows if row[1] in acting() | refused()]
    return Count(
        all=len(rows),
        exist=len(known),
        act=len(act),
        refused=len(known) - len(act),
        walked=sum(key in walked() for _, key in act),
        own_test=sum(key in own_tests() for _, key in act),
        used=sum(operation.is_used for operation, _ in rows),
        used_missing=sum(operation.is_used for operation, key in rows if key not in acting()),
    )


def missing_but_used() -> Iterator[Listed]:
    return (
        operation
        for operation in all_listed()
        if operation.is_used and operation.route not in acting() | refused()
    )
