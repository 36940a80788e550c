"""Stores the number of visits and the entries of visitors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .postgres import DatabaseConnection

_TABLES = (
    "CREATE TABLE IF NOT EXISTS visits"
    " (one bool PRIMARY KEY DEFAULT true CHECK (one), count bigint NOT NULL)",
    "CREATE TABLE IF NOT EXISTS entries"
    " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),"
    " name text NOT NULL, message text NOT NULL)",
)
# Prevents instances that start at the same time from creating the same table.
_LOCK = "SELECT pg_advisory_lock(7230)"
_COUNT = """INSERT INTO visits (count) VALUES (1)
ON CONFLICT (one) DO UPDATE SET count = visits.count + 1 RETURNING count"""
_SIGN = "INSERT INTO entries (name, message) VALUES ($1, $2)"
_NEWEST = """SELECT name, message, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') FROM entries
ORDER BY id DESC LIMIT 8"""


class Entry(NamedTuple):
    name: str
    message: str
    at: str


class Book:
    def __init__(self, url: str) -> None:
        self._url = url
        self._ready = False

    def visit(self) -> tuple[int, list[Entry]]:
        """Counts a visit. Returns the total number of visits and the latest entries."""
        with self._open() as database:
            [(count,)] = database.execute(_COUNT)
            rows = database.execute(_NEWEST)
        return int(count or 0), [Entry(*(value or "" for value in row)) for row in rows]

    def sign(self, name: str, message: str) -> None:
        with self._open() as database:
            database.execute(_SIGN, name, message)

    def _open(self) -> DatabaseConnection:
        database = DatabaseConnection(self._url)
        if not self._ready:
            for statement in (_LOCK, *_TABLES):
                database.execute(statement)
            self._ready = True
        return database


def address_in(variables: Mapping[str, str]) -> str:
    """Returns DATABASE_URL, or the first variable with the address of a PostgreSQL database; empty if there
    is none."""
    if url := variables.get("DATABASE_URL"):
        return url
    values = (variables[name] for name in sorted(variables))
    return next((value for value in values if value.startswith(("postgresql://", "postgres://"))), "")
