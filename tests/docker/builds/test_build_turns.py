"""Turns of services and organizations at BuildKit."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from windlass.docker.builds.build_turns import BuildOwner, BuildTurns


def of(org: str, service: str = "", environment: str = "") -> BuildOwner:
    return BuildOwner(org, service or org, environment)


async def order_of(present: BuildOwner, *others: BuildOwner) -> list[str]:
    """Returns the services in the order of their turns, where others come during the build of the present."""
    turns, order = BuildTurns(), list[str]()

    async def build(owner: BuildOwner) -> None:
        async with turns.of(owner):
            order.append(owner.service)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks, turns.of(present):
        for owner in others:
            tasks.create_task(build(owner))
            await asyncio.sleep(0)
    return order


@pytest.mark.parametrize("cancels", ["before the turn", "with the turn"])
async def test_a_build_cancelled_as_its_turn_begins_does_not_block_other_builds(cancels):
    turns, began = BuildTurns(), []

    async def build(org: str) -> None:
        async with turns.of(of(org)):
            began.append(org)

    async with AsyncExitStack() as present:
        await present.enter_async_context(turns.of(of("present")))
        cancelled, other = (asyncio.create_task(build(org)) for org in ("cancelled", "other"))
        while len(turns._waiting) < 2:  # noqa: ASYNC110 (both tasks begin)
            await asyncio.sleep(0)
        if cancels == "before the turn":
            cancelled.cancel()  # not yet noticed by its task when the present turn ends
    cancelled.cancel()
    await asyncio.gather(cancelled, other, return_exceptions=True)
    assert began == ["other"]
    assert turns.is_free(of("anybody"))


async def test_a_build_that_arrives_during_the_cancellation_of_another_gets_its_turn():
    turns = BuildTurns()

    async def build() -> None:
        async with turns.of(of("other")):
            pass

    async with turns.of(of("present")):
        cancelled = asyncio.create_task(build())
        await asyncio.sleep(0)
        cancelled.cancel()
    async with asyncio.timeout(10):
        await build()


async def test_services_have_turns_of_their_own_and_organizations_take_turns():
    turns, running, order = BuildTurns(), set[BuildOwner](), list[str]()

    async def build(owner: BuildOwner) -> None:
        async with turns.of(owner):
            assert running <= {owner}, "services never build side by side"
            running.add(owner)
            order.append(owner.service)
            await asyncio.sleep(0)
            running.discard(owner)

    many = [of("many", f"many-{number}") for number in range(4)]
    async with asyncio.TaskGroup() as tasks, turns.of(many[0]):
        for owner in (*many[1:], many[1], of("few", "few-0"), of("few", "few-1")):
            tasks.create_task(build(owner))
            await asyncio.sleep(0)
    assert order == ["few-0", "many-1", "many-1", "few-1", "many-2", "many-3"]


@pytest.mark.parametrize("are_apart", [True, False])
async def test_environments_of_an_organization_take_turns(are_apart: bool):
    many = [of("org", f"many-{number}", "many") for number in range(4)]
    few = of("org", "few", "few" if are_apart else "many")
    order = await order_of(many[0], *many[1:], few)
    assert order.index("few") == (0 if are_apart else 3)


async def test_many_environments_give_an_organization_no_extra_build_turns():
    many = [of("many", f"many-{number}", f"environment-{number}") for number in range(3)]
    assert await order_of(many[0], *many[1:], of("other", "other", "home")) == ["other", "many-1", "many-2"]
