"""Where services share the network of the machine, nothing else gets the port at which a service is found."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.faults.inside import Service, inside, until
from tests.faults.scenes import HTTP, STORAGE
from windlass.control.records.ports import PORT_PREFIX

pytestmark = pytest.mark.slow


async def found_at(service: Service) -> int:
    """The port of this machine at which others of its environment find it."""
    ctx = service.inside.ctx
    place = await ctx.places.of(service.id)
    at = await place.engine.neighbour_address(service.inside.environment, service.id, "shop", 8080)
    return at.port


async def public_port(service: Service) -> int:
    """The public TCP port of a service."""
    rows = await service.inside.ctx.store.reads.names.of(service.id)
    (port,) = [row.name.removeprefix(PORT_PREFIX) for row in rows if row.name.startswith(PORT_PREFIX)]
    return int(port)


def listens(port: int) -> bool:
    """Returns whether a program could listen there."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
            tried.listen(1)
        except OSError:
            return False
    return True


@contextmanager
def watched(port: int) -> Iterator[Callable[[], int]]:
    """Counts the moments at which a program could have listened there."""
    free = 0

    async def watch() -> None:
        nonlocal free
        while True:
            free += listens(port)
            await asyncio.sleep(0.001)

    watching = asyncio.create_task(watch())
    try:
        yield lambda: free
    finally:
        watching.cancel()


@pytest.mark.parametrize("storage", [[], [STORAGE]], ids=["without volume", "with volume"])
async def test_the_port_of_a_stopped_service_is_reserved_until_the_service_is_deleted(tmp_path, storage):
    async with inside(tmp_path, isolation_networks=False) as there:
        shop = await there.application("serves", ports=[HTTP], storage=storage)
        port = await found_at(shop)
        assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
        assert not listens(port)
        with watched(port) as free:
            assert (await shop.do("stop"))["status"] == "SUCCEEDED"
            await asyncio.sleep(0.1)
            assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
        assert free() == 0
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        # Negative control: nothing holds it afterwards.
        await there.call("DELETE", shop.path)

        async def is_free() -> bool:
            return listens(port)

        await until(is_free)


async def test_the_public_port_of_a_stopped_service_is_reserved_too(tmp_path):
    """Clients from outside try again, and would send their password to the program that answers there."""
    async with inside(tmp_path, isolation_networks=False) as there:
        shop = await there.application("serves", ports=[HTTP | {"protocol": "TCP"}])
        assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
        port = await public_port(shop)
        with watched(port) as free:
            assert (await shop.do("stop"))["status"] == "SUCCEEDED"
            await asyncio.sleep(0.1)
            assert (await shop.do("deploy"))["status"] == "SUCCEEDED"
            assert (await shop.do("uninstall"))["status"] == "SUCCEEDED"
        assert free() == 0
        # Negative control: nothing holds it afterwards.
        await there.call("DELETE", shop.path)

        async def is_free() -> bool:
            return listens(port)

        await until(is_free)
