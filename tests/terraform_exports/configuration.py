"""Reads the part of Terraform's language that exports use, without Terraform."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

_TOKEN_PATTERN: Final = re.compile(
    r'[ \t]+|#[^\n]*|(?P<token>\n|[A-Za-z_][A-Za-z0-9_]*|-?[0-9]+(?:\.[0-9]+)?|[{}\[\](),=.]|")'
)
OVERRIDES_OF_IMPORTS: Final = "imports_override.tf"
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


class Reference(NamedTuple):
    path: tuple[str, ...]


class Call(NamedTuple):
    function: str
    arguments: tuple[Any, ...]


class Joined(NamedTuple):
    parts: tuple[Any, ...]


class Block(NamedTuple):
    kind: str
    labels: tuple[str, ...]
    body: dict[str, Any]

    @property
    def address(self) -> tuple[str, ...]:
        return self.labels


class Reader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def blocks(self) -> Iterator[Block]:
        while token := self._next(skip=True):
            labels = []
            while self._peek() == '"':
                self._next()
                labels.append(self._string())
            self._expect("{")
            yield Block(token, tuple(labels), self._body())

    def _body(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while (name := self._next(skip=True)) != "}":
            assert name not in {"", ","}, self._around()
            name = self._string() if name == '"' else name
            assert name not in fields, f"{name} is there twice"
            if self._peek() == "{":
                self._next()
                fields[name] = self._body()
                continue
            self._expect("=")
            fields[name] = self._value()
            if self._peek() == ",":
                self._next()
        return fields

    def _value(self, *, skip: bool = False) -> Any:
        token = self._next(skip=skip)
        if token == '"':
            return self._string()
        if token == "{":
            return self._body()
        if token == "[":
            return self._items("]")
        if token in {"true", "false", "null"} or token[:1] in "-0123456789":
            return json.loads(token)
        assert token.isidentifier(), self._around()
        path = [token]
        while self._peek() == ".":
            self._next()
            path.append(self._next())
        if self._peek() == "(":
            self._next()
            return Call(token, tuple(self._items(")")))
        return Reference(tuple(path))

    def _items(self, end: str) -> list[Any]:
        items = []
        while self._peek(skip=True) != end:
            items.append(self._value(skip=True))
            if self._peek(skip=True) == ",":
                self._next(skip=True)
        self._next(skip=True)
        return items

    def _string(self) -> Any:
        """Reads a quoted text up to its end. Raises AssertionError for a line break in it."""
        parts: list[Any] = [""]
        while True:
            rest = self._text[self._at :]
            if rest.startswith(("$${", "%%{")):
                parts[-1] += rest[1:3]
                self._at += 3
            elif rest.startswith("${"):
                self._at += 2
                parts += [self._value(), ""]
                self._expect("}")
            elif rest.startswith("%{"):
                raise AssertionError(f"a directive: {self._around()}")
            elif rest.startswith("\\u"):
                parts[-1] += chr(int(rest[2:6], 16))
                self._at += 6
            elif rest.startswith("\\"):
                parts[-1] += _ESCAPES[rest[1]]
                self._at += 2
            elif rest.startswith('"'):
                self._at += 1
                return parts[0] if len(parts) == 1 else Joined(tuple(part for part in parts if part != ""))
            else:
                assert rest[:1] not in {"", "\r", "\n"}, self._around()
                parts[-1] += rest[0]
                self._at += 1

    def _expect(self, wanted: str) -> None:
        found = self._next()
        assert found == wanted, f"{wanted!r} is missing: {self._around()}"

    def _peek(self, *, skip: bool = False) -> str:
        before = self._at
        found = self._next(skip=skip)
        self._at = before
        return found

    def _next(self, *, skip: bool = False) -> str:
        while self._at < len(self._text):
            match = _TOKEN_PATTERN.match(self._text, self._at)
            assert match, self._around()
            self._at = match.end()
            token = match["token"]
            if token and not (skip and token == "\n"):
                return token
        return ""

    def _around(self) -> str:
        return repr(self._text[max(0, self._at - 60) : self._at + 60])


class Scope:
    """What the expressions of a configuration refer to."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._inputs = inputs
        self.made: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._functions: dict[str, Callable[..., Any]] = {
            "upper": str.upper,
            "substr": lambda text, first, length: text[first : first + length],
            "jsonencode": json.dumps,
        }

    def is_ready(self, node: Any) -> bool:
        return all(path[0] == "var" or path[:2] in self.made for path in references(node))

    def value(self, node: Any) -> Any:
        match node:
            case Reference(("var", name)):
                return self._inputs[name]
            case Reference((type_name, label, attribute)):
                return self.made[type_name, label][attribute]
            case Call(function, arguments):
                return self._functions[function](*map(self.value, arguments))
            case Joined(parts):
                return "".join(map(self.value, parts))
            case dict():
                return {name: self.value(item) for name, item in node.items()}
            case list():
                return [self.value(item) for item in node]
        return node


def references(node: Any) -> Iterator[tuple[str, ...]]:
    match node:
        case Reference(path):
            yield path
        case Call(_, inner) | Joined(inner):
            for item in inner:
                yield from references(item)
        case dict():
            for item in node.values():
                yield from references(item)
        case list():
            for item in node:
                yield from references(item)


class Configuration:
    """The configuration in an archive."""

    def __init__(self, archive: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
            assert zipped.testzip() is None
            self.files = {name: zipped.read(name).decode() for name in zipped.namelist()}
        texts = [
            text for name, text in self.files.items() if name.endswith(".tf") and name != OVERRIDES_OF_IMPORTS
        ]
        self.blocks = [block for text in texts for block in Reader(text).blocks()]
        overrides = [*Reader(self.files.get(OVERRIDES_OF_IMPORTS, "")).blocks()]
        self.not_compared = {
            block.labels: {path[0] for path in references(block.body["lifecycle"]["ignore_changes"])}
            for block in overrides
        }
        """The attributes that an import leaves out of plans, by resource."""
        assert len(self.not_compared) == len(overrides)
        self.resources = {block.labels: block.body for block in self.blocks if block.kind == "resource"}
        self.variables = {block.labels[0]: block.body for block in self.blocks if block.kind == "variable"}
        assert len(self.resources) == len([b for b in self.blocks if b.kind == "resource"])
        assert len(self.variables) == len([b for b in self.blocks if b.kind == "variable"])

    def of_type(self, type_name: str) -> dict[str, dict[str, Any]]:
        return {label: body for (found, label), body in self.resources.items() if found == type_name}

    @property
    def secrets(self) -> set[str]:
        return {name for name, body in self.variables.items() if body.get("sensitive")}
