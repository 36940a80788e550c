"""Reads the few files that detection needs as text, JSON or TOML. A malformed file is reported as a problem
and never raises an exception."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from windlass.base.text_encoding import decode_text
from windlass.base.toml import parse_toml
from windlass.detect.tree import Tree

MAX_FILE_BYTES: Final = 1 << 20
"""Maximum size in bytes of a file that is read as a whole. Lock files may be larger; only their existence or
beginning matters."""

_TOML_LINE_PATTERN: Final = re.compile(r"\(at line (\d+)")
_COMMENT_PATTERN: Final = re.compile(r"^[ \t]*//.*$", re.MULTILINE)


class KnownFiles:
    """The files of a tree, each parsed at most once, and the problems found in them."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problems: list[str] = []
        self._texts: dict[str, str] = {}
        self._documents: dict[str, dict[str, Any]] = {}

    def has(self, *paths: str) -> str:
        """Returns the first of these paths that is an existing file; empty if there is none."""
        return next((path for path in paths if self.tree.has(path)), "")

    def text(self, path: str) -> str:
        """Returns the content of a file; empty if the file is missing or too large."""
        if path not in self._texts:
            self._texts[path] = self._read(path) if self.tree.has(path) else ""
        return self._texts[path]

    def beginning(self, path: str, limit: int) -> str:
        """Returns the beginning of a file of any size, such as a lock file."""
        return decode_text(self._bytes(path, limit))

    def line(self, path: str) -> str:
        """Returns the first line of a file that is neither blank nor a comment."""
        lines = (line.strip() for line in self.text(path)[:4096].splitlines())
        return next((line for line in lines if line and not line.startswith("#")), "")

    def json(self, path: str) -> dict[str, Any]:
        """Returns the object in a JSON file; empty if the file is missing or malformed."""
        return self._document(path, _json)

    def toml(self, path: str) -> dict[str, Any]:
        """Returns the content of a TOML file; empty if the file is missing or malformed."""
        return self._document(path, _toml)

    def _read(self, path: str) -> str:
        content = self._bytes(path, MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            self.problems.append(
                f"Shorten {path}: it is larger than {MAX_FILE_BYTES >> 20} MiB, and was not read."
            )
            return ""
        return decode_text(content).replace("\0", "")

    def _bytes(self, path: str, limit: int) -> bytes:
        try:
            return self.tree.read(path, limit)
        except OSError as error:
            why = error.strerror or type(error).__name__
            self.problems.append(f"Make {path} a file that can be read: {why}.")
            return b""

    def _document(self, path: str, parse: Any) -> dict[str, Any]:
        if path not in self._documents:
            text = self.text(path)
            try:
                content = parse(text) if text.strip() else {}
            except _Malformed as error:
                self.problems.append(f"Fix {path}{error}.")
                content = {}
            if not isinstance(content, dict):
                self.problems.append(f"Fix {path}: it must hold an object.")
                content = {}
            self._documents[path] = content
        return self._documents[path]


class _Malformed(Exception):
    """A file cannot be parsed. The message continues a sentence that ends with the file's name."""


def _json(text: str) -> Any:
    try:
        return json.loads(_COMMENT_PATTERN.sub("", text))
    except json.JSONDecodeError as error:
        raise _Malformed(f", line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise _Malformed(": it is nested too deep") from error
    except ValueError as error:  # a number with too many digits
        raise _Malformed(f": {error}") from error


def _toml(text: str) -> Any:
    try:
        return parse_toml(text)
    except ValueError as error:
        line = _TOML_LINE_PATTERN.search(str(error))
        message = str(error).partition(" (at ")[0]
        raise _Malformed(f", line {line[1]}: {message}" if line else f": {message}") from error


def table(document: Any, *keys: str) -> dict[str, Any]:
    """Returns a table inside a document; empty if the table is missing or the value has another type."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def text_in(document: Any, *keys: str) -> str:
    """Returns a text inside a document; empty if the text is missing or the value has another type."""
    value = table(document, *keys[:-1]).get(keys[-1])
    return value if isinstance(value, str) else ""


def texts(document: Any, *keys: str) -> list[str]:
    """Returns the texts in a list inside a document. Items of other types are left out."""
    listed = table(document, *keys[:-1]).get(keys[-1])
    return [value for value in listed if isinstance(value, str)] if isinstance(listed, list) else []
