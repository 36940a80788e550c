"""Sources as syntax trees, each parsed once in a process: many tests look through all of them."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """Trees are shared, so that a test changes none."""
    return ast.parse(source)
