"""A change of a whole environment, in which everybody waits, takes no time for each pair of its services."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.registries import FakeRegistries
from tests.turns import TurnCounts, counted_turns
from tests.world import World, make_world
from windlass.base import fair_share
from windlass.control.reporting import webhooks
from windlass.control.services import services
from windlass.store.tables.resources import ResourceTable
from windlass.store.tables.statuses import StatusTable
from windlass.store.tables.table import ChangeSession
from windlass.store.tables.tree import ResourceTree
from windlass.store.tables.work import WorkChanges

REGISTRY = {"name": "acme", "kind": "GENERIC_CR", "url": "https://registry.example.com", "config": {}}
ACTIONS = ("stop", "redeploy", "cancelDeployment", "uninstall")


class Forgetful(dict[Any, Any]):
    """The memory of a change that finds nothing again."""

    def __contains__(self, key: object) -> bool:
        return False


def forget_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = ChangeSession.begin

    def forget(session: ChangeSession, now: int) -> None:
        begin(session, now)
        session.memory = Forgetful()

    monkeypatch.setattr(ChangeSession, "begin", forget)


class Reading:
    """Counts what is read of levels and of their services."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_remembered: bool) -> None:
        self.count = 0
        for name in ("tags", "marks"):
            monkeypatch.setattr(ResourceTree, name, self._counted(getattr(ResourceTree, name)))
        if not is_remembered:
            forget_at_once(monkeypatch)

    def _counted(self, read: Any) -> Any:
        async def counted(*given: Any) -> Any:
            self.count += 1
            return await read(*given)

        return counted


async def full(world: World, number: int) -> tuple[str, str]:
    """An environment with so many deployed containers and databases. Returns it, and a variable there."""
    environment = await world.environment()
    path = f"/environment/{environment}/environmentVariable"
    variable = await world.made(path, {"key": "UNKNOWN", "value": "{{DB_OF_LATER}}"})
    for place in range(number):
        body = {"name": f"c{place}", "image_name": "acme/shop", "tag": "1"}
        await world.made(f"/environment/{environment}/container", body)
        await world.database(environment)
    assert (await world.post(f"/environment/{environment}/deploy")).status == 202
    await world.settle()
    return environment, f"{path}/{variable}"


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("is_remembered", [True, False])
async def test_a_change_of_all_services_reads_what_they_share_once(
    monkeypatch: pytest.MonkeyPatch, action: str, is_remembered: bool
):
    """Negative control: without the memory of the change, it is read for each service."""
    async with make_world(engine=FakeEngine("image")) as world:
        counts = []
        for number in (3, 6):
            environment, variable = await full(world, number)
            if action == "cancelDeployment":
                assert (await world.post(f"/environment/{environment}/redeploy")).status == 202
            # What was computed for reads is of no use any more.
            assert (await world.patch(variable, {"value": f"{{{{DB_{number}}}}}"})).status == 200
            with monkeypatch.context() as patch:
                reading = Reading(patch, is_remembered=is_remembered)
                assert (await world.post(f"/environment/{environment}/{action}")).status == 202
                counts.append(reading.count)
        assert (counts[0] == counts[1]) is is_remembered
        assert min(counts) > 0


async def test_a_remembered_digest_is_that_of_the_present_variables(monkeypatch: pytest.MonkeyPatch):
    async with make_world(engine=FakeEngine("image")) as world:
        environment, variable = await full(world, 2)
        path = f"/environment/{environment}"

        async def freshness() -> tuple[str, str]:
            """As the answer of a change and that of a read say it."""
            changed = await world.post(f"{path}/stop")
            assert changed.status == 202
            return changed["deployment_status"], (await world.get(f"{path}/status"))["deployment_status"]

        assert await freshness() == ("UP_TO_DATE", "UP_TO_DATE")
        assert (await world.patch(variable, {"value": "other"})).status == 200
        assert await freshness() == ("OUT_OF_DATE", "OUT_OF_DATE")
        assert (await world.post(f"{path}/deploy")).status == 202
        await world.settle()
        assert (await world.patch(variable, {"value": "{{MAIN_URL}}"})).status == 200
        assert (await world.post(f"{path}/deploy")).status == 202
        await world.settle()
        assert await freshness() == ("UP_TO_DATE", "UP_TO_DATE")
        await world.database(environment, name="main")  # the variable refers to it
        assert await freshness() == ("OUT_OF_DATE", "OUT_OF_DATE")


HOOK = {"target_url": "https://hooks.example.com/0", "events": ["DEPLOYMENT_CANCELLED"], "enabled": True}


@pytest.mark.parametrize("is_remembered", [True, False])
async def test_a_change_of_all_services_reads_and_schedules_each_webhook_once(
    monkeypatch: pytest.MonkeyPatch, world: World, is_remembered: bool
):
    """Negative control: without the memory of the change, they are read and scheduled for each service."""
    environment = await world.environment()
    for _ in range(4):
        await world.application(environment)
    for number in range(3):
        hook = HOOK | {"target_url": f"https://hooks.example.com/{number}"}
        await world.made(f"/organization/{world.org}/webhook", hook)
    assert (await world.post(f"/environment/{environment}/deploy")).status == 202
    reads: list[str] = []
    scheduled: list[str] = []
    of_org, schedule_all = ResourceTable.of_org, WorkChanges.schedule_all

    async def read(table: ResourceTable, org: str, family: str) -> Any:
        reads.extend([family] * (family == "webhook"))
        return await of_org(table, org, family)

    async def schedule(table: WorkChanges, kind: str, pieces: Any) -> None:
        known = [*pieces]
        scheduled.extend(id for id, _ in known)
        await schedule_all(table, kind, known)

    monkeypatch.setattr(ResourceTable, "of_org", read)
    monkeypatch.setattr(WorkChanges, "schedule_all", schedule)
    if not is_remembered:
        forget_at_once(monkeypatch)
    assert (await world.post(f"/environment/{environment}/cancelDeployment")).status == 202
    assert len(scheduled) == (3 if is_remembered else 12)
    assert len(reads) == (1 if is_remembered else 4)
    listed = (await world.get(f"/organization/{world.org}/webhook"))["results"]
    for hook in listed:
        path = f"/organization/{world.org}/webhook/{hook['id']}/event"
        assert len((await world.get(path))["results"]) == 4


@pytest.mark.parametrize("most", [2, webhooks.MAX_WEBHOOKS])
async def test_an_organization_has_a_limited_number_of_webhooks(
    monkeypatch: pytest.MonkeyPatch, world: World, most: int
):
    monkeypatch.setattr(webhooks, "MAX_WEBHOOKS", most)
    path = f"/organization/{world.org}/webhook"
    statuses = [(await world.post(path, HOOK)).status for _ in range(3)]
    assert statuses == [201, 201, 409 if most == 2 else 201]


@pytest.mark.parametrize("is_shared", [True, False])
async def test_lists_of_services_let_others_run_in_between(monkeypatch: pytest.MonkeyPatch, is_shared: bool):
    """Negative control: without pauses, all services are looked at in one turn."""
    number = 5
    async with make_world(engine=FakeEngine("image"), out=FakeRegistries()) as world:
        registry = await world.made(f"/organization/{world.org}/containerRegistry", REGISTRY)
        environment = await world.environment()
        for place in range(number):
            body = {"name": f"c{place}", "image_name": "shop", "tag": "1", "registry_id": registry}
            await world.made(f"/environment/{environment}/container", body)
        # Each pause lets others run, however short the work before it was.
        monkeypatch.setattr(fair_share, "_TURN_SECONDS", 0 if is_shared else 1000)
        of_registry = f"/organization/{world.org}/containerRegistry/{registry}"
        for path, table, read in (
            (f"{of_registry}/associatedServices", ResourceTree, "above"),
            (f"{of_registry}/container/status", StatusTable, "get"),
            (f"/environment/{environment}/container?toUpdate=true", StatusTable, "get"),
        ):
            async with counted_turns() as counts:
                with monkeypatch.context() as patch:
                    count_calls(patch, table, read, counts)
                    assert (await world.get(path)).status == 200
            assert counts.total >= number
            assert (counts.most < number) is is_shared, path


def count_calls(monkeypatch: pytest.MonkeyPatch, table: type, name: str, counts: TurnCounts) -> None:
    read = getattr(table, name)

    async def counted(*given: Any) -> Any:
        counts.add(1)
        return await read(*given)

    monkeypatch.setattr(table, name, counted)


@pytest.mark.parametrize("most", [3, services.MAX_SERVICES])
async def test_an_environment_has_a_limited_number_of_services(
    monkeypatch: pytest.MonkeyPatch, world: World, most: int
):
    monkeypatch.setattr(services, "MAX_SERVICES", most)
    environment = await world.environment()
    await world.database(environment)
    app = await world.application(environment)
    copy = f"/application/{app}/clone", {"name": "copy", "environment_id": environment}
    assert (await world.post(*copy)).status == 202
    body = {"name": "further", "type": "POSTGRESQL", "version": "16", "mode": "CONTAINER"}
    answer = await world.post(f"/environment/{environment}/database", body)
    assert answer.status == (409 if most == 3 else 201)
    assert await world.application()  # in another environment
