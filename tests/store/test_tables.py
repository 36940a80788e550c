"""Tables: what only reads cannot write, and each table says in its own file what it asks the database."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

from tests.tables import rows
from windlass.store import DatabaseSession, Reads, Tx
from windlass.store.postgres import ALL_STATEMENTS, READING_STATEMENTS
from windlass.store.tables import facts
from windlass.store.tables.facts import FactChanges, FactTable
from windlass.store.tables.table import ChangeSession, Table


class NoSession:
    """A session that nothing is asked of."""

    async def one(self, statement: str, *values: object) -> None:
        raise AssertionError

    async def all(self, statement: str, *values: object) -> list[tuple[object]]:
        raise AssertionError

    async def many(self, statement: str, rows: object) -> None:
        raise AssertionError


NAMES = [name for name in Reads.__slots__ if name != "session"]


def writing(table: type[Table]) -> set[str]:
    """Statements that change something, by name, in the methods of a class and its bases."""
    return {
        name
        for part in table.__mro__
        if issubclass(part, Table)
        for method in vars(part).values()
        if inspect.isfunction(method)
        for name in _statements(method.__code__.co_names, inspect.getmodule(part))
    }


def _statements(names: tuple[str, ...], module: ModuleType | None) -> Iterator[str]:
    for name in names:
        text = vars(module).get(name)
        if isinstance(text, str) and text in ALL_STATEMENTS.values() and text not in READING_STATEMENTS:
            yield name


@rows("name", NAMES)
def test_read_only_tables_have_no_method_that_writes(name: str):
    table = getattr(Reads(session()), name)
    assert writing(type(table)) == set()
    assert not isinstance(table._session, ChangeSession)


def test_the_check_finds_a_reading_table_that_writes():
    assert writing(FactChanges) == {"SET"}
    assert facts.SET not in READING_STATEMENTS


@rows("name", NAMES)
def test_a_transaction_has_a_writable_form_of_every_readable_table(name: str):
    reading, changing = getattr(Reads(session()), name), getattr(Tx(session()), name)
    assert isinstance(changing, type(reading))
    assert isinstance(changing._session, ChangeSession)


def test_facts_can_be_set_only_in_a_transaction():
    assert not hasattr(Reads(session()).facts, "set")
    assert type(Reads(session()).facts) is FactTable
    assert type(Tx(session()).facts) is FactChanges


def session() -> DatabaseSession:
    return NoSession()
