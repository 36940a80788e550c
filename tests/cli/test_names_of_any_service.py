"""Operations on any service take its name, whichever family it is of."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.test_stories import shop
from tests.world import ADMIN
from windlass.cli.client import Api
from windlass.cli.names import NameResolver
from windlass.families import registry
from windlass.terminal.stopped import Misused


async def resolved(windlass, text: str) -> str:
    names = NameResolver(Api(windlass.url, ADMIN), registry(), {})
    return await asyncio.to_thread(names.id_of_any, tuple(registry().services), text)


async def database(windlass, name: str) -> str:
    words = ("--environment", "shop/production", "--type", "POSTGRESQL", "--version", "16")
    made = await windlass.done("database", "create", *words, "--mode", "CONTAINER", "--name", name)
    return str(made["id"])


async def test_a_name_or_a_path_of_names_finds_a_service_of_any_family(windlass):
    await shop(windlass)
    id = await database(windlass, "orders")
    for text in ("orders", "production/orders", "shop/production/orders", id):
        assert await resolved(windlass, text) == id
    assert await resolved(windlass, "web") == (await windlass.done("application", "get", "web"))["id"]


async def test_a_name_that_services_of_two_families_have_is_refused_with_both(windlass):
    await shop(windlass)
    id = await database(windlass, "web")
    with pytest.raises(
        Misused, match=r"^give an id: 'web' could be each of these: application .*database"
    ) as said:
        await resolved(windlass, "web")
    assert id in str(said.value)


async def test_a_name_that_no_service_has_is_refused_with_the_families(windlass):
    await shop(windlass)
    with pytest.raises(Misused, match=r"^check the name 'nothing', or give an id: there is none of "):
        await resolved(windlass, "nothing")
