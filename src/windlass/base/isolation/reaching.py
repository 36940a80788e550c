"""Connections to programs in a network of their own, made by sockets from inside of it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeVar

from windlass.base.cleanup import on_failure
from windlass.base.isolation.network import LOOPBACK, NetworkKeeper, inside

T = TypeVar("T")

_LOOPBACK_6: Final = "::1"


def make_socket(keeper: str, family: int = socket.AF_INET) -> socket.socket:
    """Returns a TCP socket of the network of a keeper; of this machine if that is empty. Raises
    ProcessLookupError if the network has ended."""
    return in_network(keeper, lambda: socket.socket(family, socket.SOCK_STREAM))


def in_network(keeper: str, make: Callable[[], T]) -> T:
    """Calls a function, which must not wait, in the network of a keeper; in that of this machine if that is
    empty. Raises ProcessLookupError if the network has ended."""
    if not keeper:
        return make()
    network = NetworkKeeper.read(keeper).open()
    try:
        with inside(network):
            return make()
    finally:
        os.close(network)


async def connect(keeper: str, address: str, port: int) -> socket.socket:
    """Returns a connected socket. A program of another network that listens on [::1] only is reached as well:
    many take that for the meaning of localhost. Raises an OSError."""
    try:
        return await _connect(keeper, address, port)
    except ConnectionRefusedError:
        if not keeper or address != LOOPBACK:
            raise
        try:
            return await _connect(keeper, _LOOPBACK_6, port)
        except OSError:
            pass
        raise


async def open_connection(
    keeper: str, address: str, port: int, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if not keeper:
        return await asyncio.open_connection(address, port, ssl=tls)
    connected = await connect(keeper, address, port)
    return await asyncio.open_connection(sock=connected, ssl=tls, server_hostname=address if tls else None)


async def _connect(keeper: str, address: str, port: int) -> socket.socket:
    made = make_socket(keeper, socket.AF_INET6 if ":" in address else socket.AF_INET)
    with on_failure(made.close):
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    return made
