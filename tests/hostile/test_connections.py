"""Slow, silent and many connections against both public ports."""

import asyncio
from typing import Any

import pytest

from tests.gateway.routers.town import SHOP
from tests.hostile.ports import ASK, PORTS, opened, settled
from tests.world import ADMIN
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connections import Admission, ConnectionTable

BEGINNING = ASK[:-2]
BODY = f"POST /nobody HTTP/1.1\r\nHost: {SHOP}\r\nContent-Length: 9\r\n\r\n1".encode()
QUICK: dict[str, Any] = {
    "parting_seconds": 0.1,
    "head_seconds": 0.1,
    "idle_seconds": 0.1,
    "stall_seconds": 0.1,
    "body_seconds": 0.2,
}
PATIENT: dict[str, Any] = dict.fromkeys(QUICK, 1000.0)


async def silent(caller):
    """Says nothing."""


async def half_a_head(caller):
    await caller.send(BEGINNING)


async def a_head_by_and_by(caller):
    for byte in b"GET / HTTP/1.1\r\nA: " + b"x" * 10_000:
        if caller.out.is_closing() or caller.reader._eof:
            return
        caller.out.write(bytes([byte]))
        await asyncio.sleep(0.01)


async def idle_after_an_answer(caller):
    assert (await caller.ask(ASK)).status == 200


async def half_a_second_head(caller):
    await caller.ask(ASK)
    await caller.send(BEGINNING)


SLOW = [silent, half_a_head, a_head_by_and_by, idle_after_an_answer, half_a_second_head]


@pytest.mark.parametrize("behave", SLOW)
@pytest.mark.parametrize("name", PORTS)
async def test_an_idle_or_slow_client_is_disconnected(name, behave):
    async with opened(name, **QUICK) as port:
        caller = await port.caller()
        await behave(caller)
        answer = await caller.rest()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408 ")
        await settled(lambda: not port.table.members)


@pytest.mark.parametrize("name", PORTS)
async def test_longer_timeouts_serve_the_same_slow_clients(name):
    """Otherwise the test above would show nothing."""
    async with opened(name, **PATIENT) as port:
        caller = await port.caller()
        for byte in ASK:
            caller.out.write(bytes([byte]))
            await asyncio.sleep(0.004)
        assert (await caller.said()).status == 200
        await asyncio.sleep(0.2)
        assert (await caller.ask(ASK)).status == 200


async def sent_by_and_by(caller, pieces, pause):
    for piece in pieces:
        if caller.out.is_closing() or caller.reader._eof:
            return
        caller.out.write(piece)
        await asyncio.sleep(pause)


@pytest.mark.parametrize(
    ("pieces", "bounds"), [([b"{"], {"stall_seconds": 0.1}), ([b" "] * 1000, {"body_seconds": 0.2})]
)
async def test_a_body_that_stalls_or_drips_is_cut_on_the_api_port(pieces, bounds):
    head = (
        f"POST /organization HTTP/1.1\r\nHost: x\r\nAuthorization: Token {ADMIN}\r\n"
        "Content-Length: 9999\r\n\r\n"
    )
    async with opened("api", **bounds) as port:
        caller = await port.caller()
        await caller.send(head.encode())
        dripping = asyncio.ensure_future(sent_by_and_by(caller, pieces, 0.01))
        assert (await caller.said()).status == 408
        await dripping


async def flood(port, number, *addresses):
    return [await port.caller(addresses[count % len(addresses)]) for count in range(number)]


def still_open(callers):
    return sum(not caller.reader._eof for caller in callers)


@pytest.mark.parametrize("begin", [b"", BEGINNING], ids=["silent", "half a head"])
@pytest.mark.parametrize("name", PORTS)
async def test_connections_over_the_limit_are_closed_and_other_clients_are_served(name, begin):
    async with opened(name, connections=8) as port:
        callers = await flood(port, 60, "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
        for caller in callers:
            caller.out.write(begin)
        for _ in range(5):
            assert await port.status(ASK) == 200
        await settled(lambda: still_open(callers) <= 8)
        assert len(port.table.members) <= 9


@pytest.mark.parametrize("name", PORTS)
async def test_without_the_connection_limit_all_flooding_connections_stay_open(name):
    """Otherwise the test above would show nothing."""
    async with opened(name, connections=1000) as port:
        callers = await flood(port, 60, "127.0.0.2", "127.0.0.3")
        assert await port.status(ASK) == 200
        assert still_open(callers) == 60


@pytest.mark.parametrize("name", PORTS)
async def test_one_address_may_use_only_half_of_all_connections(name):
    async with opened(name, connections=8) as port:
        steady = await port.caller("127.0.0.9")
        assert (await steady.ask(ASK)).status == 200
        callers = await flood(port, 40, "127.0.0.2")
        await settled(lambda: still_open(callers) <= 4)
        assert (await steady.ask(ASK)).status == 200


class Calling:
    """A connection with a request under way, which cannot be closed for another one."""

    def __init__(self, network: str) -> None:
        self.network = network

    def waits_since(self) -> None:
        return None

    def age(self, now: float) -> None:
        pass

    def abort(self) -> None:
        raise AssertionError("it has a request under way")


def admitted(table: ConnectionTable, network: str) -> int:
    return sum(table.admit(Calling(network)) is Admission.FREE for _ in range(100))


async def test_services_of_one_organization_leave_connections_to_other_organizations_and_visitors():
    table = ConnectionTable("gateway", Bounds(connections=64))
    organizations = [admitted(table, f"198.19.0.{number}") for number in (130, 140, 150)]
    assert organizations == [16, 7, 3]
    assert admitted(table, "203.0.113.9") == 32
    table.stop()


async def test_organizations_behind_one_address_would_exhaust_each_others_connections():
    table = ConnectionTable("gateway", Bounds(connections=64))
    assert [admitted(table, "198.19.0.130") for _ in range(2)] == [16, 0]
    table.stop()


@pytest.mark.parametrize("name", PORTS)
async def test_a_trusted_proxy_may_use_all_connections(name):
    async with opened(name, connections=8, trusts=("127.0.0.0/29",)) as port:
        callers = await flood(port, 8, "127.0.0.2")
        for caller in callers:
            assert (await caller.ask(ASK)).status == 200
        assert still_open(callers) == 8


@pytest.mark.parametrize("name", PORTS)
async def test_many_bad_requests_are_one_line_in_the_log(name, caplog):
    async with opened(name, pause_seconds=0.04) as port:
        for _ in range(100):
            assert await port.status(b"no request\r\n\r\n") == 400
        await settled(lambda: [line for line in caplog.records if line.name == "windlass.connections"])
    lines = [line for line in caplog.records if "uvicorn" in line.name or "windlass" in line.name]
    assert 1 <= len(lines) <= 2  # the first moment, and what is left at the end


async def test_unread_answers_are_limited_in_total_size():
    async with opened("api", unsent_bytes=1024 * 1024) as port:
        ask = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        callers = [await port.caller(room=4096) for _ in range(20)]
        for caller in callers:
            caller.out.write(ask * 20)
        await settled(lambda: port.table._refused["unread"] or len(port.table.members) < 20)
        assert port.table._unsent_bytes <= 1024 * 1024
        assert await port.status(ASK) == 200
