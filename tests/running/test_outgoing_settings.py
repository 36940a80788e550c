"""Settings of outgoing HTTP are checked at the start, and an installation has one client."""

from __future__ import annotations

import pytest

from tests.base.http_out.failures import LOOPBACK, failure
from tests.loopback import receiver
from tests.world import make_world
from windlass.config import BadSetting


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"outbound_allow": ("10.0.0.0/99",)}, "outbound_allow: name a network, such as"),
        ({"outbound_proxy": "proxy.example.com:3128"}, "outbound_proxy: must be like http://"),
        ({"outbound_proxy": "socks5://proxy:1080"}, "outbound_proxy: must be like http://"),
        ({"outbound_proxy": "http://proxy:port"}, "outbound_proxy: must be like http://"),
    ],
)
async def test_an_invalid_outgoing_http_setting_refuses_the_start_with_its_name(setting, words):
    with pytest.raises(BadSetting, match=words):
        async with make_world(out=None, **setting):
            pass


async def test_an_installation_has_one_http_client_that_closes_with_it():
    async with receiver() as there:
        async with make_world(outbound_allow=LOOPBACK, out=None) as world:
            out = world.installation.ctx.out
            assert (await out.send("POST", there.url())).status == 200
        assert "stopping" in await failure(out, there.url())
