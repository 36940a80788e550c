"""HTTPS goes on while servers and gateways come and go."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.free_ports import free_port
from tests.gateway.gateway_town import GatewayTown, make_gateway_town, processes_of
from tests.gateway.routers.http2_caller import head_of, http2_caller
from tests.gateway.routers.issuing import issue
from tests.gateway.routers.proxy_headers import binary, caller_behind
from tests.gateway.routers.secure_town import ask_securely, secure_caller
from tests.gateway.routers.test_held_ports import can_be_taken
from tests.gateway.routers.town import SHOP, Caller, Heard, reply, request, until
from tests.gateway.test_sealed_files import is_there
from tests.marks import either
from windlass.gateway.link import GatewayLink
from windlass.gateway.router import GatewayRouter
from windlass.routers.router import Challenge, RouteError

pytestmark = pytest.mark.slow


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[GatewayTown]:
    async with make_gateway_town(tmp_path, https_port=free_port()) as made:
        await made.router.put_certificate("shop", issue(SHOP))
        yield made


async def test_a_gateway_serves_https(town: GatewayTown) -> None:
    await town.shop(await town.instance())
    assert (await ask_securely(town.https_port, request())).body == b"one"
    assert (await town.ask(request())).status == 308
    assert (await town.router.certificates()).keys() == {"shop"}


async def test_a_killed_gateway_serves_https_again_without_its_server(town: GatewayTown) -> None:
    """The next server may come later: another program starts the gateway first."""
    certificate = issue("other.localhost")
    await town.router.put_certificate("other", certificate)
    await town.router.put_challenge("c", Challenge(SHOP, "/.well-known/acme-challenge/a", b"proof"))
    await town.shop(await town.instance(), hosts=(SHOP, "other.localhost"))
    process = await town.process()
    await town.router.stop()
    os.kill(process, signal.SIGKILL)
    await until(lambda: not processes_of(town.folder))
    town.start_gateway()
    await until(lambda: is_open(town.https_port))
    for name in (SHOP, "other.localhost"):
        assert (await ask_securely(town.https_port, request(host=name), name)).body == b"one"
    said = await town.ask(request("/.well-known/acme-challenge/a"))
    assert said.body == b"proof"
    assert not is_there(certificate.key, town.folder)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_the_keys_of_certificates_are_in_no_file_of_a_gateway(town: GatewayTown) -> None:
    certificate = issue("other.localhost")
    await town.router.put_certificate("other", certificate)
    await town.router.put_challenge("c", Challenge("x.localhost", certificate=certificate))
    await town.replace()
    await town.router.put_certificate("third", certificate)
    await town.router.drop_certificate("other")
    assert not is_there(certificate.key, town.folder)
    (town.folder / "control").write_bytes(certificate.key)
    assert is_there(certificate.key, town.folder), "the search would find it"


async def test_idle_and_busy_https_connections_outlive_a_replacement(town: GatewayTown) -> None:
    gate = asyncio.Event()

    async def answer(heard: Heard) -> None:
        if heard.target == "/slow":
            await gate.wait()
        fields = heard.fields
        told = f"{heard.target} {fields['x-forwarded-proto']} {fields['x-forwarded-for']}"
        heard.out.write(reply(told.encode()))

    await town.shop(await town.instance("one", answer), hsts=60)
    async with contextlib.AsyncExitStack() as stack:

        async def connected() -> Caller:
            return await stack.enter_async_context(secure_caller(town.https_port))

        idle, slow, half, fresh = [await connected() for _ in range(4)]
        await idle.ask(request("/1"))
        await slow.send(request("/slow"))
        await half.send(request("/half")[:20])
        await town.replace()
        said = await idle.ask(request("/2"))
        assert said.body == b"/2 https 127.0.0.1"
        assert said.fields["strict-transport-security"] == "max-age=60"
        assert said.fields["connection"] == "close", "so that the former gateway can end"
        gate.set()
        assert (await slow.said()).body == b"/slow https 127.0.0.1"
        await half.send(request("/half")[20:])
        assert (await half.said()).body == b"/half https 127.0.0.1"
        assert (await fresh.ask(request("/fresh", "POST", body=b"x" * 500_000))).body.startswith(b"/fresh")
        for caller in (idle, fresh):
            assert await caller.rest() == b""
        again = await slow.ask(request("/again"))
        assert again.body == b"/again https 127.0.0.1"
    await until(lambda: len(processes_of(town.folder)) == 1)


async def test_the_successor_knows_the_addresses_that_a_proxy_told(tmp_path: Path) -> None:
    async def answer(heard: Heard) -> None:
        heard.out.write(reply(heard.fields["x-forwarded-for"].encode()))

    async with make_gateway_town(tmp_path, free_port(), proxies=("127.0.0.1",)) as town:
        await town.router.put_certificate("shop", issue(SHOP))
        await town.shop(await town.instance("one", answer), redirect=False)
        header = binary("203.0.113.7")
        async with (
            caller_behind(town.router.port, header, secure=False) as plain,
            caller_behind(town.https_port, header, secure=True) as secure,
        ):
            assert (await plain.ask(request())).body == (await secure.ask(request())).body == b"203.0.113.7"
            await town.replace()
            assert (await plain.ask(request())).body == (await secure.ask(request())).body == b"203.0.113.7"


async def test_the_successor_answers_idle_https_connections_with_its_own_routes(town: GatewayTown) -> None:
    one, two = await town.instance("one"), await town.instance("two")
    await town.shop(one)
    async with secure_caller(town.https_port) as idle, secure_caller(town.https_port) as second:
        assert (await idle.ask(request())).body == b"one"
        await second.ask(request())
        await town.replace()
        await town.shop(two)
        assert (await idle.ask(request())).body == b"two"
        await town.replace()
        assert (await second.ask(request())).body == b"two", "through two gateways"
    await until(lambda: len(processes_of(town.folder)) == 1)


async def test_no_https_request_fails_through_several_replacements(town: GatewayTown) -> None:
    await town.shop(await town.instance("one"))
    going, failed, done = True, [], 0

    async def kept() -> None:
        """A client that connects again only when it was told."""
        nonlocal done
        while going:
            async with secure_caller(town.https_port) as caller:
                while going:
                    said = await caller.ask(request("/", "POST", body=b"x"))
                    done += 1
                    if said.status != 200:
                        failed.append(said)
                    if said.fields.get("connection") == "close":
                        break

    async def new() -> None:
        nonlocal done
        while going:
            said = await ask_securely(town.https_port, request())
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
    await until(lambda: len(processes_of(town.folder)) == 1)


async def test_no_http2_request_fails_through_several_replacements(town: GatewayTown) -> None:
    """Clients do as the standard says: after a goodbye they connect again, and send once more what the
    gateway has said not to have served."""
    await town.shop(await town.instance("one"))
    over, failed = asyncio.Event(), []
    done = moves = 0

    async def browse() -> None:
        nonlocal done, moves
        while not over.is_set():
            async with http2_caller(town.https_port) as caller:
                stream = 1
                while not (caller.goaways or over.is_set()):
                    try:
                        said = await caller.ask(stream, head_of("/", "POST"), b"x")
                    except ConnectionError:
                        assert caller.goaways[-1][0] < stream, "it was not served"
                        break
                    done += 1
                    if said.status != 200:
                        failed.append(said)
                    stream += 2
                moves += 1

    clients = [asyncio.create_task(browse()) for _ in range(5)]
    for _ in range(either(4, 10)):
        await town.replace()
    over.set()
    await asyncio.gather(*clients)
    assert not failed
    assert (done > 100, moves > 5) == (True, True)
    await until(lambda: len(processes_of(town.folder)) == 1)


async def test_a_stream_outlives_a_replacement_until_it_ends(town: GatewayTown) -> None:
    more = asyncio.Event()

    async def answer(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await more.wait()
        heard.out.write(b"6\r\nsecond\r\n0\r\n\r\n")

    await town.shop(await town.instance("one", answer))
    async with http2_caller(town.https_port) as caller:
        await caller.send(caller.head(1, head_of()))
        await caller.until(lambda: caller.so_far(1).body == b"first")
        await town.replace()
        await caller.until(lambda: caller.goaways)
        more.set()
        assert (await caller.said(1)).body == b"firstsecond"
    await until(lambda: len(processes_of(town.folder)) == 1)


async def test_a_websocket_through_https_outlives_a_replacement(town: GatewayTown) -> None:
    async def echo(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
        while data := await heard.reader.read(100):
            heard.out.write(data)

    await town.shop(await town.instance("one", echo))
    async with secure_caller(town.https_port) as before, secure_caller(town.https_port) as idle:
        upgrading = request("/", "GET", SHOP, "Upgrade: websocket", "Connection: upgrade")
        await before.send(upgrading)
        await before.reader.readuntil(b"\r\n\r\n")
        await town.replace()
        await idle.send(upgrading)
        await idle.reader.readuntil(b"\r\n\r\n")
        await town.replace()
        for caller in (before, idle):
            for _ in range(3):
                await caller.send(b"ping")
                assert await caller.reader.readexactly(4) == b"ping"
    await until(lambda: len(processes_of(town.folder)) == 1)


async def test_the_https_port_is_held_in_both_address_families_after_a_replacement(
    town: GatewayTown,
) -> None:
    before = await town.process()
    await town.replace()
    await until(lambda: before not in processes_of(town.folder))
    assert not can_be_taken("::1", town.https_port)


async def test_a_server_with_another_https_port_is_refused_while_one_runs(town: GatewayTown) -> None:
    other = GatewayRouter(
        GatewayLink(town.folder), "local", "127.0.0.1", town.router.port, https_port=free_port()
    )
    with pytest.raises(RouteError, match=f"^set https_port to {town.https_port}, or data_dir"):
        await other.start()


async def test_the_next_server_can_change_the_https_port(town: GatewayTown) -> None:
    await town.shop(await town.instance())
    async with secure_caller(town.https_port) as kept:
        await kept.ask(request())
        town.https_port = free_port()
        await town.new_server()
        assert (await ask_securely(town.https_port, request())).body == b"one"
        assert (await kept.ask(request())).body == b"one"
        town.https_port = 0
        await town.new_server()
        assert (await kept.ask(request())).body == b"one"
        assert (await town.ask(request())).body == b"one", "it is not redirected"
