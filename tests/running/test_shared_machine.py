"""Where services share one network, a place serves one organization only: the first that has something
there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import REPOSITORY, Answer, World, make_world

WHY = "isolation_networks is off"


class Shop(NamedTuple):
    token: str
    app: str

    async def deploy(self, world: World) -> Answer:
        return await self.ask(world, "deploy")

    async def ask(self, world: World, action: str) -> Answer:
        answer = await world.post(f"/application/{self.app}/{action}", token=self.token)
        await world.settle()
        return answer


async def shop(world: World) -> Shop:
    """An application of an organization of its own."""
    org, token = await world.organization()
    project = await world.made(f"/organization/{org}/project", {"name": "shop"}, token=token)
    environment = await world.made(f"/project/{project}/environment", {"name": "production"}, token=token)
    world.clock.turn(1)  # the older one is the first
    body = {"name": "web", "git_repository": {"url": REPOSITORY, "branch": "main"}}
    return Shop(token, await world.made(f"/environment/{environment}/application", body, token=token))


@asynccontextmanager
async def shared(
    shares: str = WHY, folder: Path | None = None, *, allow: bool = False
) -> AsyncIterator[World]:
    engine = FakeEngine()
    engine.shares = shares
    async with make_world(folder=folder, engine=engine, share_machine=allow) as world:
        yield world


async def test_on_a_shared_machine_a_second_organizations_deployment_is_refused_with_the_setting():
    async with shared() as world:
        first, second = await shop(world), await shop(world)
        assert (await first.deploy(world)).status == 202
        refused = await second.deploy(world)
        assert refused.status == 409
        assert "WINDLASS_SHARE_MACHINE=1" in refused.message
        assert "have the organization that has services here delete them" in refused.message
        assert (await first.deploy(world)).status == 202
        assert world.engine.begun == 2


@pytest.mark.parametrize(("shares", "is_allowed"), [("", False), (WHY, True)])
async def test_with_separate_networks_or_share_machine_all_organizations_may_deploy(
    shares: str, is_allowed: bool
):
    async with shared(shares, allow=is_allowed) as world:
        for one in (await shop(world), await shop(world)):
            assert (await one.deploy(world)).status == 202


async def test_running_services_continue_when_networks_were_lost(tmp_path: Path):
    async with shared("", tmp_path) as world:
        first, second, third = await shop(world), await shop(world), await shop(world)
        for one in (second, first):
            assert (await one.deploy(world)).status == 202
    async with shared(WHY, tmp_path) as world:
        world.engine.instances.clear()
        assert (await second.ask(world, "restart-service")).status == 202
        assert (await first.deploy(world)).status == 202
        assert [(await one.deploy(world)).status for one in (second, third)] == [409, 409]
        assert (await second.ask(world, "stop")).status == 202
    async with shared("", tmp_path) as world:
        assert (await third.deploy(world)).status == 202


async def test_another_organization_may_deploy_once_the_first_has_nothing_there():
    async with shared() as world:
        first, second = await shop(world), await shop(world)
        await first.deploy(world)
        assert (await world.delete(f"/application/{first.app}", token=first.token)).status == 204
        await world.settle()
        assert (await second.deploy(world)).status == 202
        assert (await (await shop(world)).deploy(world)).status == 409


@pytest.mark.parametrize(("part", "is_built"), [("git", False), ("builder", False), ("engine", True)])
async def test_a_failed_build_does_not_reserve_the_machine_for_its_organization(part: str, is_built: bool):
    async with shared() as world:
        first, second = await shop(world), await shop(world)
        broken = getattr(world, part)
        broken.broken = "it is away"
        assert (await first.deploy(world)).status == 202
        broken.broken = ""
        assert (await second.deploy(world)).status == (409 if is_built else 202)
        assert (await first.deploy(world)).status == (202 if is_built else 409)


async def test_a_waiting_first_deployment_reserves_the_machine_for_its_organization():
    async with shared() as world:
        first, second = await shop(world), await shop(world)
        assert (await world.post(f"/application/{first.app}/deploy", token=first.token)).status == 202
        assert (await second.deploy(world)).status == 409


@pytest.mark.parametrize("becomes_owner", [True, False])
async def test_a_server_that_becomes_place_owner_records_whether_services_share_a_network(
    monkeypatch, becomes_owner: bool
):
    """The control is a server that is not the owner."""
    monkeypatch.setattr("windlass.install.installation._OWNER_LOOK", 0.01)
    async with shared("") as world:
        first, second = await shop(world), await shop(world)
        ownership, world.engine.shares = world.installation.ctx.ownership, WHY
        ownership.is_owner = False
        noting = asyncio.create_task(world.installation._note_sharing())
        await asyncio.sleep(0.1)
        ownership.is_owner = becomes_owner
        await asyncio.sleep(0.5)
        noting.cancel()
        ownership.is_owner = True
        assert (await first.deploy(world)).status == 202
        assert (await second.deploy(world)).status == (409 if becomes_owner else 202)
