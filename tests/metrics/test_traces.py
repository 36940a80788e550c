"""A trace is taken from a request, named in log lines, and passed on to webhooks, issuers and engines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.engine import FakeEngine
from tests.tables import rows
from tests.webhooks.receivers import Receivers
from tests.webhooks.told import URL, webhook
from tests.world import World, make_world
from windlass.base.http_out import HttpSender
from windlass.base.log import JsonLines
from windlass.base.trace import Trace, current_trace, enter_trace, given_trace, new_trace, trace_headers
from windlass.docker.client.client import Docker
from windlass.engines.workload import Instance, Workload

ID, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{ID}-{SPAN}-01"


@rows(
    ("header", "trace"),
    [
        (GIVEN, Trace(ID, 1)),
        (f"00-{ID}-{SPAN}-00", Trace(ID, 0)),
        (f"00-{ID}-{SPAN}-ff", Trace(ID, 1)),
        (f"cc-{ID}-{SPAN}-01-what-comes-later", Trace(ID, 1)),
        (f"cc-{ID}-{SPAN}-01", Trace(ID, 1)),
        (f"cc-{ID}-{SPAN}-01.what-comes-later", None),
        (f"00-{ID}-{SPAN}-01-more", None),
        (f"ff-{ID}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{ID}-{'0' * 16}-01", None),
        (f"00-{ID.upper()}-{SPAN}-01", None),
        (f"00-{ID[1:]}-{SPAN}-01", None),
        (f"00-{ID}-{SPAN}-1", None),
        (f"00-{ID}-{SPAN}", None),
        (f"0-{ID}-{SPAN}-01", None),
        (f" {GIVEN}", None),
        (f"{GIVEN}\n", None),
        ("", None),
    ],
)
def test_a_traceparent_is_read_as_the_standard_says(header: str, trace: Trace | None):
    assert given_trace(header.encode()) == trace


def test_each_outgoing_request_has_a_new_span_in_the_same_trace():
    trace = new_trace()
    first, second = trace.header(), trace.header()
    assert first != second
    assert given_trace(first.encode()) == given_trace(second.encode()) == trace
    assert new_trace().id != trace.id


async def traced(tmp_path: Path, *headers: tuple[str, str]) -> str:
    """Returns the trace of a request, by the access log."""
    file = tmp_path / "access.log"
    async with make_world(access_log=True, access_log_file=str(file)) as world:
        await world.get("/organization", headers=dict(headers))
    return str(json.loads(file.read_text().splitlines()[-1])["trace_id"])


async def test_a_valid_traceparent_of_a_client_is_used(tmp_path: Path):
    assert await traced(tmp_path, ("traceparent", GIVEN)) == ID


@pytest.mark.parametrize("header", ["", "no trace", GIVEN.upper()])
async def test_another_trace_is_made_where_none_is_valid(tmp_path: Path, header: str):
    made = await traced(tmp_path, ("traceparent", header))
    assert re.fullmatch("[0-9a-f]{32}", made)
    assert made != ID


@pytest.fixture
def receivers() -> Receivers:
    return Receivers()


@pytest.fixture
async def world(database_url, receivers):
    async with make_world(database_url, out=receivers) as made:
        yield made


async def test_webhooks_of_a_deployment_carry_the_trace_of_its_request(world: World, receivers: Receivers):
    await webhook(world, events=["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED"])
    app = await world.application()
    await world.post(f"/application/{app}/deploy", headers={"traceparent": GIVEN})
    await world.settle()
    headers = [sent.headers["traceparent"] for sent in receivers.got[URL]]
    assert len(headers) == 2
    assert {given_trace(header.encode()) for header in headers} == {Trace(ID, 1)}
    assert len({*headers, GIVEN}) == 3, "each has a span of its own"


async def test_a_test_delivery_carries_the_trace_of_its_request(world: World, receivers: Receivers):
    id = await webhook(world, events=["DEPLOYMENT_STARTED"])
    path = f"/organization/{world.org}/webhook/{id}/test"
    assert (await world.post(path, headers={"traceparent": GIVEN})).status < 300
    await world.settle()
    (sent,) = receivers.got[URL]
    assert given_trace(sent.headers["traceparent"].encode()) == Trace(ID, 1)


class TracedEngine(FakeEngine):
    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Trace | None] = []

    async def run(self, wanted: Workload, index: int) -> Instance:
        self.traces.append(given_trace(trace_headers().get("traceparent", "").encode()))
        return await super().run(wanted, index)


async def test_the_engine_works_in_the_trace_of_the_deployment():
    engine = TracedEngine()
    async with make_world(engine=engine) as world:
        app = await world.application()
        await world.post(f"/application/{app}/deploy", headers={"traceparent": GIVEN})
        await world.settle()
    assert engine.traces[0] == Trace(ID, 1)
    assert set(engine.traces[1:]) <= {None}, "what keeps it running is not of the request any more"


async def test_requests_to_an_issuer_and_to_docker_are_sent_in_the_trace_of_their_task():
    async with listening() as (port, requests):
        sender = HttpSender(["127.0.0.1"])
        docker = Docker(f"tcp://127.0.0.1:{port}")
        enter_trace(Trace(ID))
        try:
            await sender.send("GET", f"http://127.0.0.1:{port}/keys")
            await docker.ping()
        finally:
            enter_trace(None)
        await sender.send("GET", f"http://127.0.0.1:{port}/keys")
        await sender.close()
        await docker.close()
    named = [re.search(rb"(?i)traceparent: ([^\r]*)", request) for request in requests]
    assert [given_trace(match[1]) if match else None for match in named] == [Trace(ID), Trace(ID), None]


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on this machine that keeps the heads of requests."""
    requests: list[bytes] = []
    answers: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.add(asyncio.ensure_future(answer(reader, writer)))

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], requests
    await asyncio.gather(*answers)


def test_a_log_line_inside_a_trace_has_its_trace_id():
    record = logging.makeLogRecord({"msg": "said"})
    enter_trace(Trace(ID))
    try:
        assert json.loads(JsonLines().format(record))["trace_id"] == ID
    finally:
        enter_trace(None)
    assert "trace_id" not in json.loads(JsonLines().format(record))


async def test_no_answer_carries_a_trace(world: World):
    answer = await world.get("/organization", headers={"traceparent": GIVEN})
    assert not {"traceparent", "traceresponse", "tracestate"} & answer.headers.keys()


async def test_a_change_in_a_group_commit_has_no_trace_of_another_request(world: World):
    traces: list[Trace | None] = []

    async def change(_: object) -> None:
        traces.append(current_trace())

    async def request() -> None:
        enter_trace(new_trace())
        await world.installation.ctx.store.write(change)

    await asyncio.gather(request(), request())
    assert traces == [None, None]


async def test_a_task_that_outlives_its_request_has_no_trace(world: World):
    """The watching of an engine, for example, which begins when its cluster is created."""
    trace = new_trace()
    enter_trace(trace)
    traces: list[Trace | None] = []
    has_looked = asyncio.Event()

    async def look() -> None:
        traces.append(current_trace())
        has_looked.set()

    world.installation.ctx.places.run_in_background(look())
    await has_looked.wait()
    await asyncio.create_task(look())  # the control: a part of the request
    assert traces == [None, trace]
