"""Instances that die while no server runs stay in the routes of the gateway, and get no requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.gateway.gateway_town import GatewayTown
from tests.gateway.routers.town import Caller, Instance, Said, make_town, request, until

LIVE, DEAD = 3, 3
PAUSE = 0.05


async def asked(town: GatewayTown, kept: Sequence[Caller], method: str) -> list[Said]:
    body = b"x" if method == "POST" else b""
    return [
        *(await asyncio.gather(*(caller.ask(request("/", method, body=body)) for caller in kept))),
        *(await asyncio.gather(*(town.ask(request("/", method, body=body)) for _ in kept))),
    ]


async def test_no_request_fails_when_half_of_the_instances_die_while_no_server_runs(town: GatewayTown):
    instances = [await town.instance(f"{number}") for number in range(LIVE + DEAD)]
    await town.shop(*instances)
    kept = [await town.caller() for _ in range(12)]
    said = await asked(town, kept, "GET")
    assert {answer.body for answer in said} == {instance.name.encode() for instance in instances}
    await town.router.stop()
    for instance in instances[LIVE:]:
        await instance.stop()
    for method in ("GET", "POST", "GET", "POST"):
        said = await asked(town, kept, method)
        assert {answer.status for answer in said} == {200}
        assert {answer.body for answer in said} == {b"0", b"1", b"2"}
    await town.router.start()


async def test_a_restarted_instance_gets_requests_again_while_no_server_runs():
    async with make_town(pause_seconds=PAUSE) as town:
        one, two = await town.instance("one"), await town.instance("two")
        await town.shop(one, two)
        port = two.port
        await two.stop()
        assert {(await town.ask(request())).body for _ in range(4)} == {b"one"}
        back = Instance("two")
        await back.start(port)
        try:
            bodies: set[bytes] = set()
            while b"two" not in bodies:
                bodies.add((await town.ask(request())).body)
        finally:
            await back.stop()


async def test_an_endpoint_that_refuses_is_tried_again_without_a_request():
    async with make_town(pause_seconds=PAUSE) as town:
        one, two = await town.instance("one"), await town.instance("two")
        await town.shop(one, two)
        await two.stop()
        peer = town.router._shared.peers[two.endpoint]
        while not peer.penalty:
            assert (await town.ask(request())).body == b"one"
        refusals = peer._refusals
        await until(lambda: peer._refusals >= refusals + 2)
        assert peer.penalty
        back = Instance("two")
        await back.start(two.port)
        try:
            await until(lambda: not peer.penalty)
            assert not back.heard
        finally:
            await back.stop()
