"""A state that is still in a former backend: no run begins with an empty one beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.jobs.sites import Programs
from tests.terraform_services.test_settings import made
from tests.world import REPOSITORY, World, make_world
from windlass.base import ids
from windlass.engines.workload import Workload
from windlass.launch.terraform import APPLY, DESTROY, MIGRATE
from windlass.store import Tx
from windlass.terraform.states import add_version

ELSEWHERE: dict[str, Any] = {"backend": {"kubernetes": None, "user_provided": {}}}
SOURCE = {"git_repository": {"url": REPOSITORY, "branch": "main"}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made_world:
        yield made_world


MADE = {"version": 4, "resources": [{"mode": "managed", "type": "a", "name": "b", "instances": [{}]}]}
EMPTY = {"version": 4, "resources": []}


class Modules(Programs):
    """Runs that store a state as the real ones do: Windlass has that of another backend after a success."""

    async def work(self, workload: Workload) -> int:
        code = await super().work(workload)
        request = msgspec.json.decode(workload.variables["WINDLASS_TERRAFORM"])
        state = {APPLY: MADE, MIGRATE: MADE, DESTROY: EMPTY}.get(request["action"])
        if state and (code == 0 or request["keeps_state"]):
            await self.world.installation.ctx.store.write(partial(self.store, workload, state))
        return code

    async def store(self, workload: Workload, state: Any, tx: Tx) -> None:
        service = await tx.resources.get(workload.service)
        assert service is not None
        ctx, content = self.world.installation.ctx, msgspec.json.encode(state)
        await add_version(ctx, tx, service, workload.deployment, content)


async def service_of(world: World) -> str:
    return await made(world, terraform_files_source=SOURCE)


async def ran(world: World, service: str, **body: Any) -> tuple[str, str]:
    """The status and the message of a deployment that has ended."""
    answer = await world.post(f"/terraform/{service}/deploy", body)
    assert answer.status == 202, answer
    await world.settle()
    shown = await world.get(f"/terraform/{service}/deployment/{answer['id']}")
    return shown["status"], shown["message"]


async def test_a_changed_backend_is_refused_until_the_state_is_migrated_even_after_a_failed_run(world: World):
    programs = Modules(world)
    service = await service_of(world)
    assert await ran(world, service) == ("SUCCEEDED", "")
    programs.codes = [1]
    assert (await ran(world, service))[0] == "FAILED"
    await world.patch(f"/terraform/{service}", ELSEWHERE)
    count = len(programs.started)
    status, message = await ran(world, service)
    assert (status, message.startswith("backend: deploy with the action MIGRATE_STATE first")) == (
        "FAILED",
        True,
    )
    assert len(programs.started) == count
    programs.codes = [1]
    assert (await ran(world, service, action="MIGRATE_STATE"))[0] == "FAILED"
    assert "MIGRATE_STATE first" in (await ran(world, service))[1]
    assert await ran(world, service, action="MIGRATE_STATE") == ("SUCCEEDED", "")
    assert await ran(world, service) == ("SUCCEEDED", "")


async def test_a_changed_backend_is_refused_after_a_failed_first_run_that_stored_a_state(world: World):
    programs = Modules(world)
    service = await service_of(world)
    programs.codes = [1]
    assert (await ran(world, service))[0] == "FAILED"
    await world.patch(f"/terraform/{service}", ELSEWHERE)
    assert "MIGRATE_STATE first" in (await ran(world, service))[1]
    assert await ran(world, service, action="MIGRATE_STATE") == ("SUCCEEDED", "")


async def test_after_a_failed_first_run_with_a_user_provided_backend_the_backend_may_be_changed(world: World):
    programs = Modules(world)
    service = await made(world, terraform_files_source=SOURCE, backend={"user_provided": {}})
    programs.codes = [1, 1]
    for _ in range(2):
        assert "MIGRATE_STATE" not in (await ran(world, service))[1]
    await world.patch(f"/terraform/{service}", {"backend": {"kubernetes": {}, "user_provided": None}})
    assert await ran(world, service) == ("SUCCEEDED", "")


async def test_a_backend_may_be_changed_once_everything_is_destroyed(world: World):
    Modules(world)
    service = await service_of(world)
    assert await ran(world, service) == ("SUCCEEDED", "")
    assert (await world.post(f"/terraform/{service}/uninstall")).status == 202
    await world.settle()
    await world.patch(f"/terraform/{service}", ELSEWHERE)
    assert await ran(world, service) == ("SUCCEEDED", "")


async def test_a_changed_backend_is_refused_also_after_very_many_plans(world: World):
    Modules(world)
    service = await service_of(world)
    assert await ran(world, service) == ("SUCCEEDED", "")
    assert await ran(world, service, action="PLAN") == ("SUCCEEDED", "")

    async def plan_often(tx: Tx) -> None:
        last, *_ = await tx.deployments.latest(service, 1)
        for number in range(last.number + 1, last.number + 301):
            await tx.deployments.add(msgspec.structs.replace(last, id=ids.new_id(), number=number))
        status = await tx.statuses.get(service)
        assert status is not None
        await tx.statuses.change(msgspec.structs.replace(status, deployments=last.number + 300))

    await world.installation.ctx.store.write(plan_often)
    await world.patch(f"/terraform/{service}", ELSEWHERE)
    assert "MIGRATE_STATE first" in (await ran(world, service))[1]


@pytest.mark.parametrize("code", [0, 1])
async def test_a_deletion_destroys_with_the_backend_of_the_last_run(world: World, code: int):
    """A run that failed may have made something; only its backend knows."""
    programs = Modules(world)
    service = await made(world, terraform_files_source=SOURCE, backend={"user_provided": {}})
    assert await ran(world, service) == ("SUCCEEDED", "")
    programs.codes = [code]
    await ran(world, service)
    await world.patch(f"/terraform/{service}", {"backend": {"kubernetes": {}, "user_provided": None}})
    assert (await world.delete(f"/terraform/{service}")).status == 204
    await world.settle()
    status = await world.get(f"/terraform/{service}/status")
    assert status["deployment_state"] == "DELETE_ERROR"
    assert "MIGRATE_STATE first" in status["message"]
