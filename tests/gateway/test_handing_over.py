"""The gateway goes on while servers and gateways come and go."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import socket

import pytest

from tests.gateway.gateway_town import GatewayTown, processes_of
from tests.gateway.routers.test_held_ports import can_be_taken
from tests.gateway.routers.town import SHOP, Heard, calling, reply, request, route, until
from tests.marks import either
from windlass.gateway import link
from windlass.gateway.files import CONTROL, HANDOVER, JOURNAL, connect_to
from windlass.gateway.link import GatewayLink
from windlass.gateway.router import GatewayRouter
from windlass.gateway.starting import start_gateway
from windlass.routers.router import Listen, RouteError

pytestmark = pytest.mark.slow


async def test_a_gateway_uses_the_routes_that_it_received(town: GatewayTown):
    await town.shop(await town.instance("one"))
    said = await town.ask(request())
    assert (said.status, said.body) == (200, b"one")


async def test_the_gateway_keeps_its_routes_while_no_server_runs(town: GatewayTown):
    await town.shop(await town.instance("one"))
    kept = await town.caller()
    await kept.ask(request())
    await town.router.stop()
    assert (await kept.ask(request())).body == b"one"
    assert (await town.ask(request())).body == b"one"


async def test_the_successor_of_a_gateway_holds_the_port_in_the_other_address_family(town: GatewayTown):
    before = await town.process()
    await town.replace()
    await until(lambda: before not in processes_of(town.folder))
    assert not can_be_taken("::1", town.router.port)


async def test_a_killed_gateway_is_started_again_with_its_routes(town: GatewayTown):
    await town.shop(await town.instance("one"))
    port = town.router.port
    await town.kill()
    await until(lambda: not town.link._is_ready.is_set())
    await town.process()
    assert town.router.port == port
    assert (await town.ask(request())).body == b"one"


async def test_a_gateway_killed_while_no_server_runs_has_its_routes_after_the_next_start(town: GatewayTown):
    await town.shop(await town.instance("one"))
    process = await town.process()
    await town.router.stop()
    os.kill(process, signal.SIGKILL)
    await town.new_server()
    assert (await town.ask(request())).body == b"one"


async def test_no_connection_is_lost_when_a_gateway_is_replaced(town: GatewayTown):
    gate = asyncio.Event()

    async def answer(heard: Heard) -> None:
        if heard.target == "/slow":
            await gate.wait()
        heard.out.write(reply(heard.target.encode()))

    await town.shop(await town.instance("one", answer))
    idle, slow, half = await town.caller(), await town.caller(), await town.caller()
    await idle.ask(request("/1"))
    await slow.send(request("/slow"))
    await half.send(request("/half")[:20])
    await town.replace()
    assert (await idle.ask(request("/2"))).body == b"/2"
    gate.set()
    assert (await slow.said()).body == b"/slow"
    await half.send(request("/half")[20:])
    assert (await half.said()).body == b"/half"
    await until(lambda: len(processes_of(town.folder)) == 1)
    for number, caller in enumerate((idle, slow, half)):
        said = await caller.ask(request(f"/again-{number}"))
        assert said.body == f"/again-{number}".encode()


async def test_requests_go_on_through_several_replacements(town: GatewayTown):
    await town.shop(await town.instance("one"))
    going, failed, done = True, [], 0

    async def kept() -> None:
        nonlocal done
        caller = await town.caller()
        while going:
            said = await caller.ask(request("/", "POST", body=b"x"))
            done += 1
            if said.status != 200:
                failed.append(said)

    async def new() -> None:
        nonlocal done
        while going:
            said = await town.ask(request())
            done += 1
            if said.status != 200:
                failed.append(said)

    clients = [asyncio.create_task(one()) for one in (kept, kept, kept, kept, new, new)]
    for _ in range(either(4, 10)):
        await town.replace()
    going = False
    await asyncio.gather(*clients)
    assert not failed
    assert done > 100


async def test_a_websocket_outlives_a_replacement(town: GatewayTown):
    async def echo(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
        while data := await heard.reader.read(100):
            heard.out.write(data)

    await town.shop(await town.instance("one", echo))
    socket = await town.caller()
    await socket.send(request("/", "GET", SHOP, "Upgrade: websocket", "Connection: upgrade"))
    await socket.reader.readuntil(b"\r\n\r\n")
    await town.replace()
    await town.replace()
    for _ in range(3):
        await socket.send(b"ping")
        assert await socket.reader.readexactly(4) == b"ping"
    assert len(processes_of(town.folder)) == 3
    await socket.close()
    await until(lambda: len(processes_of(town.folder)) == 1)


async def test_a_download_outlives_a_replacement_and_its_connection_goes_on(town: GatewayTown):
    pieces, more = 50, asyncio.Event()

    async def answer(heard: Heard) -> None:
        if heard.target == "/":
            heard.out.write(reply(b"short"))
            return
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (pieces * 1000))
        for number in range(pieces):
            if number == pieces // 2:
                await more.wait()
            heard.out.write(b"x" * 1000)
            await heard.out.drain()

    await town.shop(await town.instance("one", answer))
    caller = await town.caller()
    await caller.send(request("/long"))
    await caller.reader.readuntil(b"\r\n\r\n")
    await town.replace()
    more.set()
    assert await caller.reader.readexactly(pieces * 1000) == b"x" * pieces * 1000
    await until(lambda: len(processes_of(town.folder)) == 1)
    assert (await caller.ask(request("/"))).body == b"short"


async def test_service_ports_stay_open_when_a_gateway_is_replaced(town: GatewayTown, free_port: int):
    one = await town.instance("one")
    await town.router.reserve("shop", [Listen(free_port)])
    await town.shop(one, external=free_port)
    caller = await town.caller(free_port)
    await caller.ask(request())
    for _ in range(2):
        await town.replace()
        async with calling(free_port) as other:
            assert (await other.ask(request())).body == b"one"
    await until(lambda: len(processes_of(town.folder)) == 1)
    assert (await caller.ask(request())).body == b"one"


async def test_a_port_in_use_is_refused_with_the_words_of_the_router(town: GatewayTown, free_port: int):
    await town.shop(await town.instance("one"))
    await town.router.reserve("shop", [Listen(free_port)])
    with pytest.raises(RouteError, match=f"port {free_port} is in use by another service"):
        await town.router.reserve("other", [Listen(free_port)])


async def test_draining_an_instance_also_waits_for_requests_in_the_replaced_gateway(
    town: GatewayTown,
):
    gate = asyncio.Event()

    async def answer(heard: Heard) -> None:
        await gate.wait()
        heard.out.write(reply(b"late"))

    one = await town.instance("one", answer)
    await town.shop(one)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: one.heard)
    await town.replace()
    await town.shop(await town.instance("two"))
    draining = asyncio.create_task(town.router.drain([one.endpoint], 30))
    done, _ = await asyncio.wait([draining], timeout=0.3)
    assert not done
    gate.set()
    await draining
    assert (await caller.said()).body == b"late"


async def test_a_tunnel_through_a_relieved_gateway_is_cut_after_the_patience(town: GatewayTown):
    async def echo(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
        await heard.reader.read(100)

    one = await town.instance("one", echo)
    await town.shop(one)
    socket = await town.caller()
    await socket.send(request("/", "GET", SHOP, "Upgrade: websocket", "Connection: upgrade"))
    await socket.reader.readuntil(b"\r\n\r\n")
    await town.replace()
    await town.router.drain([one.endpoint], 0.2)
    assert await socket.rest() == b""


async def test_of_gateways_started_at_the_same_time_only_one_remains(town: GatewayTown):
    await town.shop(await town.instance("one"))
    for _ in range(4):
        start_gateway(town.folder)
    await until(lambda: len(processes_of(town.folder)) > 1)
    await until(lambda: len(processes_of(town.folder)) == 1)
    assert (await town.ask(request())).body == b"one"


async def test_a_successor_that_dies_during_the_handover_changes_nothing(town: GatewayTown):
    await town.shop(await town.instance("one"))
    before = await town.process()
    connection = connect_to(town.folder, HANDOVER, socket.SOCK_SEQPACKET)
    assert connection
    await asyncio.sleep(0.2)
    connection.close()
    assert (await town.ask(request())).body == b"one"
    await town.shop(await town.instance("two"))
    assert (await town.ask(request())).body == b"two"
    assert await town.process() == before
    await town.replace()
    assert (await town.ask(request())).body == b"two"


async def refused(town: GatewayTown) -> None:
    """Waits until the port is closed: a process that ends has no command line any more before that."""
    async with asyncio.timeout(20):
        while True:
            try:
                await town.ask(request())
            except ConnectionError:
                return
            except asyncio.IncompleteReadError:
                await asyncio.sleep(0.001)


async def test_a_gateway_without_a_route_ends_with_its_last_server(town: GatewayTown):
    await town.process()
    await town.router.stop()
    await until(lambda: not processes_of(town.folder))
    await refused(town)


async def test_a_gateway_ends_when_its_folder_is_deleted(town: GatewayTown):
    await town.shop(await town.instance("one"))
    await town.router.stop()
    shutil.rmtree(town.folder)
    await until(lambda: not processes_of(town.folder))
    await refused(town)


async def test_a_server_with_other_code_replaces_the_gateway(town: GatewayTown, monkeypatch):
    await town.shop(await town.instance("one"))
    before = await town.process()
    await town.new_server()
    assert await town.process() == before
    monkeypatch.setattr(link, "build", lambda: "other")
    await town.new_server()
    assert await town.process() != before
    assert (await town.ask(request())).body == b"one"


async def test_invalid_bytes_on_a_control_connection_close_only_that_connection(town: GatewayTown):
    await town.shop(await town.instance("one"))
    before = await town.process()
    for said in (b"\xff" * 100, b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x01\xc1", b""):
        other = connect_to(town.folder, CONTROL, socket.SOCK_STREAM)
        assert other
        other.sendall(said)
        other.close()
    assert await town.process() == before
    assert (await town.ask(request())).body == b"one"


async def test_a_returning_server_does_not_overwrite_newer_routes_of_a_gateway(town: GatewayTown):
    """A server that comes back does not overwrite what another one told meanwhile."""
    one, two = await town.instance("one"), await town.instance("two")
    await town.shop(one)
    other = GatewayRouter(GatewayLink(town.folder), "local", "127.0.0.1", 0)
    await other.start()
    await other.set("shop", [route([two.endpoint])])
    await other.stop()
    await town.kill()
    await until(lambda: not town.link._is_ready.is_set())
    await town.process()
    assert (await town.ask(request())).body == b"two"


async def test_a_gateway_that_lost_its_journal_receives_its_routes_again(town: GatewayTown):
    await town.shop(await town.instance("one"))
    (town.folder / JOURNAL).write_bytes(b"")
    await town.kill()
    await until(lambda: not town.link._is_ready.is_set())
    await town.process()
    assert (await town.ask(request())).body == b"one"


async def test_changes_are_made_while_the_disk_of_the_gateway_is_full(town: GatewayTown):
    await town.shop(await town.instance("one"))
    resource.prlimit(await town.process(), resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    async with asyncio.timeout(20):
        await town.shop(await town.instance("two"))
    assert (await town.ask(request())).body == b"two"


async def test_a_gateway_that_dies_while_its_disk_is_full_has_no_old_routes(town: GatewayTown):
    await town.shop(await town.instance("one"))
    resource.prlimit(await town.process(), resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    async with asyncio.timeout(20):
        await town.shop(await town.instance("two"))
    await town.kill()
    await until(lambda: not town.link._is_ready.is_set())
    await town.process()
    assert (await town.ask(request())).body == b"two"
