"""The name of the console belongs to nobody else, and gets a certificate as other names do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.domains.scene import scene
from tests.domains.served import published
from tests.world import make_world

NAME = "windlass.example.com"


@pytest.mark.parametrize("wanted", [NAME, "*.example.com"])
@pytest.mark.parametrize("settings", [{}, {"public_url": "https://other.example.org"}])
async def test_no_service_gets_the_name_of_the_console(wanted: str, settings: dict[str, Any]):
    async with make_world(console_domain=NAME.upper(), **settings) as world:
        app = await published(world)
        answer = await world.post(
            f"/application/{app}/customDomain", {"domain": wanted, "generate_certificate": False}
        )
        assert (answer.status, "belongs to the API and the console" in str(answer.json)) == (400, True)


async def test_the_address_of_the_server_is_that_of_the_console():
    async with make_world(console_domain=NAME, https_port=8443, public_https_port=443) as world:
        assert world.installation.ctx.settings.url == f"https://{NAME}"
    async with make_world(console_domain=NAME, https_port=8443) as world:
        assert world.installation.ctx.settings.url == f"https://{NAME}:8443"


@pytest.mark.parametrize(("name", "is_covered"), [(NAME, False), ("console.apps.example.com", True)])
async def test_the_console_gets_a_certificate_unless_that_of_all_services_covers_it(
    name: str, is_covered: bool
):
    async with scene(with_zone=True, public_domain_certificates=True, console_domain=name) as there:
        there.dns.set(name, ("A", "203.0.113.10"))
        await there.pass_time(30)
        held = await there.held()
        assert ((name in held), "*.apps.example.com" in held) == (not is_covered, True)
