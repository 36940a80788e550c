"""Services that run once, on a whole Windlass with each real engine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.dockers import docker_host
from tests.marks import nightly
from tests.tasks import run_of, with_tasks
from tests.whole import Windlass, place, until

pytestmark = pytest.mark.slow


@pytest.fixture(params=["process", *nightly("docker")])
async def there(request):
    host = docker_host() if request.param == "docker" else ""
    async with place(request.param, host, stop_seconds=1) as made:
        yield made


class Task:
    def __init__(self, windlass: Windlass) -> None:
        self.windlass = windlass
        self.path = ""

    async def make(self, script: str, **fields: Any) -> None:
        org = (await self.windlass.call("GET", "/organization"))["id"]
        project = await self._made(f"/organization/{org}/project", name="acme")
        environment = await self._made(f"/project/{project}/environment", name="production")
        made = await self._made(f"/environment/{environment}/task", name="task", script=script, **fields)
        self.path = f"/task/{made}"

    async def _made(self, path: str, **body: Any) -> str:
        return str((await self.windlass.call("POST", path, body))["id"])

    async def edit(self, **fields: Any) -> None:
        await self.windlass.call("PATCH", self.path, fields)

    async def begin(self) -> str:
        """A run that has written its first line."""
        deployment = str((await self.windlass.call("POST", f"{self.path}/deploy"))["id"])
        await until(self._has_written)
        return deployment

    async def run(self) -> Any:
        begun = await self.windlass.call("POST", f"{self.path}/deploy")
        return await self.ended(begun["id"])

    async def ended(self, deployment: str) -> Any:
        at = f"{self.path}/deployment/{deployment}"

        async def has_ended() -> bool:
            return (await self.windlass.call("GET", at))["finished_at"] is not None

        await until(has_ended)
        return await self.windlass.call("GET", at)

    async def lines(self) -> list[str]:
        """The output of all runs."""
        log = (await self.windlass.call("GET", f"{self.path}/log"))["results"]
        return [line["message"] for line in log if line["version"]]

    async def _has_written(self) -> bool:
        return bool(await self.lines())


async def test_a_run_succeeds_or_fails_with_its_exit_code_and_can_be_deleted(there):
    async with there.windlass(**with_tasks()) as windlass:
        task = Task(windlass)
        await task.make("echo first; echo last")
        well = await task.run()
        assert (well["action"], well["status"]) == ("RUN", "SUCCEEDED")
        assert run_of(well) == (0, "exited with code 0", ["first", "last"])
        await task.edit(script="echo oh no; exit 7")
        broken = await task.run()
        assert (broken["status"], run_of(broken)) == ("FAILED", (7, "exited with code 7", ["oh no"]))
        assert broken["message"] == "task exited with code 7\nIts last lines were:\noh no"
        assert await task.lines() == ["first", "last", "oh no"]
        await windlass.call("DELETE", task.path)
        await there.is_empty()


@pytest.mark.nightly
async def test_a_cancelled_run_and_a_run_past_its_time_limit_are_ended(there):
    async with there.windlass(**with_tasks()) as windlass:
        task = Task(windlass)
        await task.make("echo begun; sleep 1000")
        deployment = await task.begin()
        await windlass.call("POST", f"{task.path}/cancelDeployment")
        assert (await task.ended(deployment))["status"] == "CANCELED"
        assert not await there.machine.running()
        await task.edit(max_duration_seconds=3)
        late = await task.run()
        assert late["message"].endswith("task did not end within 3 seconds\nIts last lines were:\nbegun")
        assert not await there.machine.running()


async def test_a_run_continues_while_the_server_is_stopped_and_is_not_repeated(there):
    async with there.windlass(**with_tasks()) as windlass:
        task = Task(windlass)
        await task.make("echo begun; sleep 4; echo done; exit 5")
        deployment = await task.begin()
    async with there.windlass(**with_tasks()) as task.windlass:
        ended = await task.ended(deployment)
        assert run_of(ended) == (5, "exited with code 5", ["begun", "done"])
        assert await task.lines() == ["begun", "done"]
