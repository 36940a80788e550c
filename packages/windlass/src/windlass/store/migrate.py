"""Migrations: numbered SQL files. Each is applied once, in order, and in one transaction."""

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


FIRST_BEFORE_RELEASE: Final = "04d8820f4a977410f6a7acd751008d7f144ab209e0415a6f226b90e93bdb3dd3"
"""The checksum of the first migration of versions before 0.1.0."""
LAST_BEFORE_RELEASE: Final = (38, "117459f8c79bff5e42b1860c8af5a5c21e020d80812c2bc4b41aad0814365a6d")
"""The number and checksum of the last migration before 0.1.0. After it, the tables are the same as in
0.1.0."""
EXPORTER: Final = "4a939003"
"""The last commit before 0.1.0. Its backups can be restored."""
BEFORE_RELEASE: Final = (
    f"Install commit {EXPORTER} of Windlass, start it once, and make a backup with it; then restore that "
    "backup with this version into an empty database (docs/versions.md): "
    "this one is of a version before 0.1.0"
)


class Changed(Exception):
    """Raised if the database was not created by the migrations of this version."""


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


def find_missing(migrations: Sequence[Migration], applied_migrations: Mapping[int, str]) -> list[Migration]:
    """Returns the migrations that are not applied yet. Raises Changed for a database of a later or modified
    version."""
    if applied_migrations.get(1) == FIRST_BEFORE_RELEASE:
        raise Changed(BEFORE_RELEASE)
    later = applied_migrations.keys() - {migration.number for migration in migrations}
    if later:
        raise Changed(
            f"this database was brought to its present form ({max(later):04d}) by a later version of "
            "Windlass: start that version, or restore a backup from before into an empty database"
        )
    for migration in migrations:
        if applied_migrations.get(migration.number, migration.checksum) != migration.checksum:
            raise Changed(
                f"the migration {migration.name} was changed after it had been applied to this database: "
                "install an unaltered Windlass"
            )
    return [migration for migration in migrations if migration.number not in applied_migrations]


def in_form_of_release(applied_migrations: Mapping[int, str]) -> Mapping[int, str]:
    """Returns the applied migrations of a backup, with the numbers of this version.

    The migrations before 0.1.0 result in the same tables as the first migration of 0.1.0.
    """
    number, checksum = LAST_BEFORE_RELEASE
    if max(applied_migrations, default=0) == number and applied_migrations[number] == checksum:
        return {first.number: first.checksum for first in migrations()[:1]}
    return applied_migrations


def newest() -> int:
    """Returns the number of the newest migration of this version."""
    return migrations()[-1].number


@cache
def migrations() -> Sequence[Migration]:
    files = sorted((Path(__file__).parent / "migrations").glob("*.sql"))
    return [Migration(int(file.name[:4]), file.name, file.read_text()) for file in files]
