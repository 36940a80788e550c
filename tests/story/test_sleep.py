"""A service sleeps and wakes with all real parts: a server, a gateway of its own, an engine, and visitors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.engines.dockers import docker_host
from tests.engines.standins import official_images
from tests.gateway.routers.town import Said, calling, request
from tests.marks import nightly, slow
from tests.repositories import Repository
from tests.story.turned_clock import TurnedClock
from tests.whole import Place, Windlass, place, until

DOCKERFILE = 'FROM python:3-slim\nWORKDIR /app\nCOPY . .\nEXPOSE 8080\nCMD ["python3", "app.py"]\n'
APP = """
import http.server, os, time

BEGAN = time.time_ns()


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(BEGAN).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


Server(("0.0.0.0", int(os.environ.get("PORT", "8080"))), Page).serve_forever()
"""


@pytest.fixture(params=[*slow("process"), *nightly("docker")])
async def there(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    is_docker = request.param == "docker"
    async with AsyncExitStack() as stack:
        host = docker_host() if is_docker else ""
        if is_docker:
            await stack.enter_async_context(official_images(host, "python:3-slim"))
        settings: dict[str, Any] = {"git_allow_local": True, "stop_seconds": 1, "settle_seconds": 0}
        yield await stack.enter_async_context(place(request.param, host, **settings))


async def deployed(there: Place, windlass: Windlass) -> tuple[str, str]:
    """An application that sleeps after a quarter of an hour, and its address."""
    repository = Repository(there.beside / "app").put({"Dockerfile": DOCKERFILE, "app.py": APP})
    repository.commit("An application")
    organization = (await windlass.call("GET", "/organization"))["id"]
    project = await windlass.call("POST", f"/organization/{organization}/project", {"name": "sleepy"})
    environment = await windlass.call("POST", f"/project/{project['id']}/environment", {"name": "all"})
    body = {
        "name": "web",
        "git_repository": {"url": repository.url, "branch": "main"},
        "dockerfile_path": "Dockerfile",
        "ports": [{"internal_port": 8080, "publicly_accessible": True}],
    }
    app = (await windlass.call("POST", f"/environment/{environment['id']}/application", body))["id"]
    path = f"/application/{app}"
    await windlass.call("PUT", f"{path}/advancedSettings", {"windlass.sleep.after_minutes": 15})
    await windlass.call("POST", f"{path}/deploy")
    await until(lambda: is_state(windlass, path, "RUNNING"))
    (link,) = (await windlass.call("GET", f"{path}/link"))["results"]
    return path, str(link["url"])


async def is_state(windlass: Windlass, path: str, state: str) -> bool:
    status = await windlass.call("GET", f"{path}/status")
    assert status["state"] != "ERROR", status
    return bool(status["state"] == state)


async def falls_asleep(there: Place, windlass: Windlass, path: str, clock: TurnedClock) -> None:
    await windlass.installation.sleepers.put_unused_to_sleep()
    clock.turn(16 * 60)
    await windlass.installation.sleepers.put_unused_to_sleep()
    status = await windlass.call("GET", f"{path}/status")
    assert (status["state"], status["sleeping"]) == ("STOPPED", True)

    async def nothing_runs() -> bool:
        return not await there.machine.running()

    await until(nothing_runs)


@pytest.mark.timeout(300)
async def test_visitors_of_a_sleeping_service_are_answered_by_one_start_of_it(there: Place) -> None:
    clock = TurnedClock()
    async with there.windlass(clock=clock) as windlass:
        path, url = await deployed(there, windlass)
        before = await visit(url)
        await falls_asleep(there, windlass, path, clock)
        answers = await asyncio.gather(*(visit(url) for _ in range(100)))
        assert {one.status for one in answers} == {200}, {one.body for one in answers if one.status != 200}
        assert len({one.body for one in answers} | {before.body}) == 2
        await until(lambda: is_state(windlass, path, "RUNNING"))
        await falls_asleep(there, windlass, path, clock)
        await windlass.call("POST", f"{path}/stop")
        await until(lambda: is_stopped(windlass, path))
        assert (await visit(url)).status == 503
        assert not await there.machine.running()


async def visit(url: str) -> Said:
    """Asks without a thread: the server of this test needs those that there are."""
    address = url.removeprefix("http://")
    async with calling(int(address.rpartition(":")[2])) as caller:
        return await caller.ask(request(host=address))


async def is_stopped(windlass: Windlass, path: str) -> bool:
    status = await windlass.call("GET", f"{path}/status")
    return (status["state"], status["sleeping"]) == ("STOPPED", False)


@pytest.mark.timeout(300)
async def test_a_service_that_sleeps_is_woken_after_a_restart_of_the_server(there: Place) -> None:
    clock = TurnedClock()
    async with there.windlass(clock=clock) as windlass:
        path, url = await deployed(there, windlass)
        await falls_asleep(there, windlass, path, clock)
    away = await visit(url)
    assert (away.status, away.fields["retry-after"]) == (503, "10")
    async with there.windlass(clock=clock) as windlass:
        assert (await visit(url)).status == 200
        await until(lambda: is_state(windlass, path, "RUNNING"))
        await windlass.call("POST", f"{path}/stop")
        await until(lambda: is_stopped(windlass, path))
