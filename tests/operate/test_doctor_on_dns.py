"""`windlass doctor` tries the credentials of the provider of DNS, and changes nothing there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fakes.name_server import name_server
from tests.operate.test_commands import findings
from windlass.base.dns.updates import parse_key

KEY = "acme.example.com:c2VjcmV0LW9mLXRoZS1rZXktMTIzNDU2Nzg5MA=="
WRONG_KEY = "acme.example.com:AAAA"


@pytest.mark.parametrize(
    ("key", "domain", "level", "says"),
    [
        (KEY, "apps.example.com", "ok", "takes the credentials for the zone example.com"),
        (WRONG_KEY, "apps.example.com", "fail", "does not take this key"),
        (KEY, "apps.example.org", "fail", "has no zone of _acme-challenge.apps.example.org"),
        ("acme: not Base64", "apps.example.com", "fail", "dns_credentials: "),
        (KEY, "localhost", "warn", "was not asked"),
    ],
)
async def test_the_credentials_of_a_provider_are_tried_without_a_change(
    tmp_path: Path, key: str, domain: str, level: str, says: str
):
    async with name_server() as server:
        server.key = parse_key(KEY).name, parse_key(KEY).secret
        server.serve_zone("example.com")
        settings = {
            "WINDLASS_DNS_PROVIDER": "rfc2136",
            "WINDLASS_DNS_UPDATE_SERVER": server.address,
            "WINDLASS_DNS_CREDENTIALS": key,
            "WINDLASS_PUBLIC_DOMAIN": domain,
            "WINDLASS_ENGINE": "process",
        }
        found = await asyncio.to_thread(findings, "--data-dir", str(tmp_path / "data"), **settings)
        assert found["DNS provider"][0] == level
        assert says in found["DNS provider"][1]
        assert server.updates == []


async def test_a_name_server_that_does_not_answer_is_told(tmp_path: Path):
    async with name_server() as server:
        server.is_silent = True
        settings = {
            "WINDLASS_DNS_PROVIDER": "rfc2136",
            "WINDLASS_DNS_UPDATE_SERVER": server.address,
            "WINDLASS_DNS_CREDENTIALS": KEY,
            "WINDLASS_PUBLIC_DOMAIN": "apps.example.com",
            "WINDLASS_ENGINE": "process",
        }
        found = await asyncio.to_thread(findings, "--data-dir", str(tmp_path / "data"), **settings)
        assert found["DNS provider"][0] == "fail"
