"""Addresses of this server for its clients."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

_USUAL_PORTS: Final = {"http": 80, "https": 443}


def address(scheme: str, name: str, port: int) -> str:
    return f"{scheme}://{name}" if port == _USUAL_PORTS[scheme] else f"{scheme}://{name}:{port}"


def is_of_this_machine(url: str) -> bool:
    """Returns whether only programs of the same machine reach an address."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
