"""The rules of a service's public routes apply under its domains, too."""

from __future__ import annotations

from tests.domains.served import SHOP, add, hosts, prove, published
from windlass.routers.rules import NO_RULES

NETWORK = "network.ingress."


async def test_a_service_that_asks_for_a_login_asks_for_it_under_its_domain_too(world, dns):
    """Otherwise its domain would lead around the login and the networks of the service."""
    app = await published(world)
    await prove(world, dns, await add(world, app))
    settings = {
        f"{NETWORK}basic_auth_env_var": "SITE_USERS",
        f"{NETWORK}whitelist_source_range": "192.0.2.0/24",
        f"{NETWORK}force_ssl_redirect": False,
    }
    assert (await world.put(f"/application/{app}/advancedSettings", settings)).status == 201
    assert SHOP in await hosts(world, app)
    public = [route for route in world.router.routes[app] if route.hosts]
    assert len(public) == 2
    assert public[0].rules == public[1].rules != NO_RULES
    assert not any(route.redirect for route in public)
