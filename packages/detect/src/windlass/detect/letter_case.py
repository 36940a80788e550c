"""Finds imports whose path differs from that of the file only by case: Windows and macOS find such files, and
Linux does not."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from windlass.detect.known_files import KnownFiles

_CODE_SUFFIXES: Final = (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte")
_SKIPPED_FOLDERS: Final = frozenset(
    {"node_modules", "dist", "build", "vendor", "public", "static", "coverage"}
)
_IMPORT_PATTERN: Final = re.compile(
    r"(?:\bfrom|\bimport|\brequire\(|\bimport\()\s{0,4}['\"](\.{1,2}/[\w./@ -]{1,200})['\"]"
)
_MAX_FILES: Final = 300
_MAX_FILE_BYTES: Final = 32 << 10
"""Imports are in the beginning of a file."""
_MAX_BYTES: Final = 3 << 20
_MAX_PROBLEMS: Final = 3


def case_problems(files: KnownFiles) -> list[str]:
    """Returns the remedy for each import that differs from a file only by case."""
    paths = {
        f"{folder}/{name}".strip("/")
        for folder in ("", *files.tree.folders())
        for name in files.tree.names(folder)
    }
    known = {_imported_name(path) for path in paths} | paths
    by_lower = {path.lower(): path for path in sorted(known)}
    problems: list[str] = []
    for source in sorted(filter(_is_code, paths))[:_MAX_FILES]:
        for named in _imports(files, source):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(source), named))
            present = by_lower.get(target.lower())
            if present and target not in known and len(problems) < _MAX_PROBLEMS:
                problems.append(
                    f"Write {named} in {source} as the file {present} is called: they differ by case, which "
                    "Linux tells apart."
                )
    return problems


def _imported_name(path: str) -> str:
    """Returns what an import may call a file: without its suffix, and a folder for its index."""
    name, suffix = posixpath.splitext(path)
    if suffix not in _CODE_SUFFIXES:
        return path
    return posixpath.dirname(name) if posixpath.basename(name) == "index" else name


def _is_code(path: str) -> bool:
    return path.endswith(_CODE_SUFFIXES) and _SKIPPED_FOLDERS.isdisjoint(path.split("/"))


def _imports(files: KnownFiles, source: str) -> Iterator[str]:
    if files.tree.bytes_read > _MAX_BYTES:
        return
    try:
        text = files.tree.read(source, _MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    yield from dict.fromkeys(match[1] for match in _IMPORT_PATTERN.finditer(text))
