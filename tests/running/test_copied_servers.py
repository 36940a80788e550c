"""Two servers with one id, because a data directory was copied, do not both own the place."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.running.deployments import PORT, deploy, deployed
from tests.running.test_place_owner import AFTER_LEASE, BETWEEN_LOOKS, look, server
from tests.world import HandClock, World
from windlass.install import server_id

COPY = "the data directory that is a copy"


@pytest.fixture(params=["copied", "shared"])
async def pair(request, postgres_url: str, tmp_path: Path) -> AsyncIterator[tuple[World, World, bool]]:
    """Two servers with one id, and whether each has a data directory of its own."""
    clock, is_copied = HandClock(), request.param == "copied"
    async with (
        server(postgres_url, tmp_path / "one", clock, "id", "one") as world,
        server(postgres_url, tmp_path / "two", clock, "id", "two" if is_copied else "one") as copy,
    ):
        yield world, copy, is_copied


def owns_the_place(world: World) -> bool:
    return world.installation.ctx.ownership.is_owner


async def test_of_two_servers_with_copied_data_directories_only_one_starts_services(pair, caplog):
    world, copy, is_copied = pair
    app = await copy.application(ports=[PORT])
    await deploy(copy, app)
    for _ in range(3):
        world.clock.turn(BETWEEN_LOOKS)
        await look(world, copy)
    await copy.settle()
    assert copy.engine.begun == (0 if is_copied else 1)
    await world.settle()
    assert await copy.state(f"/application/{app}") == "RUNNING"
    assert world.engine.begun == (1 if is_copied else 0)
    assert caplog.text.count(COPY) == (1 if is_copied else 0)


async def test_a_server_with_a_copied_data_directory_does_not_take_over_after_the_other_stops(pair):
    world, copy, is_copied = pair
    world.clock.turn(BETWEEN_LOOKS)
    await look(world, copy)
    for _ in range(2):
        world.clock.turn(AFTER_LEASE)
        await look(copy)
    assert owns_the_place(copy) is not is_copied


async def test_a_server_whose_copy_took_over_its_place_ends_its_instances(pair):
    """As after a machine was suspended, and a clone of it was started."""
    world, copy, is_copied = pair
    await deployed(world)
    world.clock.turn(AFTER_LEASE)
    await look(copy)
    assert owns_the_place(copy)
    assert len(world.engine.instances) == 1
    await look(world)
    assert owns_the_place(world) is not is_copied
    assert len(world.engine.instances) == (0 if is_copied else 1)


async def test_after_a_reboot_a_server_takes_its_place_again_when_the_old_lease_ends(
    postgres_url, tmp_path, caplog
):
    clock = HandClock()
    async with server(postgres_url, tmp_path / "one", clock, "id", "before"):
        pass
    async with server(postgres_url, tmp_path / "one", clock, "id", "after") as world:
        assert not owns_the_place(world)
        clock.turn(AFTER_LEASE)
        await look(world)
        assert owns_the_place(world)
    assert COPY not in caplog.text


def test_a_copied_data_directory_and_a_rebooted_machine_have_another_home_id(tmp_path, monkeypatch):
    folder, boot = tmp_path / "data", tmp_path / "boot"
    folder.mkdir()
    home = server_id.home_of(folder)
    assert server_id.home_of(folder) == home
    assert server_id.home_of(shutil.copytree(folder, tmp_path / "copy")) != home
    boot.write_text("another boot")
    monkeypatch.setattr(server_id, "_BOOT_ID_FILE", boot)
    assert server_id.home_of(folder) != home
