"""Recognizes what listens on a port of this machine: a server of Windlass, or its gateway."""

from __future__ import annotations

import http.client
import json
from typing import Final

from windlass.config import Settings
from windlass.gateway.api_sockets import PortInUse, take_sockets
from windlass.gateway.files import folder_of
from windlass.routers.builtin import pages

_QUICKLY: Final = 1.0
"""Seconds that a Windlass of this machine may take to answer."""
_ANYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (not listened on)
"""The address at which this machine is asked, where a server listens on all of them."""
_NO_HOST: Final = "doctor.invalid"
"""A name that no service has."""


def address_of(host: str, port: int) -> str:
    """Returns the address at which this machine reaches a server that listens there."""
    reached = _near_host(host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def _near_host(host: str) -> str:
    return _ANYWHERE.get(host, host)


def is_windlass(host: str, port: int) -> bool:
    """Returns whether a Windlass listens there, also one that waits at its start for a disk or a database."""
    connection = http.client.HTTPConnection(_near_host(host), port, timeout=_QUICKLY)
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
    """Returns whether the gateway of this data directory keeps the port of the API for the next server."""
    try:
        kept = take_sockets(folder_of(settings.data_dir), settings.host, settings.port, listens=False)
    except PortInUse:
        return False
    for held in kept.values():
        held.close()
    return bool(kept)


def is_gateway(host: str, port: int) -> bool:
    """Returns whether a gateway listens there."""
    connection = http.client.HTTPConnection(_near_host(host), port, timeout=_QUICKLY)
    try:
        connection.request("GET", "/", headers={"Host": _NO_HOST})
        answer = connection.getresponse()
        text = answer.read(10_000)
        own = (pages.unknown(_NO_HOST), pages.starting())
        return any(answer.status == page.status and page.title.encode() in text for page in own)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
