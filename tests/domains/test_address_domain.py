"""Names of services on a machine without a domain contain its address."""

from __future__ import annotations

from typing import Any

import pytest

from tests.domains.served import hosts, published
from tests.world import make_world
from windlass.base.errors import BadSetting
from windlass.config import Settings
from windlass.install.address_domain import with_address_domain

PUBLIC: dict[str, Any] = {"address_domain": "sslip.io", "public_url": "http://192.0.2.10:8080"}


@pytest.mark.parametrize(
    ("given", "domain"),
    [
        (PUBLIC, "192-0-2-10.sslip.io"),
        ({**PUBLIC, "public_url": "http://[2001:db8::7]"}, "2001-db8--7.sslip.io"),
        ({"address_domain": "nip.io", "gateway_host": "192.0.2.7"}, "192-0-2-7.nip.io"),
        ({**PUBLIC, "public_domain": "apps.example.com"}, "apps.example.com"),
        ({"public_url": "http://192.0.2.10:8080"}, "localhost"),
    ],
)
def test_the_domain_of_services_has_the_address_unless_there_is_another(given, domain):
    assert with_address_domain(Settings(**given)).public_domain == domain


def test_a_domain_that_is_no_name_is_refused():
    with pytest.raises(BadSetting, match=r"^address_domain: "):
        with_address_domain(Settings(**{**PUBLIC, "address_domain": "not a name"}))


async def test_a_service_is_reached_by_its_name_with_the_address_and_by_that_of_this_machine():
    async with make_world(**PUBLIC) as world:
        app = await published(world)
        names = await hosts(world, app)
        (link,) = (await world.get(f"/application/{app}/link"))["results"]
        assert len(names) == 2
        assert {name.partition(".")[2] for name in names} == {"localhost", "192-0-2-10.sslip.io"}
        assert ".192-0-2-10.sslip.io:" in link["url"]
