"""Services that are set aside are restored or purged, also after an interruption."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.engine import FakeEngine
from tests.operate.furnished import UNKNOWN, _of, copied, deployed, furnished, known, precious, started
from tests.world import fake_parts, make_world
from windlass.base.atomic_files import write_whole
from windlass.control.background import service_data
from windlass.install import mark
from windlass.install.ownership import DatabaseMismatch
from windlass.operate.serving import check_engine
from windlass.operate.set_aside import purge, put_back, set_aside_services
from windlass.terminal.command_errors import CommandRefused


class Killed(BaseException):
    pass


class Killer:
    """Kills who changes a file below a folder for the Nth time: from then on, no change happens."""

    def __init__(self) -> None:
        self.folder, self.left, self.struck = "", 0, False
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def at(self, number: int, folder: Path) -> Iterator[None]:
        self.folder, self.left, self.struck = str(folder), number, False
        try:
            with contextlib.suppress(Killed):
                yield
        finally:
            self.folder = ""

    def _hook(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.folder or not _changes(event, given):
            return
        if any(UNKNOWN in str(each) and str(each).startswith(self.folder) for each in given):
            self.left -= 1
            if self.left <= 0:
                self.struck = True
                raise Killed


def _changes(event: str, given: tuple[Any, ...]) -> bool:
    if event == "open":
        return bool(given[2] and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return event in {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}


killer = Killer()


async def template(folder: Path, *, adopted: bool) -> None:
    furnished(folder)
    if adopted:
        await known(await started(folder, adopt=True))


@pytest.mark.slow
async def test_setting_services_aside_after_a_kill_at_any_file_operation_is_completed_without_loss(tmp_path):
    refused = 0
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        await template(folder, adopted=False)
        with killer.at(number, folder):
            await started(folder, adopt=True)
        assert len(precious(folder)) == 2, number
        if not killer.struck:
            break
        with contextlib.suppress(DatabaseMismatch):
            await started(folder)
            refused -= 1
        refused += 1
        settings = await started(folder, adopt=True)
        assert precious(folder) == ["set-aside", "set-aside"], number
        assert [record.service for record in set_aside_services(settings)] == [UNKNOWN], number
    assert refused > 3, "an installation that was set aside in part is taken for one that was set aside"


async def left_by_put_back(top: Path) -> int | None:
    """Returns the first change before which a kill leaves what the next start does not put back."""
    await template(top / "0", adopted=True)
    for number in itertools.count(1):
        folder = copied(top / "0", top / str(number))
        with killer.at(number, folder):
            await put_back(_of(folder), UNKNOWN)
        assert len(precious(folder)) == 2, number
        if not killer.struck:
            assert number > 3
            return None
        await started(folder)
        if (precious(folder), set_aside_services(_of(folder))) != (["builds", "run"], []):
            return number
    raise AssertionError


async def left_by_purge(top: Path) -> int | None:
    """Returns the first change before which a kill leaves files that are in no list any more."""
    furnished(top / "0")
    await started(top / "0", adopt=True)
    for number in itertools.count(1):
        folder = copied(top / "0", top / str(number))
        with killer.at(number, folder):
            await purge(_of(folder), [UNKNOWN])
        if not killer.struck:
            assert number > 3
            return None
        await purge(_of(folder), [record.service for record in set_aside_services(_of(folder))])
        left = [path for path in folder.rglob("*") if UNKNOWN in str(path) and path.is_file()]
        if left or set_aside_services(_of(folder)):
            return number
    raise AssertionError


async def test_restoring_a_service_after_a_kill_at_any_file_operation_is_completed_without_loss(tmp_path):
    assert await left_by_put_back(tmp_path) is None


async def test_a_purge_killed_at_any_file_operation_stays_listed_until_it_is_completed(tmp_path):
    assert await left_by_purge(tmp_path) is None


async def test_if_the_record_were_removed_first_a_kill_would_leave_a_half_restored_service(
    tmp_path, monkeypatch
):
    async def record_first(self, service):
        folder = service_data.folder_of(self._data, service)
        (folder / service_data.RECORD_FILE).unlink()
        for holder in (self.engine, *self._files):
            await holder.put_back(service, folder)
        folder.rmdir()

    monkeypatch.setattr(service_data.ServiceDataStores, "put_back", record_first)
    assert await left_by_put_back(tmp_path) is not None


async def test_if_the_record_were_removed_first_a_kill_would_hide_the_rest_of_a_purge(tmp_path, monkeypatch):
    def record_first(folder):
        (folder / service_data.RECORD_FILE).unlink()
        for path in folder.iterdir():
            shutil.rmtree(path)
        folder.rmdir()

    monkeypatch.setattr(service_data, "_erase", record_first)
    assert await left_by_purge(tmp_path) is not None


# Engines


@pytest.mark.parametrize("says", ["which engine it ran on", "nothing of its engine"])
async def test_a_start_on_another_engine_deletes_no_set_aside_service(tmp_path, says):
    await template(tmp_path, adopted=True)
    if says == "nothing of its engine":
        file = tmp_path / "set-aside" / UNKNOWN / "record.json"
        file.write_bytes(
            msgspec.json.encode(msgspec.structs.replace(set_aside_services(_of(tmp_path))[0], engine=""))
        )
    for engine in ("fake", "docker"):
        await started(tmp_path, parts=fake_parts(FakeEngine()) if engine == "fake" else None)
    assert len(precious(tmp_path)) == 2


async def test_a_set_aside_service_can_be_restored_and_purged_only_on_its_own_engine(tmp_path):
    await template(tmp_path, adopted=True)
    other = msgspec.structs.replace(_of(tmp_path), engine="docker", docker_host="unix:///nowhere.sock")
    with pytest.raises(CommandRefused, match="WINDLASS_ENGINE=process"):
        await put_back(other, UNKNOWN)
    with pytest.raises(CommandRefused, match="WINDLASS_ENGINE=process"):
        await purge(other, [UNKNOWN])
    assert precious(tmp_path) == ["set-aside", "set-aside"]
    await put_back(_of(tmp_path), UNKNOWN)
    assert precious(tmp_path) == ["builds", "run"]


async def test_a_start_on_another_engine_is_refused_while_services_run(tmp_path):
    async with make_world(folder=tmp_path) as world:
        app = await deployed(world)
        settings = world.installation.ctx.settings
        seen = mark.read(settings)
        assert seen is not None
        mark.write(settings, msgspec.structs.replace(seen, engine="docker"))
        process = msgspec.structs.replace(settings, engine="process")
        with pytest.raises(CommandRefused, match=r"the engine docker .* run \(1\).*stop --all --data-dir"):
            await check_engine(process)
        await check_engine(msgspec.structs.replace(settings, engine="auto"))
        await world.post(f"/application/{app}/stop")
        await world.settle()
        await check_engine(process)


async def test_a_corrupt_set_aside_record_is_listed_and_does_not_prevent_a_start(tmp_path):
    await template(tmp_path, adopted=True)
    (tmp_path / "set-aside" / UNKNOWN / "record.json").write_bytes(b"")
    assert [(one.service, one.why) for one in set_aside_services(_of(tmp_path))] == [
        (UNKNOWN, "its record is damaged")
    ]
    await started(tmp_path)
    assert precious(tmp_path) == ["builds", "run"]


async def test_a_record_of_another_version_is_listed_and_its_service_is_left_where_it_is(tmp_path):
    await template(tmp_path, adopted=True)
    record = tmp_path / "set-aside" / UNKNOWN / "record.json"
    record.write_text('{"form": 2}')
    assert "another version" in set_aside_services(_of(tmp_path))[0].why
    await started(tmp_path)
    for deed in (put_back(_of(tmp_path), UNKNOWN), purge(_of(tmp_path), [UNKNOWN])):
        with pytest.raises(CommandRefused, match="use the version of Windlass"):
            await deed
    assert precious(tmp_path) == ["set-aside", "set-aside"]
    assert record.read_text() == '{"form": 2}'


def test_on_a_full_disk_a_file_is_replaced_completely_or_not_at_all(tmp_path):
    file, soft, content = tmp_path / "file", resource.getrlimit(resource.RLIMIT_FSIZE), b"x" * 10_000
    file.write_bytes(b"before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, soft[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(file, content)
        with (tmp_path / "control").open("wb") as control:
            assert os.write(control.fileno(), content) == 4096, "a single write may stop, and says no error"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    assert file.read_bytes() == b"before"
