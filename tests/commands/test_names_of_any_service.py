"""Operations on any service take its name, whichever family it is of."""

from __future__ import annotations

import asyncio

import pytest

from tests.commands.line import Line
from tests.commands.test_stories import shop
from tests.pushes.previewed import shop_of
from tests.schemathesis.serving import served
from tests.tokens import ADMIN
from windlass.cli.client import Api
from windlass.cli.names import NameResolver
from windlass.families import registry
from windlass.terminal.command_errors import InvalidUsage


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


async def test_a_name_shared_by_services_of_two_families_is_refused_with_both_ids(windlass):
    await shop(windlass)
    id = await database(windlass, "web")
    with pytest.raises(
        InvalidUsage, match=r"^give an id: 'web' could be each of these: application .*database"
    ) as said:
        await resolved(windlass, "web")
    assert id in str(said.value)


async def test_a_name_means_the_original_and_not_its_previews():
    async with shop_of() as previewed, served(previewed.world) as url:
        world, line = previewed.world, Line(previewed.world, url)
        await previewed.make(auto_preview=True)
        for number in (12, 13):
            await previewed.open(number, f"change {number}")
        assert len(await previewed.previews()) == 2
        assert await resolved(line, "web") == previewed.web
        assert await resolved(line, "live-pr-12/web") not in {"", previewed.web}
        other = await world.environment(previewed.project, name="staging")
        await world.application(other, name="web")
        with pytest.raises(InvalidUsage, match="staging/web") as said:
            await resolved(line, "web")
        assert "pr-12" not in str(said.value)


async def test_an_unknown_service_name_is_refused(windlass):
    await shop(windlass)
    with pytest.raises(InvalidUsage, match=r"^check the name 'nothing', or give an id: there is none of "):
        await resolved(windlass, "nothing")


async def test_a_token_is_limited_to_resources_by_their_names(windlass):
    await shop(windlass)
    words = (
        "--name",
        "ci",
        "--scopes",
        "Read",
        "--limited-to",
        "shop/production/web",
        "--limited-to",
        "shop",
    )
    token = await windlass.done("api-token", "create", *words)
    names = {"application": "web", "project": "shop"}
    ids = [(await windlass.done(family, "get", name))["id"] for family, name in names.items()]
    assert token["limited_to"] == ids


async def test_chosen_services_are_found_by_name(windlass):
    await shop(windlass)
    words = ("environment", "service/uninstall", "shop/production", "--application-ids")
    said = await windlass(*words, "no-such")
    assert said.err == "windlass: There is no application 'no-such' here\n"
    await windlass.done(*words, "web")
