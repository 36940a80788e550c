"""Turns of organizations at BuildKit."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from windlass.builders.docker.build_turns import BuildTurns


@pytest.mark.parametrize("cancels", ["before the turn", "with the turn"])
async def test_a_build_that_is_cancelled_as_its_turn_comes_fails_no_other(cancels):
    turns, began = BuildTurns(), []

    async def build(org: str) -> None:
        async with turns.of(org):
            began.append(org)

    async with AsyncExitStack() as present:
        await present.enter_async_context(turns.of("present"))
        cancelled, other = (asyncio.create_task(build(org)) for org in ("cancelled", "other"))
        while len(turns._waiting) < 2:  # noqa: ASYNC110 (both tasks begin)
            await asyncio.sleep(0)
        if cancels == "before the turn":
            cancelled.cancel()  # not yet noticed by its task when the present turn ends
    cancelled.cancel()
    await asyncio.gather(cancelled, other, return_exceptions=True)
    assert began == ["other"]
    assert turns.is_free("anybody")


async def test_a_build_that_comes_while_a_cancelled_one_leaves_has_its_turn():
    turns = BuildTurns()

    async def build() -> None:
        async with turns.of("other"):
            pass

    async with turns.of("present"):
        cancelled = asyncio.create_task(build())
        await asyncio.sleep(0)
        cancelled.cancel()
    async with asyncio.timeout(10):
        await build()
