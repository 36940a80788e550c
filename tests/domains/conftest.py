"""A world that asks a name server of the test."""

from __future__ import annotations

import pytest

from tests.fakes.name_server import name_server
from tests.world import make_world


@pytest.fixture
async def dns():
    async with name_server() as server:
        server.set("*.apps.example.com", ("A", "203.0.113.10"))
        yield server


@pytest.fixture
async def world(database_url, dns):
    async with make_world(
        database_url, dns_servers=(dns.address,), public_domain="apps.example.com", acme_directory=""
    ) as world:
        yield world
