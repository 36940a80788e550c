"""The table of commands has those of the server too, where the server is installed."""

from __future__ import annotations

from windlass.cli.main import compute_table, own_names


def test_the_command_table_has_a_summary_for_each_command():
    table = compute_table("digest")
    assert {*table.others} == {*own_names()}
    assert {"serve", "doctor", "backup"} <= table.machine.keys()
    lines = [
        *table.others.values(),
        *(line for group in table.groups.values() for line in group.words.values()),
    ]
    assert len(lines) > 150
    assert all(lines)
