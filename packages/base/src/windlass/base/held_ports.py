"""Reserves a listening port in the other address family, so that other programs cannot bind it.

Clients that connect to a name such as localhost try IPv6 first. A service that shares the machine's network
could listen there on the port of the API or the gateway, and receive the clients' requests. Windlass
therefore binds a socket there without listening: connections are refused, and clients try the next address.
"""

from __future__ import annotations

import errno
import socket

from windlass.base.log import log

_log = log("ports")


def hold_other_family(host: str, port: int) -> socket.socket | None:
    """Returns a socket that reserves the port until it is closed.

    Returns None if the machine lacks the other address family, if `host` covers both families, or if another
    program has bound the port.
    """
    if host == "::":
        return None
    is_ipv6 = ":" in host
    held = socket.socket(socket.AF_INET if is_ipv6 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        if held.family == socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        held.bind((_address_to_hold(host, is_ipv6=is_ipv6), port))
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            _log.warning(
                "another program has the port in the other family of addresses: connect to the address of "
                "Windlass, and not to a name such as localhost",
                extra={"host": host, "port": port},
            )
        return None
    return held


def _address_to_hold(host: str, *, is_ipv6: bool) -> str:
    """Returns the address to bind. For a loopback host, only the loopback address is reserved."""
    if host == "::1" or host.startswith("127."):
        return "127.0.0.1" if is_ipv6 else "::1"
    return ""
