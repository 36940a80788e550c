"""The two vocabularies of the one model, each with its base path."""

from __future__ import annotations

from windlass.control.context.call import Dialect
from windlass.core.deploy import states
from windlass.core.words import events

PLAIN = Dialect(name="plain", state=states.plain, event=events.plain)
FULL = Dialect(
    name="full",
    state=states.full,
    exact=states.full,
    event=events.full,
)

BASES = (("/api/v1", PLAIN), ("/compat", FULL))
_PREFIXES = tuple(base for base, _ in BASES)


def split_base(path: str) -> tuple[str, Dialect]:
    """Returns the path below its base, and the dialect of the base."""
    if not path.startswith(_PREFIXES):  # most paths have no base
        return path, PLAIN
    for base, dialect in BASES:
        if path.startswith(base) and path[len(base) : len(base) + 1] in {"", "/"}:
            return path[len(base) :] or "/", dialect
    return path, PLAIN
