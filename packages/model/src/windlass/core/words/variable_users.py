"""Finds the variables of a service whose value contains that of another variable. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from windlass.core.words.variables import DeclaredVariable, mentioned_names


class VariableUsers(Struct, frozen=True):
    """What becomes of a variable in a service."""

    is_effective: bool
    """Whether the service gets the variable under its own key, as no nearer level has another one."""
    keys: Sequence[str]
    """Keys of other variables that the service gets, whose value contains that of the variable: those that
    mention it, are aliases of it, or mention such a variable."""


class VariableIndex:
    """Indexes the variables of one level by the names that their values mention. Each value is read once,
    and is not kept."""

    def __init__(self, entries: Iterable[DeclaredVariable] = ()) -> None:
        self.by_id: dict[str, DeclaredVariable] = {}
        self.by_key: dict[str, DeclaredVariable] = {}
        self.aliases: defaultdict[str, list[DeclaredVariable]] = defaultdict(list)
        """Aliases by the id of the variable for which they stand."""
        self.users: defaultdict[str, list[DeclaredVariable]] = defaultdict(list)
        """Variables by a name that their value mentions."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: DeclaredVariable, *, reads_value: bool = True) -> int:
        """Adds a variable. Returns how many names its value mentions; 0 without `reads_value`."""
        names = {*mentioned_names(entry.value)} if reads_value and entry.interpolated else ()
        entry = msgspec.structs.replace(entry, value="")
        self.by_id[entry.id] = entry
        self.by_key.setdefault(entry.key, entry)
        if entry.stands_for:
            self.aliases[entry.stands_for].append(entry)
            return 0
        for name in names:
            self.users[name].append(entry)
        return len(names)


def users_of(levels: Sequence[VariableIndex], id: str) -> VariableUsers:
    """Returns the uses of the variable with this id. The nearest level comes first, and built-in variables
    come last."""
    used = next((level.by_id[id] for level in levels if id in level.by_id), None)
    if used is None:
        return VariableUsers(is_effective=False, keys=())
    found, passed, waiting = list[str](), {id}, [used]
    while waiting:
        for user in _direct_users(levels, waiting.pop()):
            if user.id in passed:
                continue
            passed.add(user.id)
            waiting.append(user)
            if _is_chosen(levels, user):
                found.append(user.key)
    return VariableUsers(_is_chosen(levels, used), sorted(found))


def _direct_users(levels: Sequence[VariableIndex], used: DeclaredVariable) -> Iterator[DeclaredVariable]:
    """Yields the variables that stand for a variable, or mention it."""
    is_mentioned = _is_chosen(levels, used)
    for level in levels:
        yield from level.aliases.get(used.id, ())
        if is_mentioned:
            yield from level.users.get(used.key, ())


def _is_chosen(levels: Sequence[VariableIndex], entry: DeclaredVariable) -> bool:
    """Returns whether the service gets a variable under its own key."""
    nearest = next(level.by_key[entry.key] for level in levels if entry.key in level.by_key)
    return nearest.id == entry.id
