"""Installations for backups: something in every corner of them, and everything that is in them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.jobs.sites import new_job
from tests.terraform_services.modules import document
from tests.world import REPOSITORY, World, make_world
from windlass.config import Settings
from windlass.control.records.job_outputs import JobOutput, store_outputs
from windlass.install.database import reading_snapshot
from windlass.store import Tx
from windlass.store.archive import Snapshot
from windlass.terraform.states import PlanRecord, add_version, note_attributes, put_plan

Contents = dict[str, Any]
STATE = b'{"version": 4, "serial": 1, "lineage": "0123", "outputs": {}, "resources": []}'


async def furnish(world: World) -> str:
    """One of much, with what JSON and text files find hard; answers the id of an application."""
    project = await world.project(name="Läden 🪢", description='quotes " and \\ and \n lines')
    environment = await world.environment(project)
    app = await world.application(environment)
    await world.database(environment)
    for number in range(3):
        path = f"/application/{app}/secret"
        await world.made(path, {"key": f"KEY_{number}", "value": f"sealed {number}"})
    hook = {
        "target_url": "https://example.com/hook",
        "events": ["DEPLOYMENT_STARTED"],
        "target_secret": "s3cret",
    }
    await world.made(f"/organization/{world.org}/webhook", hook)
    await world.post(f"/application/{app}/deploy", None, headers={"Idempotency-Key": "once"})
    await world.settle()
    await _furnish_terraform(world, environment, app)
    await _furnish_job(world, environment)
    gone = await world.project()
    await world.delete(f"/project/{gone}")
    await world.new_token("Deploy")
    world.installation.ctx.logs.write(app, world.clock.now(), "listening", "on port 8080")
    return app


async def _furnish_terraform(world: World, environment: str, app: str) -> None:
    """A Terraform service with a state and a plan, as runs of the program leave them."""
    ctx, service = (
        world.installation.ctx,
        await world.made(f"/environment/{environment}/terraform", document(REPOSITORY)),
    )
    (newest,) = await ctx.store.reads.deployments.latest(app, 1)
    run = replace(newest, service=service)

    async def leave(tx: Tx) -> None:
        row = await tx.resources.get(service)
        assert row
        await add_version(ctx, tx, row, run.id, STATE)
        await note_attributes(ctx, tx, service, b'{"random_pet.shop": {"id": "precious"}}')
        await put_plan(ctx, tx, run, (1, 0, 0), PlanRecord("+ random_pet.shop", [], b"plan", ""))

    await ctx.store.write(leave)


async def _furnish_job(world: World, environment: str) -> None:
    """A job with an output, as a run leaves it."""
    source = {"docker": {"git_repository": {"url": REPOSITORY}}}
    ctx, job = world.installation.ctx, await new_job(world, environment, source=source)
    outputs = {"BUCKET": JobOutput("shop", is_sensitive=True)}
    await ctx.store.write(lambda tx: store_outputs(ctx, tx, world.org, environment, job, outputs))


async def contents(settings: Settings) -> Contents:
    """Every row of every table and every log file."""
    async with reading_snapshot(settings) as line:
        moment = Snapshot(line)
        found: Contents = {
            table.name: sorted([tuple(row) async for row in moment.rows(table)], key=repr)
            for table in await moment.tables()
        }
    logs = Path(settings.data_dir) / "logs"
    return found | {
        path.relative_to(logs).as_posix(): path.read_bytes() for path in logs.rglob("*") if path.is_file()
    }


async def stopped(folder: Path, database_url: str) -> Settings:
    """An installation with resources, and no server running."""
    async with make_world(database_url, folder=folder) as world:
        await furnish(world)
        return settings_of(world)


def again(settings: Settings) -> Any:
    """The same installation, started once more."""
    return make_world(settings.database_url, folder=Path(settings.data_dir))


def settings_of(world: World) -> Settings:
    """Those of an operator: worlds of tests give ports that only a real engine refuses."""
    return replace(world.installation.ctx.settings, public_ports=Settings().public_ports)


def elsewhere(settings: Settings, folder: Path, database_url: str = "", *, with_key: bool = True) -> Settings:
    """A new machine; the operator has brought the key."""
    folder.mkdir()
    if with_key:
        shutil.copy(Path(settings.data_dir) / "key", folder / "key")
    return Settings(data_dir=str(folder), database_url=database_url)


async def apart(deed: Any) -> Any:
    """In a thread with a loop of its own, as another process would."""
    return await asyncio.to_thread(asyncio.run, deed)
