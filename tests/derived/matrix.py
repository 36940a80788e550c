"""The matrix of permissions, written down. After an intended change, `python -m tests.derived.matrix` writes
it again. It states the rule in the words of the contract, independently of the product's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from windlass.core.access import Scope
from windlass.core.declare.registry import Operation
from windlass.families import registry

FILE = Path(__file__).with_name("scope_matrix.txt")
SCOPES = (Scope.READ, Scope.WRITE, Scope.DEPLOY, Scope.ADMIN)
# All may read; Write creates and updates; Deploy deploys, stops, restarts and cancels; Admin does everything.
MAY: Mapping[Scope, frozenset[Scope]] = {
    Scope.READ: frozenset(SCOPES),
    Scope.WRITE: frozenset({Scope.WRITE, Scope.ADMIN}),
    Scope.DEPLOY: frozenset({Scope.DEPLOY, Scope.ADMIN}),
    Scope.ADMIN: frozenset({Scope.ADMIN}),
}


def may(scope: Scope, operation: Operation) -> bool:
    return scope in MAY[operation.need]


def lines() -> Iterator[str]:
    operations = sorted(registry().operations, key=lambda operation: (operation.path, operation.method))
    yield f"{'Read':6}{'Write':6}{'Deploy':7}{'Admin':6}"
    for operation in operations:
        yes = ["yes" if may(scope, operation) else "-" for scope in SCOPES]
        yield f"{yes[0]:6}{yes[1]:6}{yes[2]:7}{yes[3]:6}{operation.method:7}{operation.path}"


def text() -> str:
    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    FILE.write_text(text())
