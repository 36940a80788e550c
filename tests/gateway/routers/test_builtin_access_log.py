"""The access log of a router has one line for each request and TCP connection, without any secret."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests import free_ports
from tests.gateway.routers.exchanges import EMPTY_PORT
from tests.gateway.routers.sites import serve
from tests.gateway.routers.town import (
    SHOP,
    Heard,
    Town,
    make_town,
    notice_leaving_clients,
    reply,
    request,
    route,
    until,
)
from windlass.base.line_log import LineLog
from windlass.routers.builtin.access_log import RouterAccessLog
from windlass.routers.builtin.shared_state import ClientWait
from windlass.routers.router import Listen

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


@pytest.fixture
async def town(file: Path) -> AsyncIterator[Town]:
    async with make_town() as made:
        await made.router.log_to(str(file))
        yield made


async def lines(town: Town, file: Path) -> list[Any]:
    """Ends the log, so that it is complete."""
    await town.router.log_to("")
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_a_request_is_logged_as_one_line_without_its_query_string(town: Town, file: Path):
    one = await town.instance("one")
    await town.shop(one, org="acme")
    fields = (f"Traceparent: 00-{TRACE}-00f067aa0ba902b7-01", "User-Agent: of-the-test")
    await town.ask(request("/cart?token=secret", "GET", SHOP, *fields))
    (line,) = await lines(town, file)
    assert line.pop("time").endswith("Z")
    assert line.pop("ms") >= 0
    assert line == {
        "level": "info",
        "logger": "windlass.gateway.access",
        "message": f"GET {SHOP}/cart 200",
        "method": "GET",
        "host": SHOP,
        "port": town.router.port,
        "path": "/cart",
        "status": 200,
        "bytes": len(reply(b"one")),
        "service": "shop",
        "organization": "acme",
        "address": "127.0.0.1",
        "user_agent": "of-the-test",
        "request_id": one.heard[0].fields["x-request-id"],
        "trace_id": TRACE,
        "protocol": "HTTP/1.1",
    }


async def test_every_request_of_a_busy_connection_is_logged(town: Town, file: Path):
    await town.shop(await town.instance("one"))
    caller = await town.caller()
    for number in range(40):
        await caller.ask(request(f"/{number}"))
    assert [line["path"] for line in await lines(town, file)] == [f"/{number}" for number in range(40)]


async def test_requests_on_connections_that_were_open_before_the_log_are_logged(tmp_path: Path):
    async with make_town() as town:
        await town.shop(await town.instance("one"))
        caller = await town.caller()
        for _ in range(20):
            await caller.ask(request("/before"))
        await town.router.log_to(str(tmp_path / "log"))
        for _ in range(10):
            await caller.ask(request("/after"))
        assert [line["path"] for line in await lines(town, tmp_path / "log")] == ["/after"] * 10


async def test_requests_after_the_end_of_the_log_are_not_logged(town: Town, file: Path):
    await town.shop(await town.instance("one"))
    caller = await town.caller()
    await caller.ask(request())
    await town.router.log_to("")
    await caller.ask(request())
    assert len(await lines(town, file)) == 1


async def test_the_target_is_logged_as_the_client_sent_it(town: Town, file: Path):
    one = await town.instance("one")
    await town.shop(one, path="/api", rewrite="/v2")
    await town.ask(request("/api/cart"))
    assert one.heard[0].target == "/v2/cart"
    assert (await lines(town, file))[0]["path"] == "/api/cart"


async def test_error_answers_of_the_router_are_logged_with_their_status(town: Town, file: Path):
    async def answer(heard: Heard) -> None:
        heard.out.write(b"no HTTP\r\n\r\n")

    await town.ask(request("/", "GET", "other.localhost"))
    await town.router.set("shop", [route([EMPTY_PORT])])
    await town.ask(request())
    await town.shop(await town.instance("one", answer))
    await town.ask(request())
    await town.ask(b"no request\r\n\r\n")
    logged = await lines(town, file)
    assert [(line["status"], line["service"], line["method"]) for line in logged] == [
        (404, None, "GET"),
        (503, "shop", "GET"),
        (502, "shop", "GET"),
        (400, None, None),
    ]
    assert all(line["bytes"] > 100 for line in logged)


async def test_a_client_that_leaves_before_its_answer_is_logged_without_a_status(town: Town, file: Path):
    notice_leaving_clients(town)

    async def answer(heard: Heard) -> None:
        await heard.reader.read()

    one = await town.instance("one", answer)
    await town.shop(one)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: one.heard)
    await caller.close()
    await until(lambda: town.active() == 0)
    assert [(line["path"], line["status"]) for line in await lines(town, file)] == [("/", None)]


async def test_a_websocket_is_logged_at_its_end_with_all_its_bytes(town: Town, file: Path):
    head = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"

    async def answer(heard: Heard) -> None:
        heard.out.write(head)
        heard.out.write(await heard.reader.readexactly(1000))
        await heard.reader.read()

    await town.shop(await town.instance("one", answer))
    caller = await town.caller()
    await caller.send(request("/chat", "GET", SHOP, "Upgrade: websocket", "Connection: upgrade"))
    await caller.reader.readuntil(b"\r\n\r\n")
    await caller.send(b"x" * 1000)
    await caller.reader.readexactly(1000)
    assert not file.exists() or not file.read_text()
    await caller.close()
    await until(lambda: town.active() == 0)
    (line,) = await lines(town, file)
    assert (line["path"], line["status"]) == ("/chat", 101)
    assert line["bytes"] >= 1000 + len(head) - 10  # the router writes the names of fields its own way


async def test_a_tcp_connection_is_logged_at_its_end(town: Town, file: Path):
    port = free_ports.free_port()
    one = await town.instance("one")
    await town.router.reserve("db", [Listen(port)])
    await town.router.set("db", [route([one.endpoint], service="db", kind="tcp", external=port)])
    caller = await town.caller(port)
    answer = await caller.ask(request("/inside"))
    assert answer.status == 200
    await caller.close()
    await until(lambda: town.active("db") == 0)
    (line,) = await lines(town, file)
    assert (line["service"], line["port"], line["bytes"]) == ("db", port, len(reply(b"one")))
    assert (line["method"], line["path"], line["status"]) == (None, None, None)


async def test_requests_that_are_cut_off_at_the_end_of_the_router_are_logged(file: Path):
    async def answer(heard: Heard) -> None:
        await heard.reader.read()

    async with make_town() as town:
        await town.router.log_to(str(file))
        one = await town.instance("one", answer)
        await town.shop(one)
        caller = await town.caller()
        await caller.send(request("/cut"))
        await until(lambda: one.heard)
        await town.router.stop()
        assert [json.loads(line)["path"] for line in file.read_text().splitlines()] == ["/cut"]


async def test_a_connection_that_is_handed_over_is_logged_by_both_routers(town: Town, file: Path):
    async with make_town() as successor:
        await successor.router.log_to(str(file))
        for at in (town, successor):
            await at.shop(await at.instance("one"))
        caller = await town.caller()
        await caller.ask(request("/before"))

        def give(_: int, descriptor: int, waited: ClientWait) -> None:
            successor.router.adopt(socket.socket(fileno=descriptor), successor.router.port, waited)

        town.router.leave(give)
        await until(lambda: successor.router.connections)
        await caller.ask(request("/after"))
        await lines(town, file)
        assert [line["path"] for line in await lines(successor, file)] == ["/before", "/after"]


async def test_an_access_log_line_contains_no_token_and_no_control_character(town: Town, file: Path):
    await town.shop(await town.instance("one"))
    await town.ask(request("/wdl_abc123/\x9b", "GET", SHOP, "User-Agent: kept wdl_abc123"))
    (line,) = await lines(town, file)
    assert "wdl_" not in file.read_text()
    assert (line["path"], line["user_agent"]) == ("/***/�", "kept ***")


@pytest.mark.parametrize(("proxy", "address"), [("127.0.0.1", "198.51.100.9"), ("192.0.2.1", "127.0.0.1")])
async def test_x_forwarded_for_is_used_only_from_a_trusted_proxy(tmp_path: Path, proxy: str, address: str):
    async with make_town(trusts=proxy.__eq__) as town:
        await town.router.log_to(str(tmp_path / "log"))
        await town.shop(await town.instance("one"))
        await town.ask(request("/", "GET", SHOP, "X-Forwarded-For: 203.0.113.66, 198.51.100.9"))
        assert [line["address"] for line in await lines(town, tmp_path / "log")] == [address]


async def test_log_lines_that_cannot_be_written_are_counted_also_after_the_log_is_closed(town: Town):
    await town.router.log_to("/dev/full")
    await town.shop(await town.instance("one"))
    for _ in range(3):
        await town.ask(request())
    await town.router.log_to("")
    assert town.router.dropped_lines == 3


async def test_a_closed_access_log_accepts_no_lines(file: Path):
    log = RouterAccessLog(str(file), lambda _: False)
    log.put(b"one")
    await log.close()
    assert not log.has_room()
    assert (file.read_text(), log.dropped) == ("one\n", 0)


async def test_a_folder_that_is_made_later_takes_the_next_lines(tmp_path: Path):
    log = LineLog(str(tmp_path / "later" / "log"))
    log.put(b"lost")
    await log.write()
    (tmp_path / "later").mkdir()
    log.put(b"kept")
    await log.close()
    assert ((tmp_path / "later" / "log").read_text(), log.dropped) == ("kept\n", 1)


async def test_a_request_of_a_static_site_is_logged_with_the_bytes_of_its_file(
    town: Town, file: Path, tmp_path: Path
):
    await serve(town, tmp_path)
    said = await town.ask(request("/photo.png?secret"))
    (line,) = await lines(town, file)
    assert (line["service"], line["path"], line["status"]) == ("shop", "/photo.png", 200)
    assert line["bytes"] > len(said.body) == 1024
