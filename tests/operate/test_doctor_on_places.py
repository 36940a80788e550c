"""The doctor names the server that each place belongs to, and whether it runs."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.fakes.engine import FakeEngine
from tests.jobs.sites import DOCKER, cron, ready_job
from tests.operate.installations import settings_of
from tests.running.deployments import deployed
from tests.running.test_shared_machine import shop
from tests.world import make_world
from windlass.base.clock import SystemClock
from windlass.base.isolation import isolation
from windlass.control.records.disk_shares import note_disk, record_of
from windlass.engines.workload import StaticSite
from windlass.install.server_id import existing_owner_id, owner_id
from windlass.operate import serving as server
from windlass.operate.doctor import diagnose
from windlass.operate.place_owners import check_owners, examine_disk
from windlass.store import Surroundings

LEASE = 15_000


@pytest.fixture
async def owned(world):
    """A world whose place belongs to `one`."""
    await world.installation.ctx.store.write(lambda tx: tx.owners.renew("local", "one", LEASE))
    return world


async def finding(world, own: str = "") -> tuple[str, str]:
    (only,) = await check_owners(world.installation.ctx.store.reads, own, world.clock.now())
    assert only.what == "Place local"
    return only.level, only.found


async def test_the_owner_of_a_place_is_named_with_its_lease(owned):
    level, found = await finding(owned)
    assert level == "ok"
    assert found.startswith("belongs to the server one, with a lease until 20")
    assert "the server of this data directory" in (await finding(owned, own="one"))[1]


async def test_an_owner_is_named_with_its_host_and_its_docker_engine(owned):
    def renew(tx):
        return tx.owners.renew("local", "one", LEASE, Surroundings("image", "apps.example.com"))

    await owned.installation.ctx.store.write(renew)
    assert (
        "belongs to the servers of the Docker engine one at apps.example.com, " in (await finding(owned))[1]
    )


async def test_doctor_reports_a_place_owner_with_an_expired_lease_as_not_running(owned):
    owned.clock.turn(LEASE / 1000)
    assert "which does not run" in (await finding(owned))[1]


async def test_doctor_warns_of_a_place_owner_that_other_servers_cannot_reach(owned):
    store = owned.installation.ctx.store
    row = await store.reads.owners.get("local")
    await store.write(lambda tx: tx.owners.mark_lost(row))
    level, found = await finding(owned)
    assert level == "warn"
    assert "does not answer" in found


async def test_doctor_shows_the_former_owner_of_a_place_that_was_taken_over(owned):
    store = owned.installation.ctx.store
    row = await store.reads.owners.get("local")
    await store.write(lambda tx: tx.owners.take_over(row, "two", LEASE))
    assert await finding(owned) == ("warn", "belongs to the server two, and was taken from one")


async def test_doctor_recognizes_the_server_of_its_own_data_directory_as_owner(tmp_path):
    async with make_world(folder=tmp_path) as world:
        settings, now = settings_of(world), SystemClock().now()
        assert existing_owner_id(settings) == ""
        id, lease = owner_id(settings), now - world.clock.now() + LEASE
        assert existing_owner_id(settings) == id
        await world.installation.ctx.store.write(lambda tx: tx.owners.renew("local", id, lease))
        (found,) = [finding for finding in await diagnose(settings) if finding.what == "Place local"]
    assert "the server of this data directory, with a lease" in found.found


@pytest.mark.parametrize(("identity", "organizations"), [("namespace", 2), ("namespace", 1), ("user", 2)])
async def test_doctor_warns_if_services_of_several_organizations_share_a_user(
    tmp_path, monkeypatch, identity, organizations
):
    real = isolation.findings(1_900_000_000, 1_999_999_999)
    monkeypatch.setattr(isolation, "findings", lambda *numbers: {**real, "identity": identity})
    async with make_world(folder=tmp_path) as world:
        for one in [await shop(world) for _ in range(organizations)]:
            assert (await one.deploy(world)).status == 202
        said = [one.found for one in await diagnose(structs.replace(settings_of(world), engine="process"))]
    warned = "services of 2 organizations share a user"
    assert any(warned in one for one in said) is (identity == "namespace" and organizations == 2)


@pytest.mark.parametrize(("is_limited", "organizations"), [(False, 2), (False, 1), (True, 2), (None, 2)])
async def test_doctor_warns_if_several_organizations_share_a_docker_engine_without_a_memory_limit(
    tmp_path, monkeypatch, caplog, is_limited, organizations
):
    monkeypatch.setattr("windlass.docker.provider.is_limited", lambda host: is_limited)
    async with make_world(folder=tmp_path) as world:
        for one in [await shop(world) for _ in range(organizations)]:
            assert (await one.deploy(world)).status == 202
        settings = structs.replace(settings_of(world), engine="docker", docker_host="unix:///none")
        said = [one.found for one in await diagnose(settings)]
        await server._report(settings, world.installation.ctx.store.reads, is_first=False)
    warned = "services of 2 organizations share the memory of this machine with the Docker engine"
    expected = is_limited is False and organizations == 2
    assert any(warned in one for one in said) is expected
    assert (warned in caplog.text) is expected


@pytest.mark.parametrize("shares", ["isolation_networks is off", ""])
async def test_doctor_names_the_only_organization_that_a_shared_machine_serves(tmp_path, shares):
    engine = FakeEngine()
    engine.shares = shares
    async with make_world(folder=tmp_path, engine=engine) as world:
        settings, one = settings_of(world), await shop(world)
        assert await serving(settings) == []
        assert (await one.deploy(world)).status == 202
        said = await serving(settings)
        assert len(said) == bool(shares)
        assert all(text.startswith("serves the organization ") for text in said)


async def test_doctor_names_services_whose_build_exists_only_on_another_machine(tmp_path):
    async with make_world(folder=tmp_path) as world:
        settings = settings_of(world)
        app = await deployed(world)
        name = (await world.get(f"/application/{app}"))["name"]
        world.builder.names = {"static": StaticSite(folder=".")}
        await deployed(world)
        world.builder.names = {"command": ("run",)}
        await ready_job(world, source=DOCKER, schedule=cron("0 * * * *"))
        (found,) = [finding for finding in await diagnose(settings) if finding.what == "Builds"]
    assert found.found.endswith(f": 1 ({name})")


async def serving(settings) -> list[str]:
    return [found.found for found in await diagnose(settings) if found.found.startswith("serves ")]


async def test_the_doctor_names_the_organizations_that_hold_most_of_the_disk(world):
    store = world.installation.ctx.store
    org = (await world.get("/organization"))["results"][0]["id"]
    assert not await examine_disk(store.reads)
    for share, level in ((4 << 30, "ok"), (2 << 30, "warn")):
        record = record_of({org: 3 << 30, "gone": 1 << 30, "b": 5, "c": 4}, share)
        await store.write(lambda tx, record=record: note_disk(tx, "local", record))
        (found,) = await examine_disk(store.reads)
        assert found.level == level
        assert f"({org}) 3.0 GiB, gone 1.0 GiB, b 0.0 GiB, of {share >> 30}.0 GiB each" in found.found
    assert "raise organization_disk_bytes" in found.advice
