"""Sources as syntax trees, each parsed once in a process: many tests look through all of them."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """Trees are shared, so that a test changes none."""
    return ast.parse(source)


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a source, as ast.walk() yields them: walking takes as long as parsing."""
    return tuple(ast.walk(parsed(source)))
