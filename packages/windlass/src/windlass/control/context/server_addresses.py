"""The address of this server for the runs and services of a place."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from windlass.base.errors import Invalid
from windlass.config import Settings
from windlass.control.context.place import Place

ALL_ADDRESSES: Final = ("", "0.0.0.0", "::")  # noqa: S104
_NOT_REACHED: Final = (
    "engine: containers do not reach this server, which listens on {host} alone, and runs keep their state "
    "there: ask the operator to set containers_url to an address that they reach, or host to 0.0.0.0"
)


def address_at(settings: Settings, place: Place) -> str:
    """Returns the address of this server for runs at a place. Raises Invalid if they cannot reach it."""
    if place.takes == "image":
        return address_for_containers(settings, place.engine.server_host)
    if folder := place.engine.server_folder:
        return f"http+unix://{quote(str(run_socket_in(folder, settings.port)), safe='')}"
    return _address(settings, "127.0.0.1")


def run_socket_in(folder: str, port: int) -> Path:
    """Returns the path of a server's socket in a folder that runs can access. Servers on one machine have
    different ports."""
    return Path(folder) / str(port)


def known_address(settings: Settings, place: Place) -> str:
    """Returns the address of this server for runs at a place; empty if they cannot reach it."""
    try:
        return address_at(settings, place)
    except Invalid:
        return ""


def address_for_containers(settings: Settings, server_host: str) -> str:
    """Returns the address of this server for containers, whose name for its machine is `server_host`. Raises
    Invalid if they cannot reach it."""
    if settings.containers_url:
        return settings.containers_url.rstrip("/")
    if server_host and not _is_loopback(settings.host):
        return _address(settings, server_host)
    if settings.public_url and not _is_loopback(urlsplit(settings.public_url).hostname or ""):
        return settings.public_url.rstrip("/")
    raise Invalid(_NOT_REACHED.format(host=settings.host))


def _address(settings: Settings, machine_name: str) -> str:
    """Returns the URL of this server for clients whose name for its machine is `machine_name`."""
    host = machine_name if settings.host in ALL_ADDRESSES else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
