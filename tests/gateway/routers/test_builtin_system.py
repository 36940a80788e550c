"""The built-in router's demands on the system: files for its connections, and immediate acknowledgements."""

import asyncio
import json
import socket
import subprocess
import sys

import pytest

from tests.gateway.routers.town import reply, request

_LIMITED = """
import asyncio, json, resource, sys
from windlass.routers.builtin import Bounds, BuiltinRouter

async def main(soft, hard, connections):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    router = BuiltinRouter("127.0.0.1", 0, bounds=Bounds(connections=connections))
    await router.start()
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    await router.stop()
    print(json.dumps(found))

asyncio.run(main(*json.loads(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "raised"),
    [
        (256, 1024, 10_000, 1024),  # as far as the machine lets it
        (256, 1024, 100, 400),  # as far as it is needed
        (256, 1024, 10, 256),
        (1024, 1024, 10_000, 1024),
    ],
)
def test_a_router_may_open_as_many_files_as_its_connections_need(soft, hard, connections, raised):
    given = json.dumps([soft, hard, connections])
    done = subprocess.run([sys.executable, "-c", _LIMITED, given], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [raised, hard]


def _acknowledges_at_once(town, instance) -> bool:
    """Returns True if the kernel acknowledges data of the idle connection to the instance at once."""
    (upstream,) = town.router._shared.peers[instance.endpoint].idle
    found = upstream.transport.get_extra_info("socket")
    return bool(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux lets a program choose")
async def test_an_answer_with_a_delayed_body_is_acknowledged_at_once(town):
    """Otherwise the system of the instance holds the body back for 40 ms, as with Python's http.server."""
    arrived = asyncio.Event()

    async def in_two(heard):
        head, _, body = reply(b"hello").partition(b"\r\n\r\n")
        heard.out.write(head + b"\r\n\r\n")
        await arrived.wait()
        heard.out.write(body)

    shop = await town.instance(answer=in_two)
    await town.shop(shop)
    caller = await town.caller()
    for _ in range(3):
        arrived.clear()
        await caller.send(request())
        await caller.reader.readuntil(b"\r\n\r\n")
        arrived.set()
        assert await caller.reader.readexactly(5) == b"hello"
        assert _acknowledges_at_once(town, shop)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux lets a program choose")
async def test_an_answer_in_one_piece_is_not_acknowledged_at_once(town):
    """Or the test above would show nothing."""
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    for _ in range(5):
        await caller.ask(request())
    assert not _acknowledges_at_once(town, shop)
