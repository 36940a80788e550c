"""The socket: what Windlass puts together itself is what uvicorn would have sent."""

import asyncio
import contextlib
import gc
import re
import sys
from functools import partial

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.tables import rows
from windlass.serve.connection import Connection
from windlass.serve.port_state import PortState
from windlass.serve.server import ApiServer, listen, tune_interpreter

DATE = re.compile(rb"date: [^\r]*\r\n")


def head(status, *headers):
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(content, more=False):
    return {"type": "http.response.body", "body": content, "more_body": more}


def length(number):
    return (b"content-length", b"%d" % number)


ANSWERS = {
    "/found": [head(200, (b"x-one", b"1"), length(5)), body(b"found")],
    "/made": [head(201, length(4), (b"x-one", b"1")), body(b"made")],
    "/empty": [head(200, length(0)), body(b"")],
    "/nothing": [head(204), body(b"")],
    "/missing": [head(404, length(7)), body(b"missing")],
    "/pieces": [head(200), body(b"one ", more=True), body(b"two", more=True), body(b"")],
    "/known-pieces": [head(200, length(7)), body(b"one ", more=True), body(b"two")],
    "/of-unknown-length": [head(200), body(b"content")],
    "/last": [head(200, length(4), (b"connection", b"close")), body(b"last")],
    "/large": [head(200, length(1_000_000)), body(b"x" * 1_000_000)],
    "/too-long": [head(200, length(3)), body(b"content")],
    "/split": [head(200, (b"x-one", b"1\r\nx-two: 2"), length(0)), body(b"")],
    "/split-name": [head(200, (b"x-one: 1\r\nx-two", b"2"), length(0)), body(b"")],
}


async def app(scope, receive, send):
    """Takes its time with the second of several requests on one connection, so that none may overtake it."""
    await asyncio.sleep(0.01 if b"slowly" in scope["query_string"] else 0)
    for message in ANSWERS[scope["path"]]:
        message = dict(message)
        if scope["method"] == "HEAD" and message["type"] == "http.response.body":
            message["body"] = b""
        await send(message)


@contextlib.asynccontextmanager
async def served(protocol):
    listening = listen("127.0.0.1", 0)
    ready = asyncio.Event()
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False
    )
    server = ApiServer(config, ready.set)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await ready.wait()
        yield listening.getsockname()[1]
    finally:
        server.end()
        await serving


async def answered(protocol, sent):
    """All that comes until the server closes the connection."""
    async with served(protocol) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    return DATE.sub(b"", answer)


def asked(method, path, *headers, version="1.1"):
    lines = [f"{method} {path} HTTP/{version}", "Host: 127.0.0.1", *headers, "", ""]
    return "\r\n".join(lines).encode()


LAST = asked("GET", "/last")
CONVERSATIONS = {
    **{
        path: asked("GET", path) + LAST
        for path in ANSWERS
        if path not in {"/too-long", "/split", "/split-name"}
    },
    "HEAD": asked("HEAD", "/found") + LAST,
    "the client closes": asked("GET", "/found", "Connection: close"),
    "HTTP/1.0": asked("GET", "/found", version="1.0"),
    "HTTP/1.0, kept": asked("GET", "/found", "Connection: keep-alive", version="1.0")
    + asked("GET", "/found", version="1.0"),
    "several at once": asked("GET", "/found")
    + asked("GET", "/pieces?slowly")
    + asked("GET", "/made?slowly")
    + asked("GET", "/missing")
    + asked("GET", "/found")
    + LAST,
    "with a body": asked("POST", "/made", "Content-Length: 3", "Expect: 100-continue") + b"abc" + LAST,
}


@pytest.mark.slow
@rows("name", CONVERSATIONS)
async def test_http_answers_equal_those_of_uvicorn_byte_by_byte(name):
    sent = CONVERSATIONS[name]
    answer = await answered(Connection, sent)
    assert answer.startswith(b"HTTP/1.1 ")
    assert answer == await answered(HttpToolsProtocol, sent)


@pytest.mark.parametrize("path", ["/split", "/split-name"])
async def test_a_header_with_a_line_break_in_it_is_not_sent(path):
    answer = await answered(Connection, asked("GET", path))
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"x-two" not in answer


async def test_a_body_longer_than_its_content_length_is_not_sent():
    assert b"content" not in (await answered(Connection, asked("GET", "/too-long"))).partition(b"\r\n\r\n")[2]


async def test_concurrent_websockets_are_opened_one_per_event_loop_turn():
    port, opened = PortState(), list[int]()
    for number in range(5):
        port.open_in_turn(partial(opened.append, number))
    for turn in range(5):
        assert opened == list(range(turn))
        await asyncio.sleep(0)
    assert opened == [0, 1, 2, 3, 4]
    port.open_in_turn(lambda: opened.append(5))
    await asyncio.sleep(0)
    assert opened[-1] == 5


@pytest.fixture
def _interpreter():
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


@pytest.mark.usefixtures("_interpreter")
def test_a_listening_server_has_garbage_collection_enabled():
    gc.disable()
    tune_interpreter()
    assert gc.isenabled()
