"""Connections to instances that accept none do not outlive their clients in any number."""

from __future__ import annotations

import asyncio

import pytest

from tests.free_ports import free_port
from tests.gateway.routers.town import Town, calling, request, route, until
from windlass.routers.builtin import shared_state
from windlass.routers.builtin.peers import Peer
from windlass.routers.router import Endpoint, Listen
from windlass.routers.rules import RouteRules, RouteTimes

CLIENTS = 30
PATIENT = RouteRules(times=RouteTimes(connect=300))


async def open_dials(town: Town, deaf: Endpoint, port: int, sent: bytes) -> Peer:
    """Returns the peer, after many clients have come and gone."""
    for _ in range(CLIENTS):
        async with calling(port) as caller:
            await caller.send(sent)
            await asyncio.sleep(0.01)
    await until(lambda: not town.router._shared.connections.members)
    await asyncio.sleep(0.05)
    return town.router._shared.peers[deaf]


async def test_few_connections_are_opened_for_clients_that_have_left(town: Town, deaf: Endpoint) -> None:
    await town.router.set("shop", [route([deaf], rules=PATIENT)])
    peer = await open_dials(town, deaf, town.router.port, request())
    assert 0 < peer.active <= shared_state._MAX_UNAWAITED_DIALS
    assert peer.active == peer.unawaited == len(town.router._shared._tasks)


async def test_few_connections_are_opened_for_clients_of_a_tcp_port_that_have_left(
    town: Town, deaf: Endpoint
) -> None:
    port = free_port()
    await town.router.reserve("shop", [Listen(port)])
    await town.router.set("shop", [route([deaf], hosts=(), kind="tcp", external=port)])
    peer = await open_dials(town, deaf, port, b"hello")
    assert peer.active <= shared_state._MAX_UNAWAITED_DIALS


async def test_without_the_limit_each_client_leaves_a_connection(
    town: Town, deaf: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests above would show nothing."""
    monkeypatch.setattr(shared_state, "_MAX_UNAWAITED_DIALS", 1000)
    await town.router.set("shop", [route([deaf], rules=PATIENT)])
    assert (await open_dials(town, deaf, town.router.port, request())).active == CLIENTS
