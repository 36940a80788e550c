"""Strangers with very many addresses keep nobody from signing in."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.identity.browsers import Browser
from tests.identity.people import new_person, sign_in
from tests.world import World, make_world
from windlass.api import limits
from windlass.control.people import password_hashes

ADA = "ada@example.com"


def network(number: int) -> str:
    """Returns an address in another /64 network, of which one customer of a provider often has thousands."""
    return f"2001:db8:0:{number:x}::1"


async def test_requests_from_very_many_addresses_do_not_use_up_the_limit_of_a_new_one(monkeypatch):
    monkeypatch.setattr(limits, "_MAX_ADDRESSES", 20)
    async with make_world(rate_limit=5) as world:
        await new_person(world, ADA, address=network(0))
        for number in range(1, 60):
            assert (await world.get("/healthz", token=None, address=network(number))).status == 200
            assert (await world.get("/organization", token=None, address=network(number))).status == 401
        assert (await sign_in(Browser(world), ADA, address="192.0.2.7")).status == 201
        # Each address still has a limit of its own, and what needs no credential does not count.
        answers = [await world.get("/organization", token=None, address="192.0.2.8") for _ in range(6)]
        assert [answer.status for answer in answers] == [401] * 5 + [429]
        assert (await world.get("/healthz", token=None, address="192.0.2.8")).status == 200
        assert len(world.installation.budgets._addresses) <= 20


async def test_guesses_of_strangers_leave_room_for_people_who_have_signed_in_before(
    monkeypatch, world: World
):
    monkeypatch.setattr(password_hashes, "_MAX_WAITING_HASHES", 3)
    known = await new_person(world, ADA)
    gate = asyncio.Event()

    async def in_thread(function: Any, *args: str) -> object:
        await gate.wait()
        return function(*args)

    monkeypatch.setattr(password_hashes, "in_thread", in_thread)
    guesses = [asyncio.create_task(guess(world, number)) for number in range(3)]
    await asyncio.sleep(0.05)
    stranger = await sign_in(Browser(world), ADA, address=network(9))
    assert stranger.status == 503, "the control: strangers wait for each other"
    present = asyncio.create_task(sign_in(known, ADA))
    await asyncio.sleep(0.05)
    assert not present.done(), "it waits for its turn"
    gate.set()
    assert (await present).status == 201
    assert [answer.status for answer in await asyncio.gather(*guesses)] == [401] * 3


async def guess(world: World, number: int) -> Any:
    sent = {"email": f"nobody-{number}@example.com", "password": "some wrong password"}
    return await world.post("/account/browserSession", sent, token=None, address=network(number))
