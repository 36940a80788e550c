"""The digest of the inputs of a service changes with each of them, and with nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.tables import rows
from tests.variables.town import Town, inputs, row_of, settled
from tests.world import World, make_world
from windlass.control.variables.inputs import former_sha, is_current
from windlass.core.words.variables import Inputs
from windlass.store import Tx


async def current(world: World, service: str, before: Inputs) -> bool:
    ctx = world.installation.ctx
    return await is_current(ctx, ctx.store.reads, await row_of(world, service), before.digest)


CHANGES: Mapping[str, Any] = {
    "a variable of the service": lambda town: town.says("application", "NEW"),
    "a variable of the environment": lambda town: town.says("environment", "NEW"),
    "a variable of the project": lambda town: town.says("project", "NEW"),
    "a secret of the service": lambda town: town.says("application", "NEW", kind="secret"),
    "a secret of the project": lambda town: town.says("project", "NEW", kind="secret"),
    "another value": lambda town: town.world.patch(
        f"{town.levels['project']}/environmentVariable/{town.variable}", {"value": "other"}
    ),
    "another secret": lambda town: town.world.patch(
        f"{town.levels['project']}/secret/{town.secret}", {"value": "other"}
    ),
    "a variable gone": lambda town: town.world.delete(
        f"{town.levels['project']}/environmentVariable/{town.variable}"
    ),
    "an override": lambda town: town.world.post(
        f"{town.levels['application']}/secret/{town.secret}/override", {"value": "x"}
    ),
    "cpu": lambda town: town.world.patch(f"/application/{town.app}", {"cpu": 777}),
    "name": lambda town: town.world.patch(f"/application/{town.app}", {"name": "store"}),
    "ports": lambda town: town.world.patch(f"/application/{town.app}", {"ports": []}),
    "arguments": lambda town: town.world.patch(f"/application/{town.app}", {"arguments": ["x"]}),
    "entrypoint": lambda town: town.world.patch(f"/application/{town.app}", {"entrypoint": "x"}),
    "the branch": lambda town: town.world.patch(
        f"/application/{town.app}", {"git_repository": {"url": "https://git.example/a.git", "branch": "x"}}
    ),
    "a health check": lambda town: town.world.patch(
        f"/application/{town.app}",
        {"healthchecks": {"readiness_probe": {"type": {"tcp": {"port": 8080}}}}},
    ),
}


NO_CHANGES: Mapping[str, Any] = {
    "a database of another name": lambda town: town.world.patch(f"/database/{town.database}", {"name": "x"}),
    "a database gone": lambda town: town.world.delete(f"/database/{town.database}"),
    "a new database": lambda town: town.world.database(town.env),
    "nothing": lambda town: town.world.get("/organization"),
    "description": lambda town: town.world.patch(f"/application/{town.app}", {"description": "x"}),
    "icon": lambda town: town.world.patch(f"/application/{town.app}", {"icon_uri": "app://x"}),
    "auto_deploy": lambda town: town.world.patch(f"/application/{town.app}", {"auto_deploy": True}),
    "null for what was absent": lambda town: town.world.patch(
        f"/application/{town.app}", {"entrypoint": None, "autoscaling": None}
    ),
    "the same again": lambda town: town.world.patch(f"/application/{town.app}", {"cpu": 500}),
    "a neighbour": lambda town: town.world.application(town.env),
    "a variable elsewhere": lambda town: town.world.made(
        f"/application/{town.neighbour}/environmentVariable", {"key": "NEW"}
    ),
    "a database elsewhere": lambda town: town.world.database(),
    "more memory for a database": lambda town: town.world.patch(
        f"/database/{town.database}", {"memory": 512}
    ),
    "the name of the environment": lambda town: town.world.patch(f"/environment/{town.env}", {"name": "x"}),
}


class Furnished(Town):
    def __init__(self, town: Town, **ids: str) -> None:
        super().__init__(town.world, town.project, town.env, town.app)
        self.variable, self.secret = ids["variable"], ids["secret"]
        self.database, self.neighbour = ids["database"], ids["neighbour"]


async def furnished(world: World) -> Furnished:
    town = await settled(world)
    return Furnished(
        town,
        variable=await town.says("project", "OLD", "1"),
        secret=await town.says("project", "OLD_SECRET", "1", kind="secret"),
        database=await world.database(town.env),
        neighbour=await world.application(town.env),
    )


@rows("what", CHANGES)
async def test_each_input_of_a_service_changes_the_digest(what: str):
    async with make_world() as world:
        town = await furnished(world)
        before = await inputs(world, town.app)
        assert await current(world, town.app, before)
        answer = await CHANGES[what](town)
        assert isinstance(answer, str) or answer.status < 300, answer
        assert not await current(world, town.app, before)
        after = await inputs(world, town.app)
        assert after.digest != before.digest
        assert await current(world, town.app, after)


@rows("what", NO_CHANGES)
async def test_unrelated_variables_do_not_change_the_digest(what: str):
    async with make_world() as world:
        town = await furnished(world)
        before = await inputs(world, town.app)
        answer = await NO_CHANGES[what](town)
        assert isinstance(answer, str) or answer.status < 300, answer
        assert await current(world, town.app, before)
        assert (await inputs(world, town.app)).digest == before.digest


WAYS: Mapping[str, Any] = {
    "a variable": lambda town, key: town.says("project", "A", f"x {{{{{key}}}}}"),
    "a secret": lambda town, key: town.says("application", "A", f"{{{{{key}}}}}", kind="secret"),
    "an alias": lambda town, key: town.alias(key),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_database_is_an_input_of_services_that_mention_it(way: str):
    async with make_world() as world:
        town = await furnished(world)
        await world.patch(f"/database/{town.database}", {"name": "main"})
        await WAYS[way](town, f"QOVERY_POSTGRESQL_Z{town.database[:8].upper()}_HOST_INTERNAL")
        using, other = await inputs(world, town.app), await inputs(world, town.neighbour)
        await world.database(town.env, name="another")
        assert await current(world, town.app, using)
        await world.patch(f"/database/{town.database}", {"name": "second"})
        assert not await current(world, town.app, using)
        if way != "a variable":  # which is of the whole project
            assert await current(world, town.neighbour, other)


async def test_creating_a_database_that_variables_already_refer_to_changes_the_digest(town: Town):
    world = town.world
    await town.says("application", "ADDRESS", "{{MAIN_DB_URL}}", kind="secret")
    waiting = await inputs(world, town.app)
    await world.database(town.env, name="other")
    assert await current(world, town.app, waiting)
    await world.database(town.env, name="main-db")
    assert not await current(world, town.app, waiting)
    assert "MAIN_DB_URL" not in waiting.digest


async def test_a_digest_stored_by_version_0_1_depends_on_every_database(town: Town):
    """As it was written until 0.1: services that run then do not all become out of date by an upgrade."""
    world, service = town.world, await row_of(town.world, town.app)
    await world.database(town.env, name="first")
    ctx = world.installation.ctx
    marks = await ctx.store.reads.tree.marks(town.app, ["environmentVariable", "secret", "database"])
    old = msgspec.structs.replace(await inputs(world, town.app), digest=former_sha(ctx, service, marks))
    assert await current(world, town.app, old)
    await world.database(town.env, name="second")
    assert not await current(world, town.app, old)


async def test_a_digest_stored_without_separate_levels_is_still_compared(town: Town):
    """As it was written before each level had its own: an upgrade makes no service out of date."""
    world, service = town.world, await row_of(town.world, town.app)
    await world.database(town.env, name="unused")
    ctx = world.installation.ctx
    marks = await ctx.store.reads.tree.marks(town.app, ["environmentVariable", "secret"])
    old = msgspec.structs.replace(
        await inputs(world, town.app), digest=f"{former_sha(ctx, service, marks)}.."
    )
    assert await current(world, town.app, old)
    await town.says("project", "NEW")
    assert not await current(world, town.app, old)


async def test_the_digest_of_a_database_depends_only_on_its_own_settings(town: Town):
    world, database = town.world, await town.world.database(town.env)
    before = await inputs(world, database)
    await town.says("environment", "NEW")
    await world.patch(f"/database/{database}", {"description": "x"})
    assert await current(world, database, before)
    assert (await inputs(world, database)).digest == before.digest
    await world.patch(f"/database/{database}", {"memory": 777})
    assert not await current(world, database, before)


async def test_writing_the_deployed_commit_does_not_change_the_digest(town: Town):
    """The server writes it into the document after each deployment."""
    world, ctx = town.world, town.world.installation.ctx
    before = await inputs(world, town.app)
    assert (await world.post(f"/application/{town.app}/deploy")).status == 202
    await world.settle()
    row = await row_of(world, town.app)

    async def write(tx: Tx) -> None:
        body = row.body.replace(b'"deployed_commit_id":"', b'"deployed_commit_id":"abc')
        assert body != row.body
        await tx.resources.rewrite(row.id, body)

    await ctx.store.write(write)
    assert await current(world, town.app, before)
