"""TCP by external port: pipes, and which ports are whose."""

import asyncio
import errno
import socket
from pathlib import Path

import pytest

from tests.free_ports import free_port
from tests.gateway.routers.exchanges import BOUND, EMPTY_PORT, MUCH, standstill
from tests.gateway.routers.town import calling, reply, request, route, until
from windlass.routers.builtin import BuiltinRouter
from windlass.routers.builtin.router import explain
from windlass.routers.router import Endpoint, Listen, RouteError, Router


class Plain:
    """A TCP server that does with each connection what it is told."""

    def __init__(self, serve):
        self.serve = serve
        self.open = 0
        self.came = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = Endpoint("127.0.0.1", self._server.sockets[0].getsockname()[1])
        self._tasks = set()
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, out):
        self._tasks.add(asyncio.current_task())
        self.open += 1
        self.came += 1
        try:
            await self.serve(reader, out)
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            self._tasks.discard(asyncio.current_task())
            out.transport.abort()


async def echo(reader, out):
    while data := await reader.read(65_536):
        out.write(data)
        await out.drain()
    out.write_eof()
    await out.drain()
    await asyncio.sleep(0.01)


async def until_the_end(reader, out):
    """Answers only when the other side has said that it sends no more."""
    out.write(b"%d" % len(await reader.read()))
    out.close()
    await out.wait_closed()


def tcp(port, *endpoints, service="db"):
    return route(endpoints, service, (), kind="tcp", external=port)


async def opened(town, *endpoints, service="db"):
    port = free_port()
    await town.router.reserve(service, [Listen(port)])
    await town.router.set(service, [tcp(port, *endpoints, service=service)])
    return port


async def test_tcp_bytes_are_forwarded_in_both_directions(town):
    async with Plain(echo) as db:
        caller = await town.caller(await opened(town, db.endpoint))
        for size in (1, 100_000):
            await caller.send(b"x" * size)
            assert await caller.reader.readexactly(size) == b"x" * size
        assert town.active("db") == 1
        await caller.close()
        await until(lambda: town.active("db") == 0 and not db.open)
        assert town.router.traffic()["db"].requests == 1


async def test_a_half_closed_connection_still_gets_its_answer(town):
    async with Plain(until_the_end) as db:
        caller = await town.caller(await opened(town, db.endpoint))
        await caller.send(b"12345")
        caller.out.write_eof()
        assert await caller.rest() == b"5"
        await until(lambda: town.active("db") == 0)


async def test_a_slow_reader_exerts_backpressure_and_receives_all_bytes(town):
    written = 0

    async def much(reader, out):
        nonlocal written
        for _ in range(MUCH // 65_536):
            out.write(b"x" * 65_536)
            await out.drain()
            written += 65_536
        out.close()
        await out.wait_closed()

    async with Plain(much) as db:
        caller = await town.caller(await opened(town, db.endpoint))
        await standstill(lambda: written)
        assert 0 < written < BOUND
        assert len(await caller.rest()) == MUCH


async def test_tcp_connections_go_to_the_instance_with_the_fewest_connections(town):
    async with Plain(echo) as one, Plain(echo) as two:
        port = await opened(town, one.endpoint, two.endpoint)
        for _ in range(6):
            await (await town.caller(port)).send(b"x")
        await until(lambda: one.open + two.open == 6)
        assert (one.open, two.open) == (3, 3)


async def test_an_endpoint_that_refuses_a_connection_is_skipped(town):
    async with Plain(echo) as db:
        port = await opened(town, EMPTY_PORT, db.endpoint)
        for _ in range(3):
            caller = await town.caller(port)
            await caller.send(b"x")
            assert await caller.reader.readexactly(1) == b"x"


@pytest.mark.parametrize("endpoints", [[], [EMPTY_PORT]])
async def test_a_connection_to_a_port_without_a_service_is_closed_at_once(town, endpoints):
    port = await opened(town, *endpoints)
    assert await (await town.caller(port)).rest() == b""
    await until(lambda: town.active("db") == 0)


async def test_a_port_without_a_route_closes_connections(town):
    port = free_port()
    await town.router.reserve("db", [Listen(port)])
    assert await (await town.caller(port)).rest() == b""


async def test_a_connection_reset_by_the_instance_closes_the_clients_connection(town):
    async def hang_up(reader, out):
        out.transport.abort()

    async with Plain(hang_up) as db:
        caller = await town.caller(await opened(town, db.endpoint))
        assert await caller.rest() == b""
        await caller.close()
        await until(lambda: town.active("db") == 0)


async def test_bytes_sent_by_a_client_before_its_instance_is_connected_are_forwarded(town):
    async with Plain(until_the_end) as db:
        port = await opened(town, db.endpoint)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"12345")
            client.shutdown(socket.SHUT_WR)
            assert await asyncio.to_thread(client.recv, 10) == b"5"


async def test_tcp_connections_are_closed_when_the_drain_timeout_ends(town):
    async with Plain(echo) as db:
        caller = await town.caller(await opened(town, db.endpoint))
        await caller.send(b"x")
        await caller.reader.readexactly(1)
        await town.router.drain([db.endpoint], 0.02)
        assert await caller.rest() == b""


# Whose a port is


async def test_a_port_of_another_service_is_refused_without_its_name(town):
    port = await opened(town, service="orders")
    with pytest.raises(RouteError, match=rf"port {port} is in use by another service"):
        await town.router.reserve("db", [Listen(port)])


async def test_a_port_of_another_program_is_refused(town):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RouteError, match=rf"port {port} is in use by another program"):
            await town.router.reserve("db", [Listen(port)])


async def test_the_port_of_the_gateway_is_refused(town):
    with pytest.raises(RouteError, match="setting gateway_port"):
        await town.router.reserve("db", [Listen(town.router.port)])


async def test_a_port_reservation_succeeds_completely_or_not_at_all(town):
    kept, wanted = await opened(town), free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(RouteError):
            await town.router.reserve("db", [Listen(wanted), Listen(taken)])
    assert not is_listening(wanted)
    assert is_listening(kept), "what it had before, it still has"


async def test_a_new_port_reservation_of_a_service_replaces_its_former_one(town):
    first, second, third = free_port(), free_port(), free_port()
    await town.router.reserve("db", [Listen(first), Listen(second)])
    await town.router.reserve("db", [Listen(second), Listen(third)])
    assert [is_listening(port) for port in (first, second, third)] == [False, True, True]
    await town.router.reserve("db", [Listen(second), Listen(third)])
    await town.router.forget("db")
    assert not any(is_listening(port) for port in (first, second, third))
    await town.router.reserve("other", [Listen(first), Listen(second)])


async def test_of_concurrent_reservations_of_one_port_exactly_one_succeeds(town):
    port = free_port()
    found = await asyncio.gather(
        *(town.router.reserve(service, [Listen(port)]) for service in "abc"), return_exceptions=True
    )
    assert sum(isinstance(each, RouteError) for each in found) == 2
    assert is_listening(port)


async def test_a_local_port_listens_only_on_loopback():
    router = BuiltinRouter("0.0.0.0", 0)
    await router.start()
    try:
        port = free_port()
        for local, address in ((True, "127.0.0.1"), (False, "0.0.0.0"), (True, "127.0.0.1")):
            await router.reserve("db", [Listen(port, local=local)])
            assert listened_on(port) == [address]
    finally:
        await router.stop()


async def test_a_route_to_a_port_that_is_not_reserved_is_refused(town):
    with pytest.raises(RouteError, match="has not been reserved for Db"):
        await town.router.set("db", [tcp(free_port())])


def test_a_privileged_port_is_refused_with_advice_to_choose_a_higher_one():
    """The test uses the system's own error, since the user of the tests may have the right."""
    denied = PermissionError(errno.EACCES, "Permission denied")
    assert "choose a higher one" in explain(denied, "0.0.0.0", 80, "another program", "")
    assert "choose a higher one" not in explain(denied, "0.0.0.0", 8080, "another program", "")


async def test_a_gateway_with_an_occupied_port_names_its_setting():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RouteError, match=rf"port {port} .*gateway_port"):
            await BuiltinRouter("127.0.0.1", port).start()


async def test_a_gateway_on_an_address_that_is_not_here_names_its_setting():
    with pytest.raises(RouteError, match="gateway_host"):
        await BuiltinRouter("203.0.113.7", 0).start()


def test_the_builtin_router_implements_the_router_protocol():
    router: Router = BuiltinRouter("127.0.0.1", 0)  # mypy is the judge
    assert router is not None


async def test_a_stopped_router_releases_everything_and_can_start_again(town):
    shop = await town.instance()
    await town.shop(shop)
    caller = await town.caller()
    await caller.ask(request())
    port = free_port()
    await town.router.reserve("shop", [Listen(port)])
    await town.router.stop()
    assert await caller.rest() == b""
    assert not is_listening(town.router.port)
    assert not is_listening(port)
    await until(lambda: not shop.open)
    await town.router.start()
    async with calling(town.router.port) as again:
        assert (await again.ask(request())).body == b"one"


async def test_a_port_changed_from_http_to_tcp_serves_tcp_from_the_next_connection(town):
    async def hello(heard):
        heard.out.write(reply(b"http"))

    shop = await town.instance(answer=hello)
    port = free_port()
    await town.router.reserve("shop", [Listen(port)])
    await town.router.set("shop", [route([shop.endpoint], external=port)])
    assert (await (await town.caller(port)).ask(request(host="x"))).body == b"http"
    async with Plain(echo) as db:
        await town.router.set("shop", [tcp(port, db.endpoint, service="shop")])
        caller = await town.caller(port)
        await caller.send(b"x")
        assert await caller.reader.readexactly(1) == b"x"


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def listened_on(port):
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        address, number = local.split(":")
        if state == "0A" and int(number, 16) == port:
            found.append(socket.inet_ntoa(bytes.fromhex(address)[::-1]))
    return found


async def test_a_retiring_router_completes_active_requests_and_accepts_no_new_connections(town):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(heard):
        begun.set()
        await go_on.wait()
        heard.out.write(reply(b"whole" * 50_000))

    await town.shop(await town.instance(answer=slowly))
    under_way = asyncio.create_task(town.ask(request()))
    await begun.wait()
    retiring = asyncio.create_task(town.router.retire(30))
    await asyncio.sleep(0)
    assert not await is_open(town.router.port)
    assert not retiring.done()
    await town.router.forget("shop")
    go_on.set()
    assert (await under_way).body == b"whole" * 50_000
    await retiring
    assert not town.router.connections


async def is_open(port: int) -> bool:
    try:
        _, out = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    out.transport.abort()
    return True
