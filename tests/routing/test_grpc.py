"""gRPC from a client to an instance: the library of gRPC on both sides, and the router between them."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from tests.gateway.routers.http2_caller import make_http2_town
from tests.gateway.routers.issuing import issuing_authority
from tests.gateway.routers.secure_town import https_port
from tests.gateway.routers.town import SHOP, Town, route
from windlass.routers.router import Endpoint

LARGE = 3_000_000


class Shop(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers calls of each kind. Messages are plain bytes."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.metadata: dict[str, str] = {}

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]
        made = {
            "echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "count": grpc.unary_stream_rpc_method_handler(self.count),
            "join": grpc.stream_unary_rpc_method_handler(self.join),
            "talk": grpc.stream_stream_rpc_method_handler(self.talk),
            "wait": grpc.unary_stream_rpc_method_handler(self.wait),
        }
        return made.get(method)

    def echo(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        self.metadata = dict(context.invocation_metadata())
        context.set_trailing_metadata((("x-trailer", "last"),))
        return message

    def fail(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.NOT_FOUND, "there is no such thing")
        raise AssertionError

    def count(self, message: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        for number in range(int(message)):
            yield b"%d" % number + b" " * 10_000

    def join(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        return b"".join(messages)

    def talk(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for message in messages:
            yield message.upper()

    def wait(self, message: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        context.add_callback(self.cancelled.set)
        yield b"begun"
        self.cancelled.wait(20)


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with make_http2_town() as made:
        yield made


@pytest.fixture
async def shop(town: Town) -> AsyncIterator[Shop]:
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
    handler = Shop()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    await town.router.set("shop", [route([Endpoint("127.0.0.1", port)], speaks_http2=True)])
    yield handler
    await asyncio.to_thread(server.stop(0).wait)


async def called(town: Town, call: Callable[[grpc.Channel], Any]) -> Any:
    """Calls in a thread, as a client of its own."""

    def run() -> Any:
        options = [
            ("grpc.ssl_target_name_override", SHOP),
            ("grpc.default_authority", SHOP),
            ("grpc.max_receive_message_length", -1),
        ]
        credentials = grpc.ssl_channel_credentials(issuing_authority().pem)
        with grpc.secure_channel(f"127.0.0.1:{https_port(town)}", credentials, options) as channel:
            return call(channel)

    return await asyncio.to_thread(run)


async def test_calls_reach_the_instance_and_bring_back_their_trailers(town: Town, shop: Shop) -> None:
    def call(channel: grpc.Channel) -> Any:
        echo = channel.unary_unary("/shop/echo")
        results = [
            echo.with_call(b"message %d" % number, timeout=20, metadata=(("x-mine", "1"),))
            for number in range(5)
        ]
        return [(answer, dict(made.trailing_metadata()), made.code()) for answer, made in results]

    for number, (answer, trailers, code) in enumerate(await called(town, call)):
        assert (answer, code) == (b"message %d" % number, grpc.StatusCode.OK)
        assert trailers["x-trailer"] == "last"
    assert (shop.metadata["x-mine"], shop.metadata["x-forwarded-proto"]) == ("1", "https")
    assert town.router.traffic()["shop"].requests == 5


async def test_errors_arrive_as_the_instance_says_them(town: Town, shop: Shop) -> None:
    def call(channel: grpc.Channel) -> Any:
        found = []
        for method in ("fail", "unknown"):
            with pytest.raises(grpc.RpcError) as raised:
                channel.unary_unary(f"/shop/{method}")(b"x", timeout=20)
            found.append((raised.value.code(), raised.value.details()))
        return found

    assert await called(town, call) == [
        (grpc.StatusCode.NOT_FOUND, "there is no such thing"),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
    ]


async def test_streams_of_messages_go_both_ways(town: Town, shop: Shop) -> None:
    def call(channel: grpc.Channel) -> Any:
        counted = [int(message) for message in channel.unary_stream("/shop/count")(b"500", timeout=30)]
        joined = channel.stream_unary("/shop/join")(iter([b"a" * 100_000] * 30), timeout=30)
        talk = channel.stream_stream("/shop/talk")
        said: list[bytes] = []
        heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()

        def messages() -> Iterator[bytes]:
            for number in range(20):
                yield b"word %d" % number
                said.append(heard.get(timeout=20))  # the next one comes after the answer to this one

        for answer in talk(messages(), timeout=30):
            heard.put(answer)
        return counted, joined, said

    counted, joined, said = await called(town, call)
    assert counted == list(range(500))
    assert joined == b"a" * LARGE
    assert said == [b"WORD %d" % number for number in range(20)]


async def test_large_messages_arrive_whole(town: Town, shop: Shop) -> None:
    message = bytes(range(256)) * (LARGE // 256)
    answer = await called(town, lambda channel: channel.unary_unary("/shop/echo")(message, timeout=30))
    assert answer == message


async def test_a_cancelled_call_ends_at_the_instance(town: Town, shop: Shop) -> None:
    def call(channel: grpc.Channel) -> bool:
        waiting = channel.unary_stream("/shop/wait")(b"x", timeout=30)
        assert next(waiting) == b"begun"
        waiting.cancel()
        return shop.cancelled.wait(20)

    assert await called(town, call)


async def test_without_an_instance_a_call_is_unavailable(town: Town) -> None:
    await town.shop(speaks_http2=True)

    def call(channel: grpc.Channel) -> Any:
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary("/shop/echo")(b"x", timeout=20)
        return raised.value.code()

    assert await called(town, call) == grpc.StatusCode.UNAVAILABLE


async def test_a_port_of_another_protocol_brings_no_calls_to_an_instance(town: Town, shop: Shop) -> None:
    """The control: by HTTP/1.1, an instance of gRPC cannot be called."""
    (peer,) = town.router._shared.peers.values()
    await town.router.set("shop", [route([peer.endpoint])])

    def call(channel: grpc.Channel) -> Any:
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary("/shop/echo")(b"x", timeout=20)
        return raised.value.code()

    assert await called(town, call) == grpc.StatusCode.UNAVAILABLE
    await town.router.set("shop", [route([peer.endpoint], speaks_http2=True)])
    assert await called(town, lambda channel: channel.unary_unary("/shop/echo")(b"x", timeout=20)) == b"x"
