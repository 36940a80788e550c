"""Finds the variables from which the code of an application takes secrets, and the access to databases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from windlass.base.lazy import lazy_pattern
from windlass.detect.database_names import part_of
from windlass.detect.known_files import KnownFiles
from windlass.detect.own_secrets import is_own_secret
from windlass.detect.required_variables import required_variables

_MAX_FILES: Final = 120
_MAX_FILE_BYTES: Final = 64 << 10
_MAX_BYTES: Final = 2 << 20
"""Maximum bytes of all files together."""
_MAX_NAMES: Final = 20
_CODE_SUFFIXES: Final = (
    ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".go", ".rs", ".rb", ".php", ".java", ".kt", ".ex", ".exs",
    ".prisma", "database.yml",
)  # fmt: skip
_EXAMPLE_FILES: Final = (
    ".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "env.example", ".env",
)  # fmt: skip
_SKIPPED_FOLDERS: Final = frozenset({
    "test", "tests", "spec", "__tests__", "e2e", "docs", "doc", "examples", "example", "node_modules",
    "vendor", "dist", "build", "target", "fixtures", "migrations", "scripts", "static", "public", "assets",
})  # fmt: skip
_TEST_FILE_PATTERN: Final = lazy_pattern(
    r"(?:^|[._/])(?:test|spec|conftest|mock)s?(?:[._]|$)|_test\.", re.IGNORECASE
)
_USUAL_FILE_PATTERN: Final = lazy_pattern(
    r"db|data|conf|setting|mongo|conn|env|main|app|server|index|prisma", re.IGNORECASE
)
"""Matches names of files that usually open the connection."""
_NAME_PATTERN_TEXT: Final = r"([A-Za-z][A-Za-z0-9_]{1,60}+)"
_VARIABLE_READ_PATTERN: Final = lazy_pattern(
    rf"process\.env(?:\.|\[\s*+['\"`]){_NAME_PATTERN_TEXT}"
    rf"|\benv\.(?:str|url|db|get|int)\(\s*+['\"]{_NAME_PATTERN_TEXT}['\"]"
    r"|(?:environ(?:\.get)?[\[(]|\b(?:\w{0,16}[eE]nv\w{0,16}!?|GetString|var|config)\(|(?:[Cc]onfig\w{0,20}|env)\.(?:get|getOrThrow)(?:<\w{1,12}+>)?\("
    rf"|\bENV\[|\bENV\.fetch\(|\$_ENV\[|\$_SERVER\[)\s*+['\"`]{_NAME_PATTERN_TEXT}['\"`]"
    rf"|\b(?:env|envconfig|mapstructure)(?::|=)\"{_NAME_PATTERN_TEXT}"
)
"""Matches code that reads a variable, also by a function of its own, such as `envOrDefault`."""
_DESTRUCTURING_PATTERN: Final = lazy_pattern(r"\{([^{}]{1,600})\}\s*+=\s*+process\.env\b")
_WORD_PATTERN: Final = lazy_pattern(r"[A-Za-z]\w{1,60}+")
_PYDANTIC_FIELD_PATTERN: Final = lazy_pattern(
    r"^[ \t]{1,8}([A-Za-z]\w{1,60}+)[ \t]*+:[ \t]*+(?:str|int|Secret\w{3}|\w*Dsn|\w*Url)\b", re.MULTILINE
)
"""Matches a field of a class of settings, which is read from the variable of this name."""
_EXAMPLE_LINE_PATTERN: Final = lazy_pattern(
    r"^[ \t]*+(?:export[ \t]++)?([A-Za-z]\w{1,60}+)[ \t]*+=", re.MULTILINE
)
_IMPLICIT_READ_PATTERN: Final = lazy_pattern(
    r"\bdj_database_url\.config\(|\benv\.db\(\s*+\)|\benv\.db_url\(\s*+\)"
)
_RAILS_DATABASE_FILE: Final = "config/database.yml"
_ADAPTER_PATTERN: Final = lazy_pattern(r"\badapter: *+(?:postgresql|mysql2|trilogy)\b")
"""Matches settings of Rails, which `DATABASE_URL` replaces."""
_IMPLICIT_NAME: Final = "DATABASE_URL"
_IN_MEMORY_PATTERN: Final = lazy_pattern(r"sqlite", re.IGNORECASE)
"""Matches files whose program has another database if the variables are not set."""
_LOCAL_URL_PATTERN: Final = lazy_pattern(
    r"(?:mongodb|postgres(?:ql)?|mysql)(?:\+\w{1,20})?://[^'\"\s`]{0,80}\b(?:localhost|127\.0\.0\.1)"
    r"|@tcp\((?:localhost|127\.0\.0\.1)|django\.db\.backends\.(?:postgresql|mysql)"
    r"[^{}]{0,300}['\"]HOST['\"][ \t]*+:[ \t]*+['\"](?:localhost|127\.0\.0\.1)"
)
"""Matches the address of a database on the same machine."""
_TEST_VARIABLE_PATTERN: Final = lazy_pattern(r"(?:^|_)(?:TEST|TESTS|CI|SHADOW)(?:_|$)", re.IGNORECASE)
_SSL_VARIABLE_PATTERN: Final = lazy_pattern(
    r"(?:(?:DB|DATABASE|PG|POSTGRES(?:QL)?)_?)?SSL_?MODE|(?:DB|DATABASE|PG|POSTGRES(?:QL)?)_SSL"
)
_DIALECT_VARIABLE_PATTERN: Final = lazy_pattern(r"(?:DB|DATABASE|SQL|TYPEORM)_(?:ENGINE|DIALECT|TYPE|DRIVER)")
SSL: Final = "SSL"
DIALECT: Final = "DIALECT"


class ReadVariable(Struct, frozen=True):
    """A variable with a part of the access to a database, such as HOST."""

    name: str
    part: str
    file: str


class FoundReads(Struct, frozen=True):
    variables: tuple[ReadVariable, ...]
    """Variables with a part of the access to a database."""
    text: str
    """The files that read them."""
    local_address: str
    """A file with the address of a database on the same machine; empty if there is none."""
    own_secrets: Mapping[str, str]
    """Variables with secrets of the application itself, each with the file that reads it."""
    required: Mapping[str, str]
    """Other variables without which the code fails, each with the file that reads it."""


def read_variables(files: KnownFiles) -> FoundReads:
    """Returns the variables that the files read. A file that names SQLite does not count for databases: its
    program runs without one."""
    own_secrets: dict[str, str] = {}
    required: dict[str, str] = {}
    found: dict[str, ReadVariable] = {}
    texts: list[str] = []
    local = ""
    for path in _searched_paths(files):
        text = _read_beginning(files, path)
        if (
            not local
            and path not in _EXAMPLE_FILES
            and _LOCAL_URL_PATTERN.search(text)
            and not _IN_MEMORY_PATTERN.search(text)
        ):
            local = path
        read = [name for name in _read_variable_names(path, text) if not _TEST_VARIABLE_PATTERN.search(name)]
        for name in filter(is_own_secret, read):
            own_secrets.setdefault(name, path)
        for name in required_variables(path, text):
            if not (is_own_secret(name) or _connection_part(name) or _TEST_VARIABLE_PATTERN.search(name)):
                required.setdefault(name, path)
        names = [name for name in read if _connection_part(name)]
        if not names or _IN_MEMORY_PATTERN.search(text):
            continue
        texts.append(text)
        for name in names:
            if len(found) < _MAX_NAMES:
                found.setdefault(name, ReadVariable(name, _connection_part(name), path))
    kept = dict(list(own_secrets.items())[:_MAX_NAMES])
    needed = dict(list(required.items())[:_MAX_NAMES])
    return FoundReads(tuple(found.values()), "\n".join(texts), local, kept, needed)


def _connection_part(name: str) -> str:
    upper = name.upper()
    if part := part_of(upper):
        return part
    if _SSL_VARIABLE_PATTERN.fullmatch(upper):
        return SSL
    return DIALECT if _DIALECT_VARIABLE_PATTERN.fullmatch(upper) else ""


def _read_variable_names(path: str, text: str) -> Iterator[str]:
    if path in _EXAMPLE_FILES:
        yield from (match[1] for match in _EXAMPLE_LINE_PATTERN.finditer(text))
        return
    yield from (next(filter(None, match.groups())) for match in _VARIABLE_READ_PATTERN.finditer(text))
    for match in _DESTRUCTURING_PATTERN.finditer(text):
        yield from (word[0] for word in _WORD_PATTERN.finditer(match[1]))
    if path.endswith(".py") and "BaseSettings" in text and "env_prefix" not in text:
        yield from (match[1].upper() for match in _PYDANTIC_FIELD_PATTERN.finditer(text))
    if _IMPLICIT_READ_PATTERN.search(text) or (
        path == _RAILS_DATABASE_FILE and _ADAPTER_PATTERN.search(text)
    ):
        yield _IMPLICIT_NAME


def _searched_paths(files: KnownFiles) -> list[str]:
    """Returns the files to look at: those whose names are usual for a connection first."""
    paths = [
        f"{folder}/{name}".strip("/")
        for folder in ("", *files.tree.folders())
        if _SKIPPED_FOLDERS.isdisjoint(folder.split("/")) and not folder.startswith(".")
        for name in files.tree.names(folder)
        if name.endswith(_CODE_SUFFIXES) and not _TEST_FILE_PATTERN.search(name)
    ]
    examples = [name for name in _EXAMPLE_FILES if files.has(name)]
    usual = sorted(paths, key=lambda path: (not _USUAL_FILE_PATTERN.search(path), path.count("/"), path))
    return [*usual[:_MAX_FILES], *examples]  # the code has the last word about where a name comes from


def _read_beginning(files: KnownFiles, path: str) -> str:
    """Returns the beginning of a file; empty if it cannot be read, or enough has been read."""
    if files.tree.bytes_read > _MAX_BYTES:
        return ""
    try:
        return files.tree.read(path, _MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
