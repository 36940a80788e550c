"""Ports of the server that a cluster asks for: those of others are refused, and its own is opened."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.engines.test_second_host import connected
from tests.faults.inside import Inside, until
from tests.free_ports import free_port
from tests.hostile.engines import HostileEngine
from tests.hostile.test_engine_of_another import server
from tests.world import Answer


async def asks(there: Inside, engine: HostileEngine, name: str, port: int) -> Answer:
    return await connected(there, name, engine.fields() | {"router_port": port})


async def change(there: Inside, id: str, **fields: Any) -> Answer:
    org = (await there.call("GET", "/organization"))["id"]
    return await there.call("PATCH", f"/organization/{org}/cluster/{id}", fields)


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


async def reached_at(*ports: int, but_not_at: int = 0) -> None:
    async def reached() -> bool:
        return all(map(listens, ports)) and not (but_not_at and listens(but_not_at))

    await until(reached)


async def test_ports_of_the_server_and_of_other_programs_are_refused(tmp_path):
    async with server(tmp_path) as (there, engine):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = (
                there.ctx.settings.port,
                there.ctx.places.local.router.port,
                other.getsockname()[1],
                80,
            )
            for port in taken:
                answer = await asks(there, engine, "east", port)
                assert (answer.status, answer.message[:13]) == (400, "router_port: "), port
        port = free_port()
        assert (await asks(there, engine, "east", port)).status == 201, "nothing above is refused for more"
        await reached_at(port)


async def test_the_port_of_another_cluster_is_refused_also_where_both_ask_at_once(tmp_path):
    async with server(tmp_path) as (there, engine):
        port = free_port()
        answers = await asyncio.gather(*(asks(there, engine, name, port) for name in ("east", "west")))
        assert sorted(answer.status for answer in answers) == [201, 400]
        await reached_at(port)
        assert (await asks(there, engine, "north", port)).status == 400
        third = await asks(there, engine, "south", free_port())
        assert (await change(there, third["id"], router_port=port)).status == 400


async def test_a_cluster_whose_router_port_changes_is_reached_at_the_new_one(tmp_path):
    async with server(tmp_path) as (there, engine):
        first, second = free_port(), free_port()
        made = await asks(there, engine, "east", first)
        await reached_at(first)
        for former, wanted in ((first, second), (second, first)):
            assert (await change(there, made["id"], router_port=wanted)).status == 200
            await reached_at(wanted, but_not_at=former)
        assert (await change(there, made["id"], router_port=None)).status == 200
        await reached_at(there.ctx.places.local.router.port, but_not_at=first)


@pytest.mark.parametrize("name", ["east", "west"])
async def test_the_port_of_a_deleted_cluster_is_free_for_the_next(tmp_path, name):
    async with server(tmp_path) as (there, engine):
        port, org = free_port(), (await there.call("GET", "/organization"))["id"]
        made = await asks(there, engine, "east", port)
        await reached_at(port)
        assert (await there.call("DELETE", f"/organization/{org}/cluster/{made['id']}")).status == 204
        await reached_at(but_not_at=port)
        assert (await asks(there, engine, name, port)).status == 201
        await reached_at(port)
