"""The credentials of databases: made once, told to Admins, kept through every change, never in the clear."""

from __future__ import annotations

import asyncio
import string
from typing import Any

import msgspec
import pytest

from tests.world import World
from windlass.control.workloads.credentials import credentials_of
from windlass.core.deploy.databases import TYPES, DatabaseLogin, configurations, kind_of
from windlass.store import Row, Tx

every_type = pytest.mark.parametrize("type", TYPES)


async def row_of(world: World, id: str) -> Row:
    row = await world.installation.ctx.store.reads.resources.get(id)
    assert row is not None
    return row


async def known(world: World, id: str) -> DatabaseLogin:
    ctx = world.installation.ctx
    return await credentials_of(ctx, ctx.store.reads, await row_of(world, id))


@every_type
async def test_the_master_credentials_of_a_database_have_host_port_login_and_password(
    world: World, type: str
):
    database = await world.database(type=type, version="8")
    answer = await world.get(f"/database/{database}/masterCredentials")
    assert answer.status == 200, answer
    name = (await world.get(f"/database/{database}"))["name"]
    where = await world.installation.ctx.places.local.engine.neighbour_address(
        str((await world.get(f"/database/{database}"))["environment"]["id"]),
        database,
        name,
        kind_of(type).port,
    )
    assert (answer["host"], answer["port"]) == (where.host, where.port)
    assert answer["login"] == kind_of(type).login
    assert answer["access_mode"] == "PRIVATE"
    assert len(answer["password"]) >= 32
    assert set(answer["password"]) <= set(string.ascii_letters + string.digits)


async def test_no_two_databases_have_the_same_password(world: World):
    env = await world.environment()
    passwords = [(await known(world, await world.database(env))).password for _ in range(10)]
    assert len(set(passwords)) == 10


async def test_database_credentials_survive_changes_of_the_database(world: World):
    database = await world.database()
    before = await known(world, database)
    for change in ({"name": "other"}, {"version": "15"}, {"accessibility": "PUBLIC"}, {"description": "x"}):
        assert (await world.patch(f"/database/{database}", change)).status == 200
        assert await known(world, database) == before
    assert (await world.patch(f"/database/{database}", {"description": "x"})).status == 200


@pytest.mark.parametrize("scope", ["Read", "Write", "Deploy"])
async def test_only_admins_see_credentials(world: World, scope: str):
    database = await world.database()
    token = await world.new_token(scope)
    answer = await world.get(f"/database/{database}/masterCredentials", token=token)
    assert answer.status == 403
    assert (await known(world, database)).password.encode() not in answer.body


async def test_a_database_password_is_not_in_plain_text_on_disk_or_in_events(world: World):
    database = await world.database()
    await world.patch(f"/database/{database}", {"version": "15"})
    password = (await known(world, database)).password.encode()
    disk = b"".join(file.read_bytes() for file in world.folder.rglob("*") if file.is_file())
    assert password not in disk
    assert not [event for event in await world.events() if password in event.body]


async def test_a_database_without_stored_credentials_gets_them_exactly_once(world: World):
    """The same holds for many requests at the same moment."""
    ctx, database = world.installation.ctx, await world.database()
    old = msgspec.structs.replace(await row_of(world, database), sealed=None)

    async def forget(tx: Tx) -> None:
        await tx.resources.change(old)

    await ctx.store.write(forget)
    asked = [credentials_of(ctx, ctx.store.reads, old) for _ in range(8)]
    answers = await asyncio.gather(*asked)
    assert len(set(map(repr, answers))) == 1
    assert await known(world, database) == answers[0]
    assert (await row_of(world, database)).tag == old.tag


async def test_an_encrypted_password_decrypts_for_its_own_database_only(world: World):
    one, other = await row_of(world, await world.database()), await row_of(world, await world.database())
    ctx = world.installation.ctx
    moved = msgspec.structs.replace(one, sealed=other.sealed)
    with pytest.raises(Exception, match="cannot be decrypted"):
        await credentials_of(ctx, ctx.store.reads, moved)


async def test_the_versions_of_databases_are_listed(world: World):
    answer = await world.get(f"/environment/{await world.environment()}/databaseConfiguration")
    assert answer.status == 200
    assert [one["database_type"] for one in answer["results"]] == list(TYPES)
    assert {"name": "16", "supported_mode": "CONTAINER"} in answer["results"][0]["version"]
    assert {"name": "16", "supported_mode": "MANAGED"} in answer["results"][0]["version"]


def test_the_version_of_the_machine_comes_first_where_its_servers_run():
    def first(*, runs_installed: bool) -> dict[Any, str]:
        kinds: list[Any] = configurations(runs_installed=runs_installed)
        return {kind["database_type"]: kind["version"][0]["name"] for kind in kinds}

    installed = first(runs_installed=True)
    assert (installed["MYSQL"], installed["REDIS"], installed["POSTGRESQL"]) == ("latest", "latest", "18")
    # Negative control: elsewhere, versions are images.
    assert "latest" not in first(runs_installed=False).values()


async def test_available_database_versions_are_those_compatible_with_the_existing_data(world: World):
    database = await world.database(type="MYSQL", version="8.0")
    answer = await world.get(f"/database/{database}/version")
    assert [one["name"] for one in answer["results"]] == ["8.4", "8"]
