"""The table of commands, from which help is shown, is as new as the files that declare commands."""

from __future__ import annotations

import pytest

from windlass.cli import command_table as tables
from windlass.cli.command_table import CommandTable, GroupLines, command_table


class Computation:
    """Counts how often a table was computed."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, digest: str) -> CommandTable:
        self.count += 1
        return CommandTable(digest, {"shop": GroupLines("A shop", {"list": "List shops"})}, {}, {})


@pytest.fixture
def compute(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Computation()


def test_the_command_table_is_computed_once_and_then_cached(compute):
    assert command_table(compute) == command_table(compute)
    assert compute.count == 1


def test_a_changed_declaration_makes_a_new_table(compute, monkeypatch):
    command_table(compute)
    monkeypatch.setattr(tables, "_DECLARING_FOLDERS", ("cli",))
    command_table(compute)
    assert compute.count == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"digest": 1}', b"\xff"])
def test_an_unreadable_command_table_cache_is_recomputed(compute, tmp_path, content):
    table = command_table(compute)
    (tmp_path / "cache/windlass/commands.json").write_bytes(content)
    assert command_table(compute) == table
    assert compute.count == 2


def test_without_a_writable_cache_the_command_table_is_computed_each_time(compute, tmp_path):
    (tmp_path / "cache").write_text("a file in the place of the folder")
    command_table(compute)
    assert command_table(compute).groups["shop"].about == "A shop"
    assert compute.count == 2
