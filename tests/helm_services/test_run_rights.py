"""A run that may change the whole cluster trusts the records of releases in its namespace, so no other charts
are released there."""

from __future__ import annotations

import base64

import pytest

from tests.helm_services.conftest import deployed, release_of
from tests.world import Answer, World
from windlass.engines.workload import Workload
from windlass.launch.helm import TOKEN


@pytest.fixture
def asked(world: World) -> list[Answer]:
    """The answers to runs that have asked for their credential."""
    answers: list[Answer] = []

    async def run(workload: Workload) -> int:
        pair = base64.b64encode(f"run:{workload.variables[TOKEN]}".encode()).decode()
        answers.append(await world.get(f"/helm-run/{workload.service}/credential", token=f"Basic {pair}"))
        return 0 if answers[-1].status == 200 else 1

    world.engine.work = run
    return answers


async def test_no_other_chart_is_released_beside_one_with_the_whole_cluster(
    world: World, asked: list[Answer]
):
    environment = await world.environment()
    service = await release_of(world, environment)
    await release_of(world, environment, name="ingress", allow_cluster_wide_resources=True)
    assert (await deployed(world, service))[0] == "FAILED"
    (refused,) = asked
    assert refused.status == 409
    assert str(refused["message"]).startswith(
        "Create this service in another environment, and delete it here with skipReconcile: ingress has "
        "allow_cluster_wide_resources"
    )
    assert world.engine.credentials == set()


async def test_charts_of_equal_rights_and_of_other_environments_are_released(
    world: World, asked: list[Answer]
):
    environment = await world.environment()
    for where, rights in ((environment, True), (environment, True), (await world.environment(), False)):
        service = await release_of(world, where, allow_cluster_wide_resources=rights)
        assert (await deployed(world, service))[0] == "SUCCEEDED"
    assert [answer.status for answer in asked] == [200, 200, 200]
