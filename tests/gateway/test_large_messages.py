"""Gateways tell each other more than one message can hold."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import msgspec
import pytest

from tests.gateway.gateway_town import GatewayTown
from tests.gateway.routers.town import Heard, reply, request, until
from windlass.gateway.channel import Channel
from windlass.gateway.messages import ElderDrain, FromSuccessor
from windlass.routers.router import Endpoint

MANY = 20_000


def endpoints(count: int = MANY) -> list[Endpoint]:
    return [Endpoint(f"10.{number >> 8}.{number & 255}.1", 65_535) for number in range(count)]


@pytest.mark.parametrize("at", [0, MANY])
async def test_twenty_thousand_endpoints_are_drained_at_a_relieved_gateway(town: GatewayTown, at: int):
    gate = asyncio.Event()

    async def answer(heard: Heard) -> None:
        await gate.wait()
        heard.out.write(reply(b"late"))

    slow = await town.instance("slow", answer)
    await town.shop(slow)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: slow.heard)
    await town.replace()
    await town.shop(await town.instance("two"))
    many = endpoints()
    draining = asyncio.create_task(town.router.drain([*many[:at], slow.endpoint, *many[at:]], 60))
    await town.router.drain(many, 60)
    assert not draining.done()
    gate.set()
    assert (await caller.said()).body == b"late"
    await draining


async def test_a_message_over_the_size_limit_raises_an_error_and_is_not_sent():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    lost: list[bool] = []
    channel = Channel(
        ours, msgspec.msgpack.Decoder(FromSuccessor), lambda *_: None, lambda: lost.append(True)
    )
    with closing(theirs):
        with pytest.raises(ValueError, match="send less"):
            channel.send(ElderDrain(1, tuple(endpoints()), 1.0))
        channel.send(ElderDrain(1, tuple(endpoints(400)), 1.0))
        assert len(theirs.recv(1 << 20)) < 128 * 1024
        assert not lost
        channel.close()
