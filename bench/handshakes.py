"""TLS handshakes of one or several clients, each on a connection of its own, without resumption. A process of
its own on the core of the load; see `load`."""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec
from msgspec import Struct

from bench.load import Loaded
from bench.machine import computed

NAME = "bench.test"


class Handshakes(Struct, frozen=True):
    port: int
    pid: int
    """Of the server, whose time is taken too."""
    clients: int = 1
    """Clients at the same time, each with one handshake after another."""


def client_context() -> ssl.SSLContext:
    """Returns the context of a client that believes every certificate: checking it is no work of the
    server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


def connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    return context.wrap_socket(connection, server_hostname=NAME)


def shake(given: Handshakes, context: ssl.SSLContext, seconds: float) -> Loaded:
    began = time.perf_counter(), time.process_time(), computed(given.pid)

    def client(_: int) -> int:
        count = 0
        while time.perf_counter() < began[0] + seconds:
            connect(given.port, context).close()
            count += 1
        return count

    with ThreadPoolExecutor(given.clients) as clients:
        count = sum(clients.map(client, range(given.clients)))
    time.sleep(0.02)  # the server closes the last one
    ended = time.perf_counter(), time.process_time(), computed(given.pid)
    return Loaded(count, *(now - then for now, then in zip(ended, began, strict=True)))


def serve(given: Handshakes, questions: Iterable[bytes]) -> None:
    context = client_context()
    for seconds in questions:
        answer = shake(given, context, msgspec.json.decode(seconds, type=float))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(msgspec.json.decode(sys.stdin.buffer.readline(), type=Handshakes), sys.stdin.buffer)
