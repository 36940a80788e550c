"""Computes the variables and files that a service runs with from the declarations at all levels. Pure.

A value may reference other variables, as in `postgres://{{DB_USER}}@{{DB_HOST}}`. References can name all
visible variables, and referenced values may contain references, too. An inserted value is not scanned again.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from msgspec import Struct

# Linux limits a single variable to 128 KiB, including `KEY=` and the final NUL, and all variables to about 2
# MiB.
MAX_VARIABLE_BYTES: Final = 128 * 1024 - 2
MAX_VARIABLES_BYTES: Final = 1024 * 1024
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_FILES_BYTES: Final = 8 * 1024 * 1024
PATH_OF_FILE: Final = (
    "must be the absolute path of a file, such as /etc/app.conf, without ., .. or // in it, "
    "and not end with a slash"
)
PART_OF_PATH: Final = r"(\.{0,2}[^/.\x00-\x1f][^/\x00-\x1f]*|\.{3}[^/\x00-\x1f]*)"
"""Matches a path segment other than . and .., which engines would interpret differently."""
FILE_PATTERN: Final = rf"^(/{PART_OF_PATH})+\Z"
"""Matches a path that every engine uses unchanged."""
MAX_REFERENCE_DEPTH: Final = 32
"""Maximum length of a chain of references."""

MAX_UNKNOWN_NAMES: Final = 1000
"""Maximum number of different names that values mention and that no variable has. They are part of the digest
of a service, with which each status is compared."""
MAX_MENTIONS: Final = 20_000
"""Maximum number of mentions in all values and files of a service. An empty value can be mentioned any number
of times without making another one longer."""
_MIN_SIMILARITY: Final = 0.85
_MAX_CORRECTED_NAMES: Final = 10
"""Maximum number of unknown names for which a similar name is looked for."""
_MAX_COMPARED_NAMES: Final = 200
_MAX_COMPARED_NAME_LENGTH: Final = 64
"""Maximum length of a compared name. The time of a comparison grows with the square of the length."""

_MENTION_PATTERN = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_.-]*)\}\}")


def has_references(value: str) -> bool:
    """Returns whether the value contains a reference to another variable."""
    return _MENTION_PATTERN.search(value) is not None


def mentioned_names(value: str) -> list[str]:
    """Returns the names that a value mentions, in their order."""
    return _MENTION_PATTERN.findall(value)


class UnresolvableVariable(Exception):
    """A process cannot run with these variables. The message is for the person who deployed."""


class DeclaredVariable(Struct, frozen=True, kw_only=True):
    """A variable or secret as declared at one level."""

    id: str
    key: str
    value: str = ""
    secret: bool = False
    mount_path: str = ""
    """The path of a file with the value as content; the variable then contains this path. Empty for no
    file."""
    interpolated: bool = True
    """Returns whether references in the value are resolved."""
    stands_for: str = ""
    """The id of the aliased entry, whose value replaces the alias's own; empty if the entry is no alias."""


class Inputs(Struct, frozen=True, kw_only=True):
    """The variables and files that a service runs with, and a digest of all of them."""

    variables: dict[str, str]
    files: dict[str, bytes]
    """File contents by path in the service."""
    secrets: frozenset[str]
    """Names of variables that must not appear in build logs and images."""
    secret_files: frozenset[str] = frozenset()
    """Paths of files that must not appear in build logs and images."""
    arguments: dict[str, str]
    """Build arguments: all variables that are not secret."""
    declared: frozenset[str] = frozenset()
    """Names of variables that users declared; all others are built in."""
    warnings: tuple[str, ...] = ()
    """Warnings for the build log."""
    digest: str

    @property
    def hidden(self) -> list[str]:
        """The values of secrets, which are masked in logs."""
        files = [self.files[path].decode(errors="replace") for path in self.secret_files]
        return [*(self.variables[key] for key in self.secrets), *files]


class ResolvedVariables(Struct, frozen=True):
    variables: dict[str, str]
    files: dict[str, bytes]
    secrets: frozenset[str]
    """Keys whose values are secret or contain a secret."""
    warnings: tuple[str, ...]
    secret_files: frozenset[str] = frozenset()
    """Paths of files that are secret or contain a secret."""
    used: frozenset[str] = frozenset()
    """Ids of entries that other entries reference or alias."""
    missing: frozenset[str] = frozenset()
    """Referenced names that do not exist."""


def resolve(levels: Sequence[Sequence[DeclaredVariable]]) -> ResolvedVariables:
    """Resolves the variables of all levels. The nearest level comes first, and built-in variables come last.
    The first level with a key takes precedence."""
    warnings: list[str] = []
    used: set[str] = set()
    chosen = _choose_entries(levels, warnings, used)
    reading = _Expansion(chosen)
    texts = _resolve_texts(chosen, reading)
    files, secret_files = _resolve_files(chosen, reading)
    return ResolvedVariables(
        {key: text.value for key, text in texts.items()},
        files,
        frozenset(key for key, text in texts.items() if text.secret),
        (*warnings, *reading.warnings),
        secret_files,
        frozenset(used | reading.used),
        frozenset(reading.missing),
    )


def _choose_entries(
    levels: Sequence[Sequence[DeclaredVariable]], warnings: list[str], used_ids: set[str]
) -> dict[str, DeclaredVariable]:
    """Returns the effective entry of each key. Aliases receive the value of the aliased entry, whose id is
    added to `used_ids`."""
    entries = {entry.id: entry for level in levels for entry in level}
    chosen: dict[str, DeclaredVariable] = {}
    for entry in (entry for level in levels for entry in level):
        if entry.key in chosen:
            continue
        filled = _follow_aliases(entry, entries, used_ids)
        if filled is None:
            warnings.append(f"{entry.key} stands for something that is there no more, and is left out")
        else:
            chosen[entry.key] = filled
    return chosen


def _follow_aliases(
    entry: DeclaredVariable, entries: Mapping[str, DeclaredVariable], used_ids: set[str]
) -> DeclaredVariable | None:
    """Follows a chain of aliases to the entry with the value. None if the chain is broken or circular."""
    other, passed = entry, set[str]()
    while other.stands_for:
        passed.add(other.id)
        following = entries.get(other.stands_for)
        if following is None or following.id in passed:
            return None
        other = following
        used_ids.add(other.id)
    if other is entry:
        return entry
    return DeclaredVariable(
        id=entry.id,
        key=entry.key,
        value=other.value,
        secret=entry.secret or other.secret,
        mount_path=other.mount_path,
        interpolated=other.interpolated,
        stands_for=entry.stands_for,
    )


class _Text(NamedTuple):
    value: str
    size: int
    secret: bool


class _Expansion:
    """Replaces references in values by the values of the variables. Each variable is resolved only once."""

    def __init__(self, entries: Mapping[str, DeclaredVariable]) -> None:
        self.warnings: list[str] = []
        self.used: set[str] = set()
        self.missing: set[str] = set()
        self._entries = entries
        self._mentions = 0
        self._told: set[tuple[str, str]] = set()
        """The key of each value, with each unknown name, of which a warning was given."""
        self._similar: dict[str, str] = {}
        """Names that are similar to unknown ones; empty for none."""
        self._done: dict[str, _Text] = {}
        self._way: list[str] = []
        """The keys of the current chain of references."""

    def of(self, key: str) -> _Text:
        """Returns the resolved value of a key."""
        if key not in self._done:
            self._done[key] = self._read(self._entries[key])
        return self._done[key]

    def _read(self, entry: DeclaredVariable) -> _Text:
        if entry.mount_path:
            return _sized_text(entry.mount_path, secret=False)
        if "\0" in entry.value:
            raise UnresolvableVariable(
                f"{entry.key}: no process takes a variable with a NUL in it: make it a file"
            )
        most = MAX_VARIABLE_BYTES - len(entry.key)
        self._enter_reference(entry.key)
        text = self.fill(entry, most)
        self._way.pop()
        return text

    def _enter_reference(self, key: str) -> None:
        if key in self._way:
            circle = [*self._way[self._way.index(key) :], key]
            raise UnresolvableVariable(
                f"{key}: mentions itself ({' → '.join(circle)}): take one of these out"
            )
        if len(self._way) == MAX_REFERENCE_DEPTH:
            raise UnresolvableVariable(
                f"{self._way[0]}: mentions names that mention names, more than {MAX_REFERENCE_DEPTH} deep: "
                "put the value itself in one of them"
            )
        self._way.append(key)

    def fill(self, entry: DeclaredVariable, limit: int) -> _Text:
        """Returns the value with its references replaced. Raises UnresolvableVariable if the result is too
        long."""
        if not entry.interpolated:
            return _check_size(entry, [_sized_text(entry.value, secret=entry.secret)], limit)
        parts: list[_Text] = []
        size = 0
        for part in self._text_parts(entry):
            size += part.size
            parts.append(part)
            if size > limit:
                break
        return _check_size(entry, parts, limit)

    def _text_parts(self, entry: DeclaredVariable) -> Iterable[_Text]:
        pieces = _MENTION_PATTERN.split(entry.value)
        self._mentions += len(pieces) // 2
        if self._mentions > MAX_MENTIONS:
            raise UnresolvableVariable(
                f"{entry.key}: mentions names, more than {MAX_MENTIONS} times with other values: write what "
                "they stand for in its place, or make it a file without interpolation"
            )
        for place, piece in enumerate(pieces):
            if place % 2 == 0:
                yield _sized_text(piece, secret=entry.secret)
            elif piece in self._entries:
                self.used.add(self._entries[piece].id)
                yield self.of(piece)
            else:
                self._note_unknown_name(entry, piece)
                yield _sized_text(f"{{{{{piece}}}}}", secret=entry.secret)

    def _note_unknown_name(self, entry: DeclaredVariable, name: str) -> None:
        if name not in self.missing and len(self.missing) == MAX_UNKNOWN_NAMES:
            raise UnresolvableVariable(
                f"{entry.key}: mentions names that no variable here has, more than {MAX_UNKNOWN_NAMES} with "
                "those of other values: write them without braces, or make it a file, which keeps them"
            )
        self.missing.add(name)
        # In a secret, text that looks like a reference may be part of the secret, so it is not shown.
        shown = "" if entry.secret else name
        if (entry.key, shown) in self._told or len(self._told) == MAX_UNKNOWN_NAMES:
            return
        self._told.add((entry.key, shown))
        what = f"{{{{{shown}}}}}" if shown else "a name"
        alike = self._similar_name(shown) if shown else ""
        meant = f" (did you mean {{{{{alike}}}}}?)" if alike else ""
        self.warnings.append(
            f"{entry.key} mentions {what} that no variable here has{meant}: it stays as it is written"
        )

    def _similar_name(self, name: str) -> str:
        """Returns the name of a variable that is similar to an unknown name; empty if there is none, and
        after many unknown names."""
        if name not in self._similar:
            if len(self._similar) == _MAX_CORRECTED_NAMES or len(name) > _MAX_COMPARED_NAME_LENGTH:
                return ""
            least, most = (
                len(name) * _MIN_SIMILARITY,
                min(len(name) / _MIN_SIMILARITY, _MAX_COMPARED_NAME_LENGTH),
            )
            names = [key for key in self._entries if least <= len(key) <= most]
            alike = get_close_matches(name, names[:_MAX_COMPARED_NAMES], 1, _MIN_SIMILARITY)
            self._similar[name] = alike[0] if alike else ""
        return self._similar[name]


def _sized_text(value: str, *, secret: bool) -> _Text:
    return _Text(value, len(value.encode()), secret)


def _check_size(entry: DeclaredVariable, parts: Sequence[_Text], limit: int) -> _Text:
    size = sum(part.size for part in parts)
    if size > limit:
        mentioned = " with what it mentions" if len(parts) > 1 else ""
        raise UnresolvableVariable(
            f"{entry.key}: is longer than {limit} bytes{mentioned}: make it shorter, or make it a file"
            if not entry.mount_path
            else f"{entry.key}: its file is longer than {limit} bytes{mentioned}: make it shorter"
        )
    return _Text("".join(part.value for part in parts), size, any(part.secret for part in parts))


def _resolve_texts(keys: Iterable[str], expansion: _Expansion) -> dict[str, _Text]:
    """Resolves the chosen variables. Stops at the size limit, because thousands of short values may refer to
    a long value."""
    texts: dict[str, _Text] = {}
    whole = 0
    for key in keys:
        texts[key] = expansion.of(key)
        whole += len(key) + texts[key].size + 2
        if whole > MAX_VARIABLES_BYTES:
            longest = max(texts, key=lambda key: texts[key].size)
            raise UnresolvableVariable(
                f"{longest}: all variables together are longer than {MAX_VARIABLES_BYTES} bytes, "
                "and this is the longest: make it shorter, or make it a file"
            )
    return texts


def _resolve_files(
    entries: Mapping[str, DeclaredVariable], expansion: _Expansion
) -> tuple[dict[str, bytes], frozenset[str]]:
    files: dict[str, bytes] = {}
    secret: set[str] = set()
    owners: dict[str, str] = {}
    size = 0
    # An alias contains the path of its target's file. It creates a file only if no other entry does.
    for entry in sorted(entries.values(), key=lambda entry: bool(entry.stands_for)):
        if not entry.mount_path:
            continue
        path = _file_path(entry)
        if path in files and entry.stands_for:
            continue
        if path in files:
            raise UnresolvableVariable(
                f"{entry.key}: {owners[path]} is mounted at {path} too: give one another mount_path"
            )
        text = expansion.fill(entry, MAX_FILE_BYTES)
        files[path] = text.value.encode()
        if text.secret:
            secret.add(path)
        owners[path] = entry.key
        size += text.size
        if size > MAX_FILES_BYTES:
            raise _files_too_large(files)
    _refuse_files_in_files(owners)
    return files, frozenset(secret)


def _file_path(entry: DeclaredVariable) -> str:
    path = entry.mount_path
    if not re.match(FILE_PATTERN, path):
        raise UnresolvableVariable(f"{entry.key}: its mount_path {path} names no file: {PATH_OF_FILE}")
    return path


def _refuse_files_in_files(owners: Mapping[str, str]) -> None:
    for path, key in owners.items():
        above = posixpath.dirname(path)
        while above != "/":
            if above in owners:
                raise UnresolvableVariable(
                    f"{key}: is mounted at {path}, but {above} is a file, of {owners[above]}: give one "
                    "another mount_path"
                )
            above = posixpath.dirname(above)


def _files_too_large(files: Mapping[str, bytes]) -> UnresolvableVariable:
    longest = max(files, key=lambda path: len(files[path]))
    return UnresolvableVariable(
        f"{longest}: all files together are longer than {MAX_FILES_BYTES} bytes, "
        "and this is the longest: make it shorter"
    )
