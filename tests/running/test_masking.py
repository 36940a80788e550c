"""Secrets of a service are hidden in its logs, the logs of its builds, and messages about it."""

from __future__ import annotations

import asyncio

import pytest

from tests.world import World, make_world
from windlass.core.words.masking import MASK, MIN_CUT_MESSAGE_BYTES
from windlass.engines.workload import OutputLine

SECRET = "s3cret-value-1"
LATER = "an0ther-value-2"


async def shop(world: World, **secrets: str) -> str:
    """An application with these secrets, in the environment of a database."""
    app = await world.application()
    for key, value in secrets.items():
        await world.made(f"/application/{app}/secret", {"key": key, "value": value})
    return app


async def deployed(world: World, app: str, family: str = "application") -> str:
    answer = await world.post(f"/{family}/{app}/deploy")
    assert answer.status == 202, answer
    await world.settle()
    return str(answer["id"])


async def restarted(world: World, app: str) -> str:
    assert (await world.post(f"/application/{app}/restart-service")).status == 202
    await world.settle()
    return str((await world.get(f"/application/{app}/deployment"))["results"][0]["id"])


async def log(world: World, path: str) -> list[str]:
    return [line["message"] for line in (await world.get(f"{path}/log"))["results"]]


def on_the_disk(world: World) -> str:
    return "\n".join(path.read_text() for path in (world.folder / "logs").rglob("*.jsonl"))


async def test_lines_of_an_instance_reach_the_disk_without_its_secrets(world: World):
    app = await shop(world, KEY=SECRET)
    await world.made(f"/application/{app}/environmentVariable", {"key": "MIXED", "value": "x-{{KEY}}-y"})
    version = await deployed(world, app)
    world.engine.says(
        app, *(OutputLine(1, text, "p", version) for text in ("one", f"key is {SECRET}", "x-{{KEY}}"))
    )
    assert await log(world, f"/application/{app}") == ["one", f"key is {MASK}", "x-{{KEY}}"]
    assert SECRET not in on_the_disk(world)


async def test_without_a_declared_secret_the_same_line_is_not_masked(world: World):
    app = await world.application()
    await world.made(f"/application/{app}/environmentVariable", {"key": "KEY", "value": SECRET})
    version = await deployed(world, app)
    world.engine.says(app, OutputLine(1, f"key is {SECRET}", "p", version))
    assert await log(world, f"/application/{app}") == [f"key is {SECRET}"]


async def test_each_line_of_a_secret_file_is_masked(world: World):
    app = await world.application()
    body = {"key": "PEM", "value": f"{SECRET}-line-one\n{LATER}-line-two\n", "mount_path": "/etc/pem"}
    await world.made(f"/application/{app}/secret", body)
    version = await deployed(world, app)
    world.engine.says(app, *(OutputLine(1, text, "p", version) for text in body["value"].splitlines()))
    assert await log(world, f"/application/{app}") == [MASK, MASK]


@pytest.mark.parametrize("type", ["POSTGRESQL", "MYSQL", "REDIS", "MONGODB"])
async def test_the_password_of_a_database_is_hidden_in_its_log_and_in_those_of_its_neighbours(
    world: World, type: str
):
    env = await world.environment()
    database = await world.database(env, type=type, version={"MYSQL": "8", "REDIS": "7"}.get(type, "7"))
    app = await world.application(env)
    await world.put(f"/database/{database}", {"accessibility": "PUBLIC"})
    password = (await world.get(f"/database/{database}/masterCredentials"))["password"]
    for family, service in (("database", database), ("application", app)):
        version = await deployed(world, service, family)
        world.engine.says(service, OutputLine(1, f"with {password}", "p", version))
        assert f"with {MASK}" in await log(world, f"/{family}/{service}")
    assert password not in on_the_disk(world)


async def test_the_old_value_of_a_secret_stays_masked_while_instances_with_it_run(world: World):
    app = await shop(world, KEY=SECRET)
    first = await deployed(world, app)
    secret = (await world.get(f"/application/{app}/secret"))["results"][0]["id"]
    await world.put(f"/application/{app}/secret/{secret}", {"value": LATER})
    world.engine.says(app, OutputLine(1, f"old {SECRET}", "p", first))
    second = await deployed(world, app)
    world.engine.says(app, OutputLine(1, f"old {SECRET}", "p", first))
    world.engine.says(app, OutputLine(1, f"new {LATER}", "p", second))
    assert await log(world, f"/application/{app}") == [f"old {MASK}", f"old {MASK}", f"new {MASK}"]


async def test_secrets_of_services_started_before_a_server_restart_are_masked(tmp_path, database_url):
    async with make_world(database_url, folder=tmp_path) as world:
        app = await shop(world, KEY=SECRET)
        version = await deployed(world, app)
        again = await restarted(world, app)
        engine = world.engine
    async with make_world(database_url, folder=tmp_path, engine=engine) as world:
        for each in (version, again):
            engine.says(app, OutputLine(1, f"key is {SECRET}", "p", each))
            engine.says(app, OutputLine(1, "after it", "p", each))
        async with asyncio.timeout(20):
            while len(await log(world, f"/application/{app}")) < 4:  # noqa: ASYNC110 (it comes by itself)
                await asyncio.sleep(0.01)
        assert sorted(await log(world, f"/application/{app}")) == [
            "after it", "after it", f"key is {MASK}", f"key is {MASK}",
        ]  # fmt: skip
        assert SECRET not in on_the_disk(world)


async def test_a_cut_line_that_could_end_in_a_secret_is_masked_when_the_server_stops(tmp_path):
    beginning = SECRET[:-2]
    async with make_world(folder=tmp_path) as world:
        app = await shop(world, KEY=SECRET)
        version = await deployed(world, app)
        world.engine.says(app, OutputLine(1, beginning.rjust(MIN_CUT_MESSAGE_BYTES + 8, "."), "p", version))
    async with make_world(folder=tmp_path) as world:
        part, end = await log(world, f"/application/{app}")
        assert (set(part), end) == ({"."}, MASK)
        assert beginning not in on_the_disk(world)


async def test_messages_about_a_failed_deployment_contain_no_secret(world: World):
    app = await shop(world, KEY=SECRET)
    world.engine.exits = f"wrote {SECRET} and ended"
    deployment = await deployed(world, app)
    world.engine.exits = ""
    shown = await world.get(f"/application/{app}/deployment/{deployment}")
    assert MASK in shown["message"]
    world.builder.broken = f"cannot build with {SECRET}"
    world.git.push("next")
    await deployed(world, app)
    status = await world.get(f"/application/{app}/status")
    told = [shown.body, status.body, *(row.body for row in await world.events())]
    assert not any(SECRET.encode() in each for each in told)
    assert SECRET not in on_the_disk(world)


async def test_the_log_of_a_build_has_no_secret_and_no_git_token_in_it(world: World):
    token = "glpat-0123456789abcdef"
    body = {"name": "git", "type": "GITHUB", "token": token, "git_api_url": "https://git.example"}
    git = await world.made(f"/organization/{world.org}/gitToken", body)
    app = await shop(world, KEY=SECRET)
    repository = {"url": "https://git.example/acme/shop.git", "branch": "main", "git_token_id": git}
    await world.put(f"/application/{app}", {"git_repository": repository})
    world.builder.broken = f"step printed {SECRET} and {token}"
    deployment = await deployed(world, app)
    lines = [
        line["message"]
        for line in (await world.get(f"/application/{app}/deployment/{deployment}/log"))["results"]
    ]
    assert f"Failed: step printed {MASK} and {MASK}" in lines
    message = (await world.get(f"/application/{app}/deployment/{deployment}"))["message"]
    assert message.startswith(f"step printed {MASK} and {MASK}. No version of ")
