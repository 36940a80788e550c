"""Commands in containers are named by files, for which no server waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base import filelock
from windlass.docker.execution import ExecutionFiles


def test_a_lock_file_held_by_a_paused_server_does_not_block_another_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    held = filelock.try_hold(tmp_path / "held")
    assert held is not None
    marks = iter(["held", "free"])
    monkeypatch.setattr("secrets.token_hex", lambda _: next(marks))
    mark, descriptor = ExecutionFiles(tmp_path).begin("container")
    assert (mark, (tmp_path / mark).read_text()) == ("free", "container")
    ExecutionFiles(tmp_path).end(mark, descriptor)
    assert not (tmp_path / mark).exists()
