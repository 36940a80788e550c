"""Data directory, engine and database belong together, or are said not to."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.world import fake_parts, make_world
from windlass.base.atomic_files import write_whole
from windlass.base.clock import SystemClock
from windlass.base.errors import Unavailable
from windlass.config import Settings
from windlass.control.background import holdings
from windlass.control.background.holdings import INSTALLATION
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.engines.fake import FakeEngine
from windlass.install import mark
from windlass.install.composition import open_store
from windlass.install.installation import install
from windlass.install.key import WrongKey
from windlass.install.ownership import NotOurs, examine, legacy_id
from windlass.operate.backup import backup
from windlass.operate.doctor import examined
from windlass.operate.findings import Level
from windlass.operate.serving import check_engine
from windlass.operate.set_aside import listed, purge, put_back
from windlass.store.tables.facts import FactTable
from windlass.store.tables.statuses import StatusTable
from windlass.terminal.refused import CommandRefused

UNKNOWN = "99999999-aaaa-4aaa-8aaa-000000000009"


def marked(settings: Settings) -> str:
    seen = mark.read(settings)
    return seen.installation if seen else ""


async def deployed(world) -> str:
    app = await world.application()
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    return str(app)


async def test_the_id_of_an_installation_is_in_its_database_and_its_data_directory(database_url, tmp_path):
    for _ in range(2):
        async with make_world(database_url, folder=tmp_path) as world:
            ctx = world.installation.ctx
            assert await ctx.store.reads.facts.get(INSTALLATION) == ctx.installation.encode()
            assert marked(ctx.settings) == ctx.installation


async def test_a_replica_with_an_empty_data_directory_of_its_own_joins(postgres_url, tmp_path):
    async with make_world(postgres_url, folder=tmp_path / "one") as world:
        (tmp_path / "two").mkdir()
        shutil.copy(tmp_path / "one/key", tmp_path / "two/key")
        async with make_world(postgres_url, folder=tmp_path / "two") as twin:
            assert twin.installation.ctx.installation == world.installation.ctx.installation


async def test_an_installation_from_before_there_were_ids_is_taken_over_silently(database_url, tmp_path):
    engine = FakeEngine()
    async with make_world(database_url, folder=tmp_path, engine=engine) as world:
        app = await deployed(world)
        store = world.installation.ctx.store

        async def forget(tx) -> None:
            await tx.session.all("DELETE FROM fact WHERE name = $1", INSTALLATION)

        await store.write(forget)
        fingerprint = world.installation.ctx.encryption.fingerprint
        settings = world.installation.ctx.settings
    mark.file_of(settings).unlink()
    async with make_world(database_url, folder=tmp_path, engine=engine) as world:
        assert world.installation.ctx.installation == legacy_id(fingerprint)
        assert marked(settings) == legacy_id(fingerprint)
        await world.run(30)
        assert [one.service for one in engine.instances.values()] == [app]


async def test_services_that_the_database_does_not_know_are_set_aside_and_told_of(world):
    app = await deployed(world)
    (key, instance), *_ = world.engine.instances.items()
    world.engine.instances[UNKNOWN, *key[1:]] = type(instance)(
        id="x", service=UNKNOWN, generation=1, index=0, phase=instance.phase
    )
    await world.run(30)
    assert [one.service for one in world.engine.instances.values()] == [app]
    assert world.engine.discarded == []
    assert [record.service for record in listed(world.installation.ctx.settings)] == [UNKNOWN]
    (event,) = await world.events(Event.SET_ASIDE)
    assert UNKNOWN.encode() in event.body


@pytest.mark.parametrize("answer", ["nothing", "another id", "a failure"])
async def test_a_database_that_answers_wrongly_changes_nothing(world, monkeypatch, answer):
    app = await deployed(world)
    ctx = world.installation.ctx

    async def nothing(self, *given):
        if answer == "a failure":
            raise Unavailable("no")
        return []

    async def another(self, name):
        return b"another" if answer == "another id" else None

    monkeypatch.setattr(StatusTable, "services", nothing)
    monkeypatch.setattr(FactTable, "get", another)
    with pytest.raises((holdings.OtherDatabase, Unavailable)):
        await holdings.set_unknown_aside(ctx, "a test")
    await holdings.sweep(ctx, ctx.places.local.engine)
    await holdings.sweep(ctx, ctx.places.local.builder)
    assert [one.service for one in world.engine.instances.values()] == [app]
    assert world.engine.discarded == []
    assert await ctx.places.local.builder.services() == {app}


async def test_work_that_discards_a_service_which_was_not_deleted_erases_nothing(world):
    app = await deployed(world)
    await world.installation.ctx.store.write(lambda tx: tx.work.ask("discard", f"discard:{app}"))
    await world.settle()
    assert [one.service for one in world.engine.instances.values()] == [app]


async def test_a_service_that_is_deleted_with_what_is_above_it_is_erased(world):
    project = await world.project()
    app = await world.application(await world.environment(project))
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    await world.delete(f"/project/{project}")
    await world.settle()
    assert app in world.engine.discarded
    assert await world.installation.ctx.store.reads.deletions.is_deleted(app)


# The commands, over real files


def furnished(folder: Path) -> None:
    """A data directory with something of a service in it."""
    for part in ("run/volumes", "builds"):
        (folder / part / UNKNOWN / "data").mkdir(parents=True)
        (folder / part / UNKNOWN / "data/file").write_text("precious")


async def started(folder: Path, **given) -> Settings:
    settings = Settings(data_dir=str(folder), engine="process", gateway_port=0)
    installation = await install(settings, **given)
    await installation.stop()
    return settings


async def test_a_service_is_restored_only_to_a_database_that_knows_it(tmp_path):
    furnished(tmp_path)
    with pytest.raises(NotOurs, match="services 1"):
        await started(tmp_path)
    assert not (tmp_path / "windlass.db").exists(), "a refused start makes nothing"
    settings = await started(tmp_path, adopt=True)
    assert (tmp_path / "set-aside" / UNKNOWN / "volumes/data/file").read_text() == "precious"
    assert [record.service for record in listed(settings)] == [UNKNOWN]
    with pytest.raises(CommandRefused, match="no record of it"):
        await put_back(settings, UNKNOWN)
    await started(tmp_path)

    await known(settings)
    await put_back(settings, UNKNOWN)
    assert (tmp_path / "run/volumes" / UNKNOWN / "data/file").read_text() == "precious"
    assert (tmp_path / "builds" / UNKNOWN / "data/file").read_text() == "precious"
    assert listed(settings) == []


async def test_commands_beside_the_server_say_what_a_wrong_database_does_not_know(tmp_path):
    settings = await started(tmp_path)
    furnished(tmp_path)
    (tmp_path / "windlass.db").rename(tmp_path / "away.db")
    for refused in (backup(settings, tmp_path / "x.zip"), put_back(settings, UNKNOWN)):
        with pytest.raises(NotOurs, match="services 1"):
            await refused


async def test_a_key_that_is_missing_is_looked_for_in_the_folder_that_the_message_names(tmp_path):
    settings = await started(tmp_path)
    (tmp_path / "key").unlink()
    with pytest.raises(WrongKey, match=f"^bring back the file `key` of {tmp_path}"):
        await install(settings)


async def test_a_purged_service_is_gone(tmp_path):
    furnished(tmp_path)
    settings = await started(tmp_path, adopt=True)
    await purge(settings, [UNKNOWN])
    assert listed(settings) == []
    assert not [path for path in tmp_path.rglob("*") if UNKNOWN in str(path)]
    await started(tmp_path)


async def test_a_disk_that_is_mounted_late_is_missed_before_anything_that_runs_is_ended(tmp_path):
    """A program of an instance runs, and its folder is not there."""
    home = tmp_path / "run/services" / UNKNOWN / "1-0"
    marks = {"WINDLASS_INSTANCE": f"{UNKNOWN}-1-0", "WINDLASS_FILES": str(home / "files")}
    program = await asyncio.create_subprocess_exec("sleep", "60", env={**os.environ, **marks})
    try:
        with pytest.raises(NotOurs, match=r"^mount the disk of "):
            await started(tmp_path)
        assert program.returncode is None
        assert (await examine(Settings(data_dir=str(tmp_path), engine="process"))).reason
    finally:
        program.kill()
        await program.wait()


def test_the_commands_say_what_they_do(tmp_path):
    def windlass(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "windlass", *words, "--data-dir", str(tmp_path)]
        env = {**os.environ, "WINDLASS_ENGINE": "process"}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)

    furnished(tmp_path)
    refused = windlass("serve", "--port", "0", "--gateway-port", "0")
    assert refused.returncode == 1
    assert refused.stderr.startswith("windlass: start with the database that belongs to")
    named = re.findall(r"`(windlass [^`]*)`", refused.stderr)
    assert f"windlass serve --adopt --data-dir {tmp_path}" in named, "pasted, it would mean another folder"
    asyncio.run(started(tmp_path, adopt=True))
    assert UNKNOWN in windlass("set-aside", "list", "--text").stdout
    assert "for good?" in windlass("set-aside", "purge", "--all").stdout
    assert listed(Settings(data_dir=str(tmp_path)))
    assert windlass("set-aside", "purge", "--all", "--yes").returncode == 0
    assert listed(Settings(data_dir=str(tmp_path))) == []


# Interruptions


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


def precious(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("file") if path.read_text() == "precious"]
    return sorted(path.relative_to(folder).parts[0] for path in found)


async def known(settings: Settings) -> None:
    """The database has the service from now on."""
    store = await open_store(settings, SystemClock())
    await store.write(lambda tx: tx.statuses.add(UNKNOWN, "org", "READY"))
    await store.close()


async def template(folder: Path, *, adopted: bool) -> None:
    furnished(folder)
    if adopted:
        await known(await started(folder, adopt=True))


async def test_setting_aside_that_is_killed_at_any_moment_loses_nothing_and_is_done_again(tmp_path):
    refused = 0
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        await template(folder, adopted=False)
        with killer.at(number, folder):
            await started(folder, adopt=True)
        assert len(precious(folder)) == 2, number
        if not killer.struck:
            break
        with contextlib.suppress(NotOurs):
            await started(folder)
            refused -= 1
        refused += 1
        settings = await started(folder, adopt=True)
        assert precious(folder) == ["set-aside", "set-aside"], number
        assert [record.service for record in listed(settings)] == [UNKNOWN], number
    assert refused > 3, "an installation that was set aside in part is taken for one that was set aside"


async def left_by_put_back(top: Path) -> int | None:
    """Returns the first change before which a kill leaves what the next start does not put back."""
    await template(top / "0", adopted=True)
    for number in itertools.count(1):
        folder = Path(shutil.copytree(top / "0", top / str(number)))
        with killer.at(number, folder):
            await put_back(_of(folder), UNKNOWN)
        assert len(precious(folder)) == 2, number
        if not killer.struck:
            assert number > 3
            return None
        await started(folder)
        if (precious(folder), listed(_of(folder))) != (["builds", "run"], []):
            return number
    raise AssertionError


async def left_by_purge(top: Path) -> int | None:
    """Returns the first change before which a kill leaves files that are in no list any more."""
    furnished(top / "0")
    await started(top / "0", adopt=True)
    for number in itertools.count(1):
        folder = Path(shutil.copytree(top / "0", top / str(number)))
        with killer.at(number, folder):
            await purge(_of(folder), [UNKNOWN])
        if not killer.struck:
            assert number > 3
            return None
        await purge(_of(folder), [record.service for record in listed(_of(folder))])
        left = [path for path in folder.rglob("*") if UNKNOWN in str(path) and path.is_file()]
        if left or listed(_of(folder)):
            return number
    raise AssertionError


async def test_putting_back_that_is_killed_at_any_moment_loses_nothing_and_is_done_again(tmp_path):
    assert await left_by_put_back(tmp_path) is None


async def test_a_purge_that_is_killed_at_any_moment_stays_in_the_list_until_it_is_done(tmp_path):
    assert await left_by_purge(tmp_path) is None


async def test_a_record_that_is_removed_first_leaves_a_service_half_put_back(tmp_path, monkeypatch):
    async def record_first(self, service):
        folder = holdings.folder_of(self._data, service)
        (folder / holdings.RECORD).unlink()
        for holder in (self.engine, *self._files):
            await holder.put_back(service, folder)
        folder.rmdir()

    monkeypatch.setattr(holdings.Holdings, "put_back", record_first)
    assert await left_by_put_back(tmp_path) is not None


async def test_a_record_that_is_removed_first_hides_what_a_purge_has_left(tmp_path, monkeypatch):
    def record_first(folder):
        (folder / holdings.RECORD).unlink()
        for path in folder.iterdir():
            shutil.rmtree(path)
        folder.rmdir()

    monkeypatch.setattr(holdings, "_erase", record_first)
    assert await left_by_purge(tmp_path) is not None


# Lost volumes


async def test_doctor_and_the_start_name_services_with_lost_volumes(tmp_path, caplog):
    async with make_world(folder=tmp_path) as world:
        app = await world.application(name="shop")
        await world.installation.ctx.store.write(lambda tx: tx.volumes.add(app, ["data"]))
    settings = _of(tmp_path)
    lost = [one for one in await examined(settings) if one.what == "Volumes"]
    assert [(one.level, one.found.rpartition(": ")[2]) for one in lost] == [(Level.FAIL, "shop")]
    await started(tmp_path)
    assert "volumes that hold data of services are not there" in caplog.text
    (tmp_path / "run" / "volumes" / app / "data").mkdir(parents=True)
    assert [one for one in await examined(settings) if one.what == "Volumes"] == []


async def test_volumes_on_another_host_are_not_called_lost(tmp_path):
    async with make_world(folder=tmp_path) as world:
        app = await world.application(name="shop")
        await world.installation.ctx.store.write(partial(_on_another_host, app))
    assert [one for one in await examined(_of(tmp_path)) if one.what == "Volumes"] == []


async def _on_another_host(service, tx):
    await tx.volumes.add(service, ["data"])
    row = await tx.resources.get((await tx.statuses.get(service)).cluster)
    await tx.resources.rewrite(row.id, rewritten(row.body, {"engine": "DOCKER"}))


# Engines


@pytest.mark.parametrize("says", ["which engine it ran on", "nothing of its engine"])
async def test_putting_back_never_erases_a_service_of_another_engine(tmp_path, says):
    await template(tmp_path, adopted=True)
    if says == "nothing of its engine":
        file = tmp_path / "set-aside" / UNKNOWN / "record.json"
        file.write_bytes(msgspec.json.encode(msgspec.structs.replace(listed(_of(tmp_path))[0], engine="")))
    for engine in ("fake", "docker"):
        await started(tmp_path, parts=fake_parts(FakeEngine()) if engine == "fake" else None)
    assert len(precious(tmp_path)) == 2


async def test_a_service_is_restored_and_purged_only_on_its_own_engine(tmp_path):
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
        with pytest.raises(CommandRefused, match=r"the engine docker .* services 1 .*stop --all --data-dir"):
            await check_engine(process)
        await check_engine(msgspec.structs.replace(settings, engine="auto"))
        await world.post(f"/application/{app}/stop")
        await world.settle()
        await check_engine(process)


async def test_a_damaged_record_stops_no_start_and_is_listed(tmp_path):
    await template(tmp_path, adopted=True)
    (tmp_path / "set-aside" / UNKNOWN / "record.json").write_bytes(b"")
    assert [(one.service, one.why) for one in listed(_of(tmp_path))] == [(UNKNOWN, "its record is damaged")]
    await started(tmp_path)
    assert precious(tmp_path) == ["builds", "run"]


async def test_a_record_of_another_version_is_listed_and_its_service_is_left_where_it_is(tmp_path):
    await template(tmp_path, adopted=True)
    record = tmp_path / "set-aside" / UNKNOWN / "record.json"
    record.write_text('{"form": 2}')
    assert "another version" in listed(_of(tmp_path))[0].why
    await started(tmp_path)
    for deed in (put_back(_of(tmp_path), UNKNOWN), purge(_of(tmp_path), [UNKNOWN])):
        with pytest.raises(CommandRefused, match="use the version of Windlass"):
            await deed
    assert precious(tmp_path) == ["set-aside", "set-aside"]
    assert record.read_text() == '{"form": 2}'


def test_a_file_is_replaced_whole_or_not_at_all_on_a_full_disk(tmp_path):
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


def _of(folder: Path) -> Settings:
    return Settings(data_dir=str(folder), engine="process", gateway_port=0)
