"""`windlass serve --migrate-only` migrates the database, and starts no server."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.operate.test_commands import check_plain, run
from windlass.config import DATABASE
from windlass.store.migrate import migrations


def applied(folder: Path) -> list[int]:
    with sqlite3.connect(folder / DATABASE) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM migration ORDER BY number")]


def test_the_database_is_migrated_and_no_server_is_started(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for _ in range(2):
        ended = run("serve", "--migrate-only", WINDLASS_DATA_DIR=str(folder))
        assert (ended.exit_code, ended.stdout) == (0, ""), ended
        assert applied(folder) == [migration.number for migration in migrations()]
    assert all(file.name.startswith(DATABASE) for file in folder.iterdir()), "no key, and no first steps"


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    run("serve", "--migrate-only", WINDLASS_DATA_DIR=str(tmp_path))
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("INSERT INTO migration VALUES (9999, 'later', 'x')")
    ended = run("serve", "--migrate-only", WINDLASS_DATA_DIR=str(tmp_path))
    check_plain(ended, 1, "by a later version of Windlass")
