"""Binds ports, and explains in words why one cannot be bound."""

from __future__ import annotations

import errno
import socket
from typing import Final

from windlass.base.isolation.instance_connections import make_socket
from windlass.base.isolation.socket_server import TCP, TCP_6, SocketServerUnavailable
from windlass.routers.router import RouteError

_BACKLOG: Final = 2048
_PRIVILEGED: Final = 1024


def bind(host: str, port: int, *, holder: str = "another program", way_out: str) -> socket.socket:
    """Returns a socket that listens. `way_out` says what to do if the port is taken."""
    network, _, address = host.rpartition("/")
    try:
        listening = make_socket(network, TCP_6 if ":" in address else TCP)
    except (ProcessLookupError, SocketServerUnavailable) as error:
        raise RouteError(
            f"deploy again: port {port} cannot be listened on, since the network of its environment has ended"
        ) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise RouteError(explain(error, host, port, holder, way_out)) from error
    listening.setblocking(False)
    return listening


def explain(error: OSError, host: str, port: int, holder: str, way_out: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use by {holder}: {way_out}"
    if error.errno in {errno.EACCES, errno.EPERM} and port < _PRIVILEGED:
        return (
            f"port {port} needs a right that Windlass does not have, as all below {_PRIVILEGED}: choose a "
            f"higher one, or give it the right (CAP_NET_BIND_SERVICE)"
        )
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return (
            f"port {port} cannot be listened on, because {host} is no address of this machine: "
            f"change the setting gateway_host"
        )
    return f"port {port} cannot be listened on: {error.strerror or error}"
