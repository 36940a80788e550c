"""An installation owns what it started, and a wrong database erases nothing."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.operate.furnished import UNKNOWN, _of, deployed, furnished, known, started
from tests.world import make_world
from windlass.base.errors import Unavailable
from windlass.base.kernel import current_process, identify
from windlass.config import Settings
from windlass.control.background import service_data
from windlass.control.background.all_places import OtherDatabase
from windlass.control.background.service_data import INSTALLATION_KEY
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.engines.findings import Level
from windlass.install import mark
from windlass.install.installation import install
from windlass.install.key import WrongKey
from windlass.install.ownership import DatabaseMismatch, examine
from windlass.operate import first_steps
from windlass.operate.backup import backup
from windlass.operate.doctor import diagnose
from windlass.operate.set_aside import purge, put_back, set_aside_services
from windlass.store.tables.facts import FactTable
from windlass.store.tables.statuses import StatusTable
from windlass.terminal.command_errors import CommandRefused


def marked(settings: Settings) -> str:
    seen = mark.read(settings)
    return seen.installation if seen else ""


async def test_the_id_of_an_installation_is_in_its_database_and_its_data_directory(database_url, tmp_path):
    for _ in range(2):
        async with make_world(database_url, folder=tmp_path) as world:
            ctx = world.installation.ctx
            assert await ctx.store.reads.facts.get(INSTALLATION_KEY) == ctx.installation.encode()
            assert marked(ctx.settings) == ctx.installation


async def test_a_replica_with_an_empty_data_directory_and_the_same_key_joins_the_installation(
    postgres_url, tmp_path
):
    async with make_world(postgres_url, folder=tmp_path / "one") as world:
        (tmp_path / "two").mkdir()
        shutil.copy(tmp_path / "one/key", tmp_path / "two/key")
        async with make_world(postgres_url, folder=tmp_path / "two") as twin:
            assert twin.installation.ctx.installation == world.installation.ctx.installation


async def test_services_unknown_to_the_database_are_set_aside_and_recorded_in_the_audit(world):
    app = await deployed(world)
    (key, instance), *_ = world.engine.instances.items()
    world.engine.instances[UNKNOWN, *key[1:]] = type(instance)(
        id="x", service=UNKNOWN, generation=1, index=0, phase=instance.phase, address=""
    )
    await world.run(30)
    assert [one.service for one in world.engine.instances.values()] == [app]
    assert world.engine.discarded == []
    assert [record.service for record in set_aside_services(world.installation.ctx.settings)] == [UNKNOWN]
    (event,) = await world.events(Event.SET_ASIDE)
    assert UNKNOWN.encode() in event.body


@pytest.mark.parametrize("answer", ["nothing", "another id", "a failure"])
async def test_wrong_or_failed_database_answers_cause_no_deletion(world, monkeypatch, answer):
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
    with pytest.raises((OtherDatabase, Unavailable)):
        await service_data.set_unknown_aside(ctx, ctx.places.local, "a test")
    await service_data.sweep(ctx, ctx.places.local.engine)
    await service_data.sweep(ctx, ctx.places.local.builder)
    assert [one.service for one in world.engine.instances.values()] == [app]
    assert world.engine.discarded == []
    assert await ctx.places.local.builder.services() == {app}


async def test_a_discard_job_for_a_service_that_still_exists_deletes_nothing(world):
    app = await deployed(world)
    await world.installation.ctx.store.write(lambda tx: tx.work.schedule("discard", f"discard:{app}"))
    await world.settle()
    assert [one.service for one in world.engine.instances.values()] == [app]


async def test_a_service_that_is_deleted_with_its_project_is_erased(world):
    project = await world.project()
    app = await world.application(await world.environment(project))
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert (await world.delete(f"/project/{project}")).status == 204
    await world.settle()
    assert app in world.engine.discarded
    assert await world.installation.ctx.store.reads.deletions.is_deleted(app)


async def test_a_service_is_restored_only_to_a_database_that_knows_it(tmp_path):
    furnished(tmp_path)
    with pytest.raises(DatabaseMismatch, match="services 1"):
        await started(tmp_path)
    assert not (tmp_path / "windlass.db").exists(), "a refused start makes nothing"
    settings = await started(tmp_path, adopt=True)
    assert (tmp_path / "set-aside" / UNKNOWN / "volumes/data/file").read_text() == "precious"
    assert [record.service for record in set_aside_services(settings)] == [UNKNOWN]
    with pytest.raises(CommandRefused, match="no record of it"):
        await put_back(settings, UNKNOWN)
    await started(tmp_path)

    await known(settings)
    await put_back(settings, UNKNOWN)
    assert (tmp_path / "run/volumes" / UNKNOWN / "data/file").read_text() == "precious"
    assert (tmp_path / "builds" / UNKNOWN / "data/file").read_text() == "precious"
    assert set_aside_services(settings) == []


async def test_a_copied_data_directory_is_refused_because_it_would_control_the_services_of_its_original(
    tmp_path,
):
    original = tmp_path / "original"
    settings = await started(original)
    copied = replace(settings, data_dir=str(shutil.copytree(original, tmp_path / "copy")))
    for refused in (started(tmp_path / "copy"), backup(copied, tmp_path / "x.zip")):
        with pytest.raises(DatabaseMismatch, match=f"rename or remove {original}"):
            await refused
    (tmp_path / "linked").symlink_to(original)
    await started(tmp_path / "linked")
    original.rename(tmp_path / "old")
    await started(tmp_path / "copy")


async def test_a_copied_data_directory_is_refused_while_the_server_of_its_renamed_original_runs(tmp_path):
    original = tmp_path / "original"
    settings = await started(original)
    copied = replace(settings, data_dir=str(shutil.copytree(original, tmp_path / "copy")))
    original.rename(tmp_path / "old")
    with subprocess.Popen(["sleep", "60"]) as server:
        seen = mark.read(copied)
        assert seen is not None
        mark.write(copied, replace(seen, server=identify(server.pid)))
        for refused in (started(tmp_path / "copy"), backup(copied, tmp_path / "x.zip")):
            with pytest.raises(DatabaseMismatch, match=f"^stop the server of the process {server.pid} first"):
                await refused
        server.kill()
    await started(tmp_path / "copy")


async def test_a_copied_data_directory_gets_no_gateway_which_would_take_the_ports_of_the_original(
    tmp_path, monkeypatch
):
    started_in: list[Path] = []

    def start(folder: Path) -> int:
        started_in.append(folder)
        return 7

    monkeypatch.setattr(first_steps, "start_missing_gateway", start)
    settings = await started(tmp_path / "original")
    copied = replace(settings, data_dir=str(shutil.copytree(tmp_path / "original", tmp_path / "copy")))
    assert [first_steps.begin(copied), first_steps.begin(settings)] == [0, 7]
    assert started_in == [tmp_path / "original/gateway"]


async def test_the_mark_of_a_data_directory_names_its_server_until_it_is_stopped(tmp_path):
    async with make_world(folder=tmp_path) as world:
        settings = world.installation.ctx.settings
        seen = mark.read(settings)
        assert seen is not None
        assert seen.server == current_process()
    seen = mark.read(settings)
    assert seen is not None
    assert seen.server is None


async def test_backup_and_rotation_refuse_a_database_that_lacks_services_of_the_folder(tmp_path):
    settings = await started(tmp_path)
    furnished(tmp_path)
    (tmp_path / "windlass.db").rename(tmp_path / "away.db")
    for refused in (backup(settings, tmp_path / "x.zip"), put_back(settings, UNKNOWN)):
        with pytest.raises(DatabaseMismatch, match="services 1"):
            await refused


async def test_a_missing_key_file_is_reported_with_its_folder(tmp_path):
    settings = await started(tmp_path)
    (tmp_path / "key").unlink()
    with pytest.raises(WrongKey, match=f"^bring back the file `key` of {tmp_path}"):
        await install(settings)


async def test_a_purged_service_leaves_no_files(tmp_path):
    furnished(tmp_path)
    settings = await started(tmp_path, adopt=True)
    await purge(settings, [UNKNOWN])
    assert set_aside_services(settings) == []
    assert not [path for path in tmp_path.rglob("*") if UNKNOWN in str(path)]
    await started(tmp_path)


async def test_a_data_directory_whose_disk_is_not_mounted_refuses_the_start_and_kills_no_running_program(
    tmp_path,
):
    """A program of an instance runs, and its folder is not there."""
    home = tmp_path / "run/services" / UNKNOWN / "1-0"
    marks = {"WINDLASS_INSTANCE": f"{UNKNOWN}-1-0", "WINDLASS_FILES": str(home / "files")}
    program = await asyncio.create_subprocess_exec("sleep", "60", env={**os.environ, **marks})
    try:
        with pytest.raises(DatabaseMismatch, match=r"^mount the disk of "):
            await started(tmp_path)
        assert program.returncode is None
        assert (await examine(Settings(data_dir=str(tmp_path), engine="process"))).reason
    finally:
        program.kill()
        await program.wait()


@pytest.mark.slow
def test_serve_adopt_and_the_set_aside_commands_print_what_they_do(tmp_path):
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
    assert set_aside_services(Settings(data_dir=str(tmp_path)))
    assert windlass("set-aside", "purge", "--all", "--yes").returncode == 0
    assert set_aside_services(Settings(data_dir=str(tmp_path))) == []


# Lost volumes


async def test_doctor_and_the_start_name_services_with_lost_volumes(tmp_path, caplog):
    async with make_world(folder=tmp_path) as world:
        app = await world.application(name="shop")
        await world.installation.ctx.store.write(lambda tx: tx.volumes.add(app, ["data"]))
    settings = _of(tmp_path)
    lost = [one for one in await diagnose(settings) if one.what == "Volumes"]
    assert [(one.level, one.found.rpartition(": ")[2]) for one in lost] == [(Level.FAIL, "shop")]
    await started(tmp_path)
    assert "volumes that hold data of services are not there" in caplog.text
    (tmp_path / "run" / "volumes" / app / "data").mkdir(parents=True)
    assert [one for one in await diagnose(settings) if one.what == "Volumes"] == []


async def test_volumes_on_another_host_are_not_called_lost(tmp_path):
    async with make_world(folder=tmp_path) as world:
        app = await world.application(name="shop")
        await world.installation.ctx.store.write(partial(_on_another_host, app))
    assert [one for one in await diagnose(_of(tmp_path)) if one.what == "Volumes"] == []


async def _on_another_host(service, tx):
    await tx.volumes.add(service, ["data"])
    row = await tx.resources.get((await tx.statuses.get(service)).cluster)
    await tx.resources.rewrite(row.id, rewritten(row.body, {"engine": "DOCKER"}))
