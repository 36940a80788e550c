"""Connections to programs in a network of their own, made by sockets from inside of it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Final

from windlass.base.cleanup import on_failure
from windlass.base.isolation import socket_server
from windlass.base.isolation.network import LOOPBACK, NetworkKeeper, inside
from windlass.base.isolation.socket_server import TCP, TCP_6, SocketKind

_LOOPBACK_6: Final = "::1"


def make_socket(keeper: str, kind: SocketKind) -> socket.socket:
    """Returns a socket of the network of a keeper; of this machine if that is empty. Raises
    ProcessLookupError if the network has ended, and SocketServerUnavailable."""
    if not keeper:
        return socket.socket(*kind)
    network = NetworkKeeper.read(keeper)
    return (
        socket_server.request_socket(network, kind) if network.socket_server else _make_inside(network, kind)
    )


def _make_inside(keeper: NetworkKeeper, kind: SocketKind) -> socket.socket:
    network = keeper.open()
    try:
        with inside(network):
            return socket.socket(*kind)
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
    made = await _make_waiting(keeper, TCP_6 if ":" in address else TCP)
    with on_failure(made.close):
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    return made


async def _make_waiting(keeper: str, kind: SocketKind) -> socket.socket:
    network = NetworkKeeper.read(keeper) if keeper else None
    if network is not None and network.socket_server:
        return await socket_server.request_socket_async(network, kind)
    return make_socket(keeper, kind)
