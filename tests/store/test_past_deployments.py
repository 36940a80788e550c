"""Lists of past deployments do not read workloads."""

from __future__ import annotations

import sqlite3
from importlib import resources

import pytest

from windlass.store.tables import deployments

_WORKLOAD_COLUMN = 9


@pytest.mark.parametrize("name", ["GET_PAST", "LATEST_UP_TO_NUMBER", "ENDED", "OF_ENVIRONMENT", "OF_MOMENT"])
def test_a_list_reads_no_column_at_or_behind_the_workload(name: str):
    connection = sqlite3.connect(":memory:")
    for script in sorted(resources.files("windlass.store").joinpath("migrations").iterdir(), key=str):
        if script.name.endswith(".sql"):
            connection.executescript(script.read_text())
    [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'deployment'")
    statement = "EXPLAIN " + getattr(deployments, name)
    steps = connection.execute(statement, {str(number): 1 for number in range(1, 5)}).fetchall()
    of_table = {first for _, code, first, second, *_ in steps if code == "OpenRead" and second == root}
    read = {second for _, code, first, second, *_ in steps if code == "Column" and first in of_table}
    assert read
    assert max(read) < _WORKLOAD_COLUMN, f"{name} reads column {max(read)}"
