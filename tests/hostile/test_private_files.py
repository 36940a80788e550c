"""Other users of the machine read nothing of a data directory, whatever the umask and the folder's mode."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.webhooks.receivers import Receivers
from tests.world import make_world
from windlass.base.private import private_folder


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """A umask that gives everything to everybody, as some images have it."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A data directory that another user has made."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    return folder


def open_to_others(folder: Path) -> list[str]:
    """Returns the files that other users can reach and read."""
    found = []
    for entry in folder.iterdir():
        mode = stat.S_IMODE(entry.stat().st_mode)
        if mode & 0o066:
            found.append(entry.name)
        if entry.is_dir() and mode & 0o011:
            found += [f"{entry.name}/{name}" for name in open_to_others(entry)]
    return sorted(found)


async def test_no_file_in_a_traversable_data_directory_is_readable_by_other_users(prepared: Path):
    async with make_world(folder=prepared, out=Receivers()) as world:
        app = await world.application()
        await world.post(f"/application/{app}/secret", {"key": "A", "value": "b"})
        await world.post(f"/application/{app}/deploy")
        await world.settle()
        assert (prepared / "logs").is_dir()
        assert {entry.name for entry in prepared.iterdir()} >= {"windlass.db", "windlass.db-wal", "key"}
        assert open_to_others(prepared) == []
    assert open_to_others(prepared) == []


async def test_a_start_makes_files_of_an_earlier_version_private_and_logs_them(
    prepared: Path, caplog: pytest.LogCaptureFixture
):
    async with make_world(folder=prepared):
        pass
    for path in prepared.iterdir():
        path.chmod(0o755 if path.is_dir() else 0o644)
    (prepared / "builds").mkdir(mode=0o755, exist_ok=True)
    assert open_to_others(prepared), "without this, nothing would have to be closed"
    with caplog.at_level(logging.WARNING):
        async with make_world(folder=prepared):
            assert open_to_others(prepared) == []
    (said,) = [record for record in caplog.records if "other users of this machine" in record.getMessage()]
    assert "key" in said.files  # type: ignore[attr-defined]


def test_a_folder_is_made_private_with_those_above_it(prepared: Path):
    private_folder(prepared / "builds" / "service" / "build")
    assert open_to_others(prepared) == []


def test_the_check_finds_a_folder_that_other_users_can_list(tmp_path: Path):
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open" / "file").write_text("x")
    assert open_to_others(tmp_path) == ["open", "open/file"]
