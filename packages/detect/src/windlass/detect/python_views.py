"""Finds the module to load if an application's object and its views are in different modules.

A server has to load a module that imports both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from windlass.detect.python_code import PythonFile

_REGISTRATION: Final = (
    r"\b{0}(?:\.\w{{1,40}}+)?\.(?:add_\w++|register_\w++|include_router|mount|layout|route|callback"
    r"|get|post|put|patch|delete|websocket)\b"
)
_IMPORT_OF: Final = r"^from[ \t]++(\.*+[\w.]*+)[ \t]++import[ \t]++\(?(?:[\w, \t]{{0,200}}[, \t])?{0}\b"
_IMPORT_PATTERN: Final = re.compile(
    r"^[ \t]*+(?:from[ \t]++(\.*+[\w.]*+)[ \t]++import[ \t]++([\w, \t]{1,200}+)|import[ \t]++([\w.]++))",
    re.MULTILINE,
)
_ENTRY_FILE_PATTERN: Final = re.compile(
    r"(?:.*/)?(?:main|run|wsgi|asgi|server|startup|start|webapp|web|index|app)\.py"
)


def module_with_views(code: Sequence[PythonFile], origin: PythonFile, variable: str) -> PythonFile | None:
    """Returns the module that imports an object of `origin` along with its views. None if `origin` itself has
    views or imports other modules, or if no such module exists."""
    if _has_views(origin, variable) or next(_own_modules(code, origin), None):
        return None
    takes = re.compile(_IMPORT_OF.format(re.escape(variable)), re.MULTILINE)
    for file in code:
        match = takes.search(file.text) if file.path != origin.path and file.base == origin.base else None
        if match and origin.module.partition(".")[0] == _absolute(file, match[1]).partition(".")[0]:
            others = {*_own_modules(code, file)} - {origin.module}
            if _has_views(file, variable) or (others and _ENTRY_FILE_PATTERN.fullmatch(file.path)):
                return file
    return None


def _has_views(file: PythonFile, variable: str) -> bool:
    return bool(re.search(_REGISTRATION.format(re.escape(variable)), file.text))


def _own_modules(code: Sequence[PythonFile], file: PythonFile) -> Iterator[str]:
    """Yields the repository's modules that a file imports."""
    tops = {other.module.partition(".")[0] for other in code if other.base == file.base}
    for match in _IMPORT_PATTERN.finditer(file.text):
        module = _absolute(file, match[1]) if match[1] is not None else match[3]
        if module.partition(".")[0] not in tops:
            continue
        if (match[1] or "").strip(".") or match[3]:
            yield module
        else:  # `from . import views`
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", match[2]))


def _absolute(file: PythonFile, module: str) -> str:
    """Returns the absolute name of a module that a file imports, possibly by a relative import."""
    up = len(module) - len(module.lstrip("."))
    if not up:
        return module
    package = file.module.split(".") if file.path.endswith("/__init__.py") else file.module.split(".")[:-1]
    return ".".join(filter(None, [*package[: len(package) - up + 1], module.lstrip(".")]))
