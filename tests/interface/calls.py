"""Records the operations that succeed in tests, if `WINDLASS_RECORD_CALLS` names a folder.

Each process writes a file of its own: several run tests at the same time.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from windlass.api.router import RouteTree
from windlass.families import registry

_NOT_OWN = (
    "tests/derived/",
    "tests/schemathesis/",
    "tests/interface/",
    "tests/commands/test_every_operation",
    "tests/compat/test_declared",
)
"""Tests that walk all operations."""


@cache
def _routes() -> RouteTree:
    return RouteTree(registry().operations)


def note(method: str, path: str, status: int) -> None:
    """Notes a call that succeeded in the present test."""
    folder = os.environ.get("WINDLASS_RECORD_CALLS")
    if not folder or status >= 300:
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0].partition("[")[0]
    bare = path.partition("?")[0].removeprefix("/compat").removeprefix("/api/v1")
    found = _routes().find(bare)
    if not test or test.startswith(_NOT_OWN) or found is None or method not in found[0]:
        return
    with (Path(folder) / str(os.getpid())).open("a") as file:
        file.write(f"{method} {found[0][method].path} {test}\n")
