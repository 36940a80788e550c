"""A disk that is full refuses writes, keeps all that was acknowledged, and disturbs no reader."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from tests.store.changes import MEGABYTE, adds, fails_late, together
from tests.store.stores import ORG, Place, names
from tests.world import make_world
from windlass.api.answers import error_answer
from windlass.base.errors import NO_DATA, READ_ONLY, Unavailable
from windlass.store import Store, Write, sqlite
from windlass.store.sqlite import SqliteStore


def bounded(store: Store, more: int) -> None:
    """Lets the file grow by so many pages only."""
    assert isinstance(store, SqliteStore)
    pages = store._writer.pragma("page_count") + more
    store._writer.pragma("max_page_count", pages)


def unbounded(store: Store) -> None:
    assert isinstance(store, SqliteStore)
    store._writer.pragma("max_page_count", 2**30)


async def test_on_a_full_disk_writes_are_refused_and_whatever_was_acknowledged_stays(embedded: Place):
    async with embedded.opened() as store:
        bounded(store, 100)
        writes = [store.write(adds(f"n{number}", body=b"x" * 50_000)) for number in range(5)]
        kept = [row.name for row in await asyncio.gather(*writes)]
        for number in range(10):
            before = await names(store)
            group = [adds(f"m{number}.{member}", body=b"x" * 50_000) for member in range(3)]
            outcomes = await together(*(store.write(change) for change in group))
            refused = [isinstance(outcome, Unavailable) for outcome in outcomes]
            assert set(refused) in ({True}, {False})
            if not refused[0]:
                kept += [row.name for row in outcomes]
                continue
            assert "nothing was changed. Is the disk full?" in outcomes[0].message
            assert await names(store) == before
        rows = await store.reads.resources.of_parent(ORG, "project")
        assert [row.name for row in rows] == kept
        assert 5 <= len(rows) < 35
        assert len(await store.reads.events.after(ORG)) == len(rows)
        unbounded(store)
        await store.write(adds("after", body=MEGABYTE))
    async with embedded.opened() as store:
        rows = await store.reads.resources.of_parent(ORG, "project")
        assert [row.name for row in rows] == [*kept, "after"]


@pytest.mark.parametrize("others", [(), (fails_late,)], ids=["alone", "with a failure"])
@pytest.mark.parametrize(
    "big", [adds("big", body=MEGABYTE), lambda tx: tx.facts.set("big", MEGABYTE)], ids=["late", "at once"]
)
async def test_a_disk_that_is_full_in_the_middle_of_a_group_stores_none_of_it(
    embedded: Place, big: Write[Any], others: tuple[Write[Any], ...]
):
    """SQLite then ends the transaction by itself: what follows must not be stored one by one."""
    async with embedded.opened() as store:
        before = await embedded.everything()
        bounded(store, 60)
        group = [adds("small"), big, adds("small too"), *others]
        outcomes = await together(*(store.write(change) for change in group))
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
        assert await embedded.everything() == before


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """The system lets no file of this process grow beyond it, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_commit_that_the_disk_refuses_stores_nothing_and_the_next_one_works(embedded: Place):
    async with embedded.opened() as store:
        await store.write(adds("first"))
        before = await embedded.everything()
        log = embedded.file.with_name(embedded.file.name + "-wal")
        with files_up_to(log.stat().st_size + 20_000):
            outcomes = await together(*(store.write(adds(f"n{n}", body=b"x" * 9_000)) for n in range(10)))
            assert [type(outcome) for outcome in outcomes] == [Unavailable] * 10
            assert await names(store) == ["first"]
        assert await embedded.everything() == before
        await store.write(adds("second"))
    async with embedded.opened() as store:
        assert await names(store) == ["first", "second"]


async def test_a_full_disk_is_reported_over_http_and_reading_continues(tmp_path: Path, monkeypatch):
    async with make_world(folder=tmp_path) as world:
        project = await world.project()
        bounded(world.installation.ctx.store, 5)
        path = f"/organization/{world.org}/project"
        answer = await world.post(path, {"name": "big", "description": "x" * 60_000})
        assert (answer.status, answer["error"]) == (503, "Service Unavailable")
        assert "Is the disk full?" in answer.message
        assert "x-ratelimit-remaining" in answer.headers
        assert (await world.get(f"/project/{project}")).status == 200
        assert (await world.get("/readyz")).status == 200, "another change may have room"
        full = SimpleNamespace(f_bavail=0, f_frsize=4096, f_blocks=10, f_files=10, f_favail=10)
        with monkeypatch.context() as patched:
            patched.setattr("os.statvfs", lambda path: full)
            ready = await world.get("/readyz")
            assert (ready.status, ready.message[:40]) == (503, "Free space on the disk of the data direc")
            small = await world.post(path, {"name": "small"})
            assert (small.status, small.message) == (503, ready.message)
            assert (await world.call("DELETE", f"/project/{project}")).status == 204
        assert (await world.get("/readyz")).status == 200
        unbounded(world.installation.ctx.store)
        assert (await world.post(path, {"name": "big", "description": "x" * 60_000})).status == 200


async def test_on_a_read_only_disk_changes_and_readyz_are_answered_with_503(monkeypatch):
    """Such as a damaged one, which the kernel makes read-only. The control is the same disk, writable."""

    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    async with make_world() as world:
        project = await world.project()
        with monkeypatch.context() as patched:
            patched.setattr("os.utime", refuse)
            ready = await world.get("/readyz")
            deleted = await world.call("DELETE", f"/project/{project}")
            assert [(answer.status, answer.message) for answer in (ready, deleted)] == [(503, READ_ONLY)] * 2
            assert (await world.get(f"/project/{project}")).status == 200
        assert (await world.get("/readyz")).status == 200
        assert (await world.call("DELETE", f"/project/{project}")).status == 204


@pytest.mark.parametrize("is_empty", [False, True], ids=["removed", "unmounted"])
async def test_changes_are_answered_503_while_the_data_directory_is_away(tmp_path: Path, is_empty: bool):
    """The control is the same directory back at its place."""
    folder, aside = tmp_path / "data", tmp_path / "aside"
    async with make_world(folder=folder) as world:
        project = await world.project()
        folder.rename(aside)
        if is_empty:
            folder.mkdir()
        ready = await world.get("/readyz")
        made = await world.post(f"/organization/{world.org}/project", {"name": "other"})
        deleted = await world.call("DELETE", f"/project/{project}")
        assert [answer.status for answer in (ready, made, deleted)] == [503] * 3
        assert {answer.message for answer in (ready, made, deleted)} == {NO_DATA}
        assert (await world.get(f"/project/{project}")).status == 200
        if is_empty:
            folder.rmdir()
        aside.rename(folder)
        assert (await world.get("/readyz")).status == 200
        assert (await world.call("DELETE", f"/project/{project}")).status == 204


@pytest.mark.parametrize("is_away", [True, False])
def test_an_unexpected_file_error_is_answered_with_503_if_the_data_directory_is_missing(
    tmp_path: Path, is_away: bool
):
    folder = tmp_path / "away" if is_away else tmp_path
    answer = error_answer(FileNotFoundError(2, "No such file", str(folder / "x")), str(folder))
    assert (answer.status, NO_DATA.encode() in answer.body) == ((503, True) if is_away else (500, False))
    assert error_answer(ValueError("a bug"), str(folder)).status == 500


@pytest.mark.parametrize("room", [0, 4 << 20], ids=["no room", "room"])
async def test_the_database_file_reserves_room_for_changes_on_a_full_disk(
    embedded: Place, monkeypatch, room: int
):
    monkeypatch.setattr(sqlite, "_RESERVE_BYTES", room)
    async with embedded.opened() as store:
        for number in range(70):
            await store.write(adds(f"n{number}"))
        bounded(store, 0)
        writes = (store.write(adds(f"m{number}", body=b"x" * 9_000)) for number in range(100))
        outcomes = await together(*writes)
        assert any(isinstance(outcome, Unavailable) for outcome in outcomes) == (not room)
        assert isinstance(store, SqliteStore)
        assert store._writer.pragma("integrity_check") == "ok"


async def test_the_room_on_the_disk_takes_no_memory(embedded: Place):
    async with embedded.opened() as store:
        assert isinstance(store, SqliteStore)
        for number in range(70):
            await store.write(adds(f"n{number}"))
        assert (
            store._writer.pragma("freelist_count") * store._writer.pragma("page_size")
            >= sqlite._RESERVE_BYTES
        )
        cached, _ = store._writer.status(apsw.SQLITE_DBSTATUS_CACHE_USED)
        assert cached < sqlite._RESERVE_BYTES // 4
