"""Migrations: numbered SQL files, applied in order, each once, each as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

RECORDS: Final = """
CREATE TABLE IF NOT EXISTS migration (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL
)"""
APPLIED: Final = "SELECT number, checksum FROM migration"
RECORD: Final = "INSERT INTO migration (number, name, checksum) VALUES ($1, $2, $3)"


class Changed(Exception):
    """The database was not made by the migrations of this version."""


class Migration(Struct, frozen=True):
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        lines = (line for line in self.text.splitlines() if not line.startswith("--"))
        return [statement for statement in "\n".join(lines).split(";\n") if statement.strip(" \n;")]

    @property
    def record(self) -> tuple[int, str, str]:
        return self.number, self.name, self.checksum


def find_missing(wanted: Sequence[Migration], applied: Mapping[int, str]) -> list[Migration]:
    """Returns the migrations to apply; refuses a database of a later or an altered version."""
    later = applied.keys() - {migration.number for migration in wanted}
    if later:
        raise Changed(
            f"this database was brought to its present form ({max(later):04d}) by a later version of "
            "Windlass: start that version, or restore a backup from before into an empty database"
        )
    for migration in wanted:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise Changed(
                f"the migration {migration.name} was changed after it had been applied to this database: "
                "install an unaltered Windlass"
            )
    return [migration for migration in wanted if migration.number not in applied]


def newest() -> int:
    """Returns the number of the schema that this version has."""
    return migrations()[-1].number


@cache
def migrations() -> Sequence[Migration]:
    files = sorted((Path(__file__).parent / "migrations").glob("*.sql"))
    return [Migration(int(file.name[:4]), file.name, file.read_text()) for file in files]
