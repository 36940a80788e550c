"""Two servers on one data directory use one gateway, and so the same settings of it."""

from __future__ import annotations

import pytest

from tests.free_ports import free_port
from tests.gateway.gateway_town import GatewayTown, body
from windlass.gateway import link
from windlass.routers.router import RouteError


async def test_a_second_server_with_another_gateway_port_is_refused_with_a_remedy(town: GatewayTown):
    await town.shop(await town.instance("one"))
    port = town.router.port
    for host, wanted in (("127.0.0.1", free_port()), ("0.0.0.0", port)):
        with pytest.raises(
            RouteError, match=f"^set gateway_port to {port} and gateway_host to 127.0.0.1, or"
        ):
            async with town.second_server(host, wanted):
                pass
    assert await body(port) == b"one"


async def test_a_server_that_is_refused_replaces_no_gateway(town: GatewayTown, monkeypatch):
    """It has another version, which would bring a gateway of its own."""
    before = await town.process()
    monkeypatch.setattr(link, "build", lambda: "another")
    with pytest.raises(RouteError, match="set gateway_port to"):
        async with town.second_server("127.0.0.1", free_port()):
            pass
    assert await town.process() == before


@pytest.mark.parametrize("wanted", ["the same", "any"])
async def test_a_second_server_with_the_same_settings_uses_the_same_gateway(town: GatewayTown, wanted: str):
    await town.shop(await town.instance("one"))
    port = town.router.port
    async with town.second_server("127.0.0.1", port if wanted == "the same" else 0) as router:
        assert router.port == port
    assert await body(port) == b"one"


async def test_a_changed_gateway_port_is_accepted_once_the_other_server_has_stopped(town: GatewayTown):
    """Otherwise the port of a gateway could never be changed; also after a gateway was replaced."""
    await town.shop(await town.instance("one"))
    await town.replace()
    wanted = free_port()
    with pytest.raises(RouteError, match="another server uses this data directory"):
        async with town.second_server("127.0.0.1", wanted):
            pass
    await town.router.stop()
    async with town.second_server("127.0.0.1", wanted):
        assert await body(wanted) == b"one"
