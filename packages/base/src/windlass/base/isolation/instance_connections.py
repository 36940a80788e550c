"""Opens connections to programs in other network namespaces, with sockets created inside those namespaces.

A network is given by the text of its holder, `str(NamespaceHolder)`; an empty text is this machine's network.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Final

from windlass.base.cleanup import on_failure
from windlass.base.isolation import socket_server
from windlass.base.isolation.network import LOOPBACK, NamespaceHolder, inside
from windlass.base.isolation.socket_server import TCP, TCP_6, SocketKind

_LOOPBACK_6: Final = "::1"


def make_socket(network: str, kind: SocketKind) -> socket.socket:
    """Creates a socket in a network. Raises ProcessLookupError if the network has ended, or
    SocketServerUnavailable."""
    if not network:
        return socket.socket(*kind)
    holder = NamespaceHolder.read(network)
    return (
        socket_server.request_socket(holder, kind)
        if holder.socket_server
        else _make_socket_inside(holder, kind)
    )


def _make_socket_inside(holder: NamespaceHolder, kind: SocketKind) -> socket.socket:
    namespace = holder.open()
    try:
        with inside(namespace):
            return socket.socket(*kind)
    finally:
        os.close(namespace)


async def connect(network: str, address: str, port: int) -> socket.socket:
    """Returns a connected socket. Raises an OSError.

    For 127.0.0.1 in another network, tries [::1] as well, because many programs listen only there if they are
    told to listen on `localhost`.
    """
    try:
        return await _connect_in_network(network, address, port)
    except ConnectionRefusedError:
        if not network or address != LOOPBACK:
            raise
        try:
            return await _connect_in_network(network, _LOOPBACK_6, port)
        except OSError:
            pass
        raise


async def open_connection(
    network: str, address: str, port: int, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if not network:
        return await asyncio.open_connection(address, port, ssl=tls)
    connected = await connect(network, address, port)
    return await asyncio.open_connection(sock=connected, ssl=tls, server_hostname=address if tls else None)


async def _connect_in_network(network: str, address: str, port: int) -> socket.socket:
    opened = await _make_socket_async(network, TCP_6 if ":" in address else TCP)
    with on_failure(opened.close):
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, (address, port))
    return opened


async def _make_socket_async(network: str, kind: SocketKind) -> socket.socket:
    holder = NamespaceHolder.read(network) if network else None
    if holder is not None and holder.socket_server:
        return await socket_server.request_socket_async(holder, kind)
    return make_socket(network, kind)
