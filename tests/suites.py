"""The suites of packages: `tests/<package>/` tests one of them, with nothing but what that package needs.

The tests of the product `windlass` are in the other folders.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.source import ROOT
from tests.syntax import nodes

PRODUCT: Final = "windlass"
PACKAGES: Final = sorted(
    path.parent.name for path in ROOT.glob("packages/*/pyproject.toml") if path.parent.name != PRODUCT
)


@cache
def project(package: str) -> dict[str, Any]:
    """Returns what the pyproject.toml of a package says of it."""
    found: dict[str, Any] = tomllib.loads((ROOT / f"packages/{package}/pyproject.toml").read_text())[
        "project"
    ]
    return found


@cache
def closure(package: str) -> frozenset[str]:
    """Returns a package and those below it."""
    ours = (word.partition("==")[0] for word in project(package)["dependencies"])
    below = (name.removeprefix("windlass-") for name in ours if name.startswith("windlass-"))
    return frozenset({package}).union(*map(closure, below))


@cache
def package_by_module() -> dict[str, str]:
    found = {}
    for package in (*PACKAGES, PRODUCT):
        source = ROOT / "packages" / package / "src"
        for file in source.rglob("*.py"):
            parts = file.relative_to(source).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = package
    return found


def strangers(package: str, file: Path) -> Iterator[str]:
    """The modules of other packages that a file of a suite imports, itself or through helpers."""
    allowed = closure(package)
    for module, way in _reached(file):
        owner = package_by_module().get(module)
        if owner and owner not in allowed:
            yield f"{' > '.join(way)} imports {module} of {owner}"


def _reached(file: Path) -> Iterator[tuple[str, list[str]]]:
    seen = {file}
    ways = [[file]]
    while ways:
        way = ways.pop()
        for module in imports(way[-1]):
            yield module, [str(step.relative_to(ROOT)) for step in way]
            if (helper := _helper(module)) and helper not in seen:
                seen.add(helper)
                ways.append([*way, helper])


def _helper(module: str) -> Path | None:
    if not module.startswith("tests."):
        return None
    path = ROOT / module.replace(".", "/")
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((found for found in candidates if found.exists()), None)


@cache
def imports(file: Path) -> tuple[str, ...]:
    """The modules that a file imports, wherever it does. Names of a module may be modules too."""
    found = []
    for node in nodes(file.read_text()):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(found)
