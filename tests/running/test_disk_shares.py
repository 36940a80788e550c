"""Organizations above their share of the disk add nothing; all others, deletions and what runs go on."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.world import World, make_world
from windlass.base.disk_reserve import DiskSpace
from windlass.control.background import disk_meter
from windlass.control.background.disk_meter import DiskMeter, FileCount
from windlass.control.context.context import Context
from windlass.control.records.disk_shares import DiskRecord, note_disk, read_disk, share_of
from windlass.engines.engine import DiskMeasurement
from windlass.store import FIRST_PLACE

GIB = 1 << 30
MIB = 1 << 20
SHA = "0" * 64


async def note(world: World, above: dict[str, int]) -> None:
    record = DiskRecord(GIB, above, above)
    await world.installation.ctx.store.write(lambda tx: note_disk(tx, FIRST_PLACE, record))


def put_file(ctx: Context, service: str, part: str = "builds") -> None:
    folder = Path(ctx.settings.data_dir) / part / service
    folder.mkdir(parents=True)
    (folder / "zeros").write_bytes(os.urandom(3 * MIB))


async def own_organization(world: World) -> str:
    return str((await world.get("/organization"))["results"][0]["id"])


async def adding(world: World, application: str, environment: str) -> list[int]:
    """Asks for what adds data, and returns the statuses of the answers."""
    upload = {"size": 1000, "sha256": SHA}
    one = {"scope": "APPLICATION", "is_secret": False, "value": "x" * 1000}
    many = {"vars": [one | {"name": f"NAME_{number}"} for number in range(70)]}
    return [
        (await world.post(f"/application/{application}/deploy", {})).status,
        (await world.post(f"/application/{application}/upload", upload)).status,
        (await world.post(f"/environment/{environment}/clone", {"name": world.name("copy")})).status,
        (await world.post(f"/application/{application}/environmentVariable/import", many)).status,
    ]


async def test_an_organization_above_its_disk_share_cannot_create_or_deploy_until_it_deletes():
    async with make_world() as world:
        environment = await world.environment()
        application = await world.application(environment)
        org = await own_organization(world)
        await note(world, {org: 2 * GIB})
        assert await adding(world, application, environment) == [409] * 4
        refused = await world.post(f"/application/{application}/deploy", {})
        assert refused.message.startswith("Delete services, uploads or data in volumes that are not needed,")
        assert "holds 2.0 GiB, more than its share of 1.0 GiB" in refused.message
        await note(world, {})
        assert 409 not in await adding(world, application, environment)


async def test_an_organization_above_its_disk_share_may_edit_stop_and_delete():
    async with make_world() as world:
        application = await world.application()
        await world.post(f"/application/{application}/deploy", {})
        await world.settle()
        await note(world, {await own_organization(world): 2 * GIB})
        assert (await world.patch(f"/application/{application}", {"memory": 256})).status == 200
        assert (await world.post(f"/application/{application}/restart-service", {})).status == 202
        assert (await world.post(f"/application/{application}/stop", {})).status == 202
        await world.settle()
        assert (await world.delete(f"/application/{application}")).status == 204


async def test_another_organization_above_its_disk_share_does_not_restrict_this_one():
    async with make_world() as world:
        environment = await world.environment()
        application = await world.application(environment)
        other, _ = await world.organization()
        await note(world, {other: 2 * GIB})
        assert 409 not in await adding(world, application, environment)


async def test_files_and_rows_of_an_organization_are_measured(monkeypatch):
    async with make_world(organization_disk_bytes=8 * MIB) as world:
        application, org = await world.application(), await own_organization(world)
        meter = DiskMeter(world.installation.ctx)
        assert not await meter.measure(pause_seconds=0)
        before = (await read_disk(world.installation.ctx.store.reads)).largest[org]
        assert 1000 < before < MIB, "rows alone"
        for part in ("run/volumes", "builds", "uploads"):
            put_file(world.installation.ctx, application, part)
        noted: list[DiskMeasurement] = []
        monkeypatch.setattr(world.engine, "note_disk_use", noted.append)
        assert await meter.measure(pause_seconds=0)
        record = await read_disk(world.installation.ctx.store.reads)
        assert 9 * MIB + before <= record.above[org] < 10 * MIB
        assert noted[0].share == record.share == 8 * MIB
        assert noted[0].volumes[application] >= 3 * MIB


async def test_an_organization_without_files_does_not_reduce_the_disk_share_of_others(monkeypatch):
    full = DiskSpace("bytes", free=0, whole=1000, reserve=0)
    monkeypatch.setattr(disk_meter, "disk_spaces", lambda *_: [full])
    async with make_world() as world:
        ctx, application = world.installation.ctx, await world.application()
        other, token = await world.organization()
        put_file(ctx, application)
        await DiskMeter(ctx).measure(pause_seconds=0)
        assert (await read_disk(ctx.store.reads)).share == 1000
        world.token, world.org = token, other
        put_file(ctx, await world.application())
        await DiskMeter(ctx).measure(pause_seconds=0)
        assert (await read_disk(ctx.store.reads)).share == 500


def test_hard_links_to_one_file_count_once_and_counting_resumes_where_it_paused(tmp_path: Path):
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "zeros").write_bytes(os.urandom(MIB))
    for number in range(50):
        (tmp_path / "a" / f"link{number}").hardlink_to(tmp_path / "a" / "deep" / "zeros")
    count, turns = FileCount([(("part", "a"), tmp_path / "a")]), 1
    while count.go_on(0):
        turns += 1
    assert turns > 50
    assert MIB <= count.bytes["part", "a"] < 2 * MIB


def deep(folder: Path, levels: int, name: str) -> None:
    """Makes folders inside each other, with a file in the last one."""
    at = os.open(folder, os.O_PATH)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        inner = os.open(name, os.O_PATH, dir_fd=at)
        os.close(at)
        at = inner
    file = os.open("zeros", os.O_WRONLY | os.O_CREAT, dir_fd=at)
    os.write(file, os.urandom(MIB))
    os.close(file)
    os.close(at)


@pytest.mark.parametrize(("levels", "least"), [(3, MIB), (60, MIB), (300, 1 << 40)])
def test_files_below_a_path_of_any_length_are_counted(tmp_path: Path, levels: int, least: int):
    (tmp_path / "a").mkdir()
    deep(tmp_path / "a", levels, "n" * 120)
    with suppress(OSError) if levels == 3 else pytest.raises(OSError, match="name too long"):
        sum(1 for _ in os.walk(tmp_path, onerror=_raised))
    count = FileCount([(("part", "a"), tmp_path / "a")])
    while count.go_on(1):
        pass
    assert least <= count.bytes["part", "a"] < 2 * least
    subprocess.run(["rm", "-rf", tmp_path / "a"], check=True)


def _raised(error: OSError) -> None:
    raise error


@pytest.mark.parametrize(
    ("setting", "free", "organizations", "share"),
    [
        (5, 50, 2, 5),
        (0, 50, 1, 200),  # no other is there
        (0, 50, 2, 100),  # an equal part
        (0, 90, 4, 210),  # three times what is free
        (0, 10, 4, 50),  # the disk is full: an equal part
        (0, 50, 0, 200),
    ],
)
def test_a_disk_share_is_three_times_the_free_space_or_an_equal_part(setting, free, organizations, share):
    room = DiskSpace("bytes", free, whole=200, reserve=20)
    assert share_of(setting, [room], organizations) == share


@pytest.mark.parametrize(("free_files", "share"), [(9, 210), (5, 120), (2, 100)])
def test_a_disk_share_follows_free_inodes_if_these_are_scarcer_than_bytes(free_files, share):
    """Each of 20 files stands for 10 of 200 bytes, so one file of reserve is left out."""
    present = [
        DiskSpace("bytes", 90, whole=200, reserve=20),
        DiskSpace("files", free_files, whole=20, reserve=1),
    ]
    assert share_of(0, present, 2) == share


@pytest.mark.parametrize(("files_of_disk", "is_above"), [(1000, True), (100_000, False)])
async def test_empty_files_count_by_their_share_of_the_disks_inodes(monkeypatch, files_of_disk, is_above):
    """100 files are a tenth of a disk that can have 1,000, though they have no bytes. Counted by bytes alone,
    an organization could take all files of the disk and stay within its share."""
    monkeypatch.setattr(
        disk_meter,
        "disk_spaces",
        lambda *_: [
            DiskSpace("bytes", 0, whole=1000 * MIB, reserve=0),
            DiskSpace("files", 0, files_of_disk, 0),
        ],
    )
    async with make_world(organization_disk_bytes=50 * MIB) as world:
        ctx, application = world.installation.ctx, await world.application()
        folder = Path(ctx.settings.data_dir) / "run/volumes" / application
        folder.mkdir(parents=True)
        for number in range(100):
            (folder / str(number)).touch()
        assert await DiskMeter(ctx).measure(pause_seconds=0) is is_above
