"""A server that is killed at any point of an order loses no certificate, account or key."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from tests.domains.scene import Scene, scene
from tests.domains.served import read
from windlass import control
from windlass.base.certificates import read_certificate

pytestmark = pytest.mark.slow

OF_ORDERS = ("background/issuing.py", "records/acme_accounts.py")
FILES = ("background/domain_work.py", *OF_ORDERS)
OF_RECORDS = ("background/challenges.py", "background/challenge_records.py")
LEASE = 16


def points(files: tuple[str, ...] = FILES) -> list[str]:
    """All failpoints of these files, as the code names them."""
    folder = Path(next(iter(control.__path__)))
    return [
        point for file in files for point in re.findall(r'\.point\("([^"]+)"\)', (folder / file).read_text())
    ]


class Death:
    """Kills the worker that comes to a point first. Its lease goes on, and its memory is lost."""

    def __init__(self, there: Scene, point: str) -> None:
        self.reached: set[str] = set()
        self._ctx = there.world.installation.ctx
        self._point = point
        force_setattr(self._ctx, "point", self._come_to)

    async def _come_to(self, point: str) -> None:
        self.reached.add(point)
        if point == self._point:
            self._point = ""
            self._ctx.authority.client = None
            raise asyncio.CancelledError

    @property
    def happened(self) -> bool:
        return not self._point


async def served(there: Scene, app: str, id: str) -> bytes:
    """Returns the certificate that is served, whose key must belong to it."""
    assert (await read(there.world, app, id))["certificate_state"] == "LIVE"
    held = (await there.held())[id]
    read_certificate(held.chain.decode(), held.key)
    return bytes(held.chain)


@pytest.mark.parametrize("point", points())
async def test_an_order_ends_with_a_certificate_wherever_a_server_is_killed(database_url, point):
    async with scene(database_url) as there:
        death = Death(there, point)
        app, id = await there.proved()
        await there.pass_time(6 * LEASE, LEASE)
        assert death.happened
        await served(there, app, id)
        assert len(there.authority.accounts) == 1
        assert len(there.authority.orders) <= 2


@pytest.mark.parametrize("point", points())
async def test_the_old_certificate_is_served_until_the_renewal_of_a_killed_server_ends(database_url, point):
    async with scene(database_url) as there:
        app, id = await there.proved()
        await there.pass_time(10)
        first = await served(there, app, id)
        Death(there, point)
        there.world.clock.turn(61 * 86_400)
        for _ in range(12):
            await there.pass_time(LEASE, LEASE)
            await served(there, app, id)
        assert await served(there, app, id) != first


@pytest.mark.parametrize("point", points((*OF_ORDERS, *OF_RECORDS)))
async def test_a_proof_by_dns_leaves_no_record_wherever_a_server_is_killed(database_url, point):
    async with scene(database_url, with_zone=True, public_domain_certificates=True) as there:
        death = Death(there, point)
        await there.pass_time(10 * LEASE, LEASE)
        assert death.happened
        held = (await there.held())["*.apps.example.com"]
        read_certificate(held.chain.decode(), held.key)
        assert {word for word, *_ in there.dns.updates} == {"add", "remove"}
        assert there.dns.texts("_acme-challenge.apps.example.com") == []
        assert len(there.authority.accounts) == 1


async def test_an_order_reaches_every_failpoint(database_url):
    """The control: the tests above kill at no point that is never reached."""
    async with scene(database_url) as there:
        there.authority.slow = 1
        death = Death(there, "")
        await there.proved()
        await there.pass_time(20)
        assert death.reached >= set(points())
