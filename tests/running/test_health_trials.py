"""A health check is tried on the instances that run, before it is saved."""

from __future__ import annotations

from typing import Any

from tests.running.deployments import deployed
from tests.world import World
from windlass.engines.workload import ProbeKind

HTTP = {"type": {"http": {"path": "/healthz", "port": 8080}}}


async def try_check(world: World, app: str, probe: object = HTTP) -> Any:
    answer = await world.post(f"/application/{app}/checkHealth", {"probe": probe})
    assert answer.status == 200, answer
    return answer.json["instances"]


async def test_each_running_instance_answers_a_tried_check_and_nothing_is_changed(world: World):
    app = await deployed(world, min_running_instances=2, max_running_instances=2)
    before = (await world.get(f"/application/{app}")).json
    world.engine.probes.problem = "it answered GET /healthz on port 8080 with 500"
    world.engine.probes.asked.clear()
    (first, second) = await try_check(world, app)
    assert (first["instance"], second["instance"]) == ("1-0", "1-1")
    assert (first["is_healthy"], first["message"]) == (False, world.engine.probes.problem)
    asked = {(one.kind, one.path, one.port) for one in world.engine.probes.asked}
    assert asked == {(ProbeKind.HTTP, "/healthz", 8080)}
    world.engine.probes.problem = ""
    assert [one["is_healthy"] for one in await try_check(world, app)] == [True, True]
    assert (await world.get(f"/application/{app}")).json == before


async def test_a_check_of_a_service_that_does_not_run_has_no_answers(world: World):
    assert await try_check(world, await world.application()) == []


async def test_a_command_is_not_run_by_a_tried_check_because_the_audit_would_lack_it(world: World):
    app = await deployed(world)
    probe = {"type": {"exec": {"command": ["touch", "x"]}}}
    answer = await world.post(f"/application/{app}/checkHealth", {"probe": probe})
    assert answer.status == 400
    assert "terminal" in answer.json["message"]
