"""Recognizes whether a Windlass server or its gateway listens on a port of this machine."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from windlass.config import Settings
from windlass.gateway.api_sockets import PortInUse, take_sockets
from windlass.gateway.files import CONTROL, connect_to, folder_of, process_of
from windlass.gateway.link import frame, frames
from windlass.gateway.messages import Ask, GatewayReply, GatewayRequest, GatewayState, encode
from windlass.routers.builtin import pages

_ANSWER_TIMEOUT: Final = 1.0
"""Seconds that a Windlass on this machine may take to respond."""
_GATEWAY_TIMEOUT: Final = 5.0
"""Seconds that the gateway of this data directory may take to respond."""
_PIECE_BYTES: Final = 65_536
_LOOPBACK_ADDRESSES: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (not listened on)
"""Addresses for connecting to a server that listens on all addresses of the machine."""
_NO_HOST: Final = "doctor.invalid"
"""A host name that no service has."""


def address_of(host: str, port: int) -> str:
    """Returns the URL at which this machine reaches a server that listens at `host` and `port`."""
    reached = _near_host(host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def _near_host(host: str) -> str:
    return _LOOPBACK_ADDRESSES.get(host, host)


def is_windlass(host: str, port: int) -> bool:
    """Returns whether a Windlass server listens at a port, including a server whose start waits for a disk or
    a database."""
    connection = http.client.HTTPConnection(_near_host(host), port, timeout=_ANSWER_TIMEOUT)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        health = json.loads(answer.read(1000))
        return bool(health["status"] == "ok" and {"version", "commit"} <= health.keys())
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()


def is_kept(settings: Settings) -> bool:
    """Returns whether this data directory's gateway keeps the API's listening socket for the next server."""
    try:
        kept = take_sockets(folder_of(settings.data_dir), settings.host, settings.port, listens=False)
    except PortInUse:
        return False
    for held in kept.values():
        held.close()
    return bool(kept)


def is_gateway(host: str, port: int) -> bool:
    """Returns whether a Windlass gateway listens at a port."""
    connection = http.client.HTTPConnection(_near_host(host), port, timeout=_ANSWER_TIMEOUT)
    try:
        connection.request("GET", "/", headers={"Host": _NO_HOST})
        answer = connection.getresponse()
        text = answer.read(10_000)
        own = (pages.unknown(_NO_HOST), pages.starting(), pages.only_https())
        return any(answer.status == page.status and page.title.encode() in text for page in own)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def silent_gateway(settings: Settings) -> int:
    """Returns the process id of a gateway of this data directory that runs and does not respond; else 0."""
    with suppress(OSError), _gateway_connection(settings) as connection:
        try:
            _ask_for_state(connection)
        except TimeoutError:
            return process_of(connection)
    return 0


def has_server(settings: Settings) -> bool:
    """Returns whether a server is connected to the gateway of this data directory."""
    with suppress(OSError), _gateway_connection(settings) as connection:
        state = _ask_for_state(connection)
        return state is not None and bool(state.held)
    return False


@contextmanager
def _gateway_connection(settings: Settings) -> Iterator[socket.socket]:
    """Connects to the gateway of this data directory. Raises OSError if there is none, or it belongs to
    another user."""
    connection = connect_to(folder_of(settings.data_dir), CONTROL, socket.SOCK_STREAM)
    if connection is None:
        raise FileNotFoundError
    with connection:
        connection.settimeout(_GATEWAY_TIMEOUT)
        yield connection


def _ask_for_state(connection: socket.socket) -> GatewayState | None:
    connection.sendall(frame(encode(GatewayRequest(1, Ask()))))
    content = b""
    while not (messages := frames(content)):
        if not (piece := connection.recv(_PIECE_BYTES)):
            return None
        content += piece
    return msgspec.msgpack.decode(messages[0], type=GatewayReply).state
