"""Finds the variables of a service whose value contains that of another variable. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from windlass.core.words.variables import DeclaredVariable, mentioned_names


class VariableUsers(Struct, frozen=True):
    """What becomes of a variable in a service."""

    is_effective: bool
    """Whether the service gets the variable under its own key, as no nearer level has another one."""
    keys: Sequence[str]
    """Keys of other variables that the service gets, whose value contains that of the variable: those that
    mention it, are aliases of it, or mention such a variable."""


def users_of(levels: Sequence[Sequence[DeclaredVariable]], id: str) -> VariableUsers:
    """Returns the uses of the variable with this id. The nearest level comes first, and built-in variables
    come last."""
    entries = {entry.id: entry for level in levels for entry in level}
    chosen: dict[str, DeclaredVariable] = {}
    for level in levels:
        for entry in level:
            chosen.setdefault(entry.key, entry)
    users: defaultdict[str, list[str]] = defaultdict(list)
    for entry in chosen.values():
        for part in {*_parts_of(entry, entries, chosen)}:
            users[part].append(entry.key)
    found: dict[str, None] = {}
    waiting = [id]
    while waiting:
        for key in users.get(waiting.pop(), ()):
            if key not in found and chosen[key].id != id:
                found[key] = None
                waiting.append(chosen[key].id)
    return VariableUsers(any(entry.id == id for entry in chosen.values()), sorted(found))


def _parts_of(
    entry: DeclaredVariable,
    entries: Mapping[str, DeclaredVariable],
    chosen: Mapping[str, DeclaredVariable],
) -> Iterator[str]:
    """Yields the ids of the variables for which an entry stands, or which its value mentions."""
    last, passed = entry, set[str]()
    while last.stands_for and last.id not in passed:
        passed.add(last.id)
        yield last.stands_for
        if last.stands_for not in entries:
            return
        last = entries[last.stands_for]
    if last.interpolated:
        for name in mentioned_names(last.value):
            if name in chosen:
                yield chosen[name].id
