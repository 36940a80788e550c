"""The shop of the manual as one thing: in stages, cloned, changed, rolled back, put to sleep, exported and
rebuilt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.engines.dockers import docker_host
from tests.engines.standins import official_images
from tests.marks import nightly, slow
from tests.repositories import Repository
from tests.story.shop import FILES
from tests.story.turned_clock import TurnedClock
from tests.terraform_exports.configuration import Configuration
from tests.terraform_exports.pictures import picture
from tests.terraform_exports.provider import Provider
from tests.whole import Place, Windlass, page, place, until

IMAGES = ("postgres:16", "python:3-slim")
GOODS = "rope, soap (tables {}, pictures in {})"


class Shop:
    """The shop in one environment, as its team sees it."""

    def __init__(self, windlass: Windlass, environment: str) -> None:
        self.windlass = windlass
        self.path = f"/environment/{environment}"

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await self.windlass.call(method, path, body)

    async def made(self, path: str, **body: Any) -> str:
        return str((await self.call("POST", path, body))["id"])

    async def open(self, repository: str) -> None:
        """Makes the services, and arranges them in stages."""
        source = {"url": repository, "branch": "main"}
        await self.made(f"{self.path}/database", name="db", type="POSTGRESQL", version="16", mode="CONTAINER")
        docker = {"git_repository": source, "dockerfile_path": "Dockerfile"}
        job = await self.made(
            f"{self.path}/job",
            name="migration",
            source={"docker": docker},
            schedule={"on_start": {"arguments": ["python3", "migrate.py"]}},
        )
        cron = {"scheduled_at": "30 2 * * *", "arguments": ["python3", "report.py"]}
        nightly_job = await self.made(
            f"{self.path}/job", name="nightly", source={"docker": docker}, schedule={"cronjob": cron}
        )
        ports = [{"internal_port": 8080, "publicly_accessible": True}]
        web = await self.made(
            f"{self.path}/application",
            name="web",
            git_repository=source,
            dockerfile_path="Dockerfile",
            ports=ports,
        )
        schema = f"{{{{WINDLASS_JOB_Z{job[:8].upper()}_SCHEMA}}}}"
        await self.made(f"/application/{web}/environmentVariable", key="SCHEMA", value=schema)
        await self.made(f"{self.path}/environmentVariable", key="BUCKET", value="${a}")
        await self.made(f"{self.path}/secret", key="KEY", value="of the till")
        reports = await self.made(f"{self.path}/deploymentStage", name="reports")
        stages = (await self.call("GET", f"{self.path}/deploymentStage"))["results"]
        jobs = next(stage["id"] for stage in stages if stage["name"] == "default-jobs")
        await self.call("PUT", f"/deploymentStage/{reports}/moveBefore/{jobs}")
        await self.call("PUT", f"/deploymentStage/{reports}/service/{nightly_job}", {"is_skipped": True})

    async def deploy(self, action: str = "deploy", **body: Any) -> str:
        """Starts a deployment of the environment, and waits for its end. Returns its id."""
        begun = await self.call("POST", f"{self.path}/{action}", body)

        async def ended() -> bool:
            newest = (await self.call("GET", f"{self.path}/deploymentHistoryV2"))["results"][0]
            assert newest["status"] not in {"DEPLOYMENT_ERROR", "BUILD_ERROR", "CANCELED"}, newest
            return bool(newest["status"] == "DEPLOYED")

        await until(ended)
        return str(begun["deployment_request_id"])

    async def web(self) -> str:
        services = (await self.call("GET", f"{self.path}/services"))["results"]
        return next(str(service["id"]) for service in services if service["name"] == "web")

    async def page(self) -> str:
        (link,) = (await self.call("GET", f"/application/{await self.web()}/link"))["results"]
        answer = await page(link["url"])
        assert answer.status == 200, answer
        return answer.text

    async def sleep(self, clock: TurnedClock) -> None:
        """Lets the application sleep without requests. Its owner says that nothing else calls it."""
        web = f"/application/{await self.web()}"
        settings = {"windlass.sleep.after_minutes": 15, "windlass.sleep.although_called": True}
        await self.call("PUT", f"{web}/advancedSettings", settings)
        installation = self.windlass.installation

        async def is_watched() -> bool:
            return web.rpartition("/")[2] in installation.ctx.routing.sleepers

        await until(is_watched)
        await installation.sleepers.put_unused_to_sleep()
        clock.turn(16 * 60)

        async def asleep() -> bool:
            await installation.sleepers.put_unused_to_sleep()
            return bool((await self.call("GET", f"{web}/status"))["sleeping"])

        await until(asleep)
        assert await self.states() == {"db": "DEPLOYED", "web": "STOPPED"}

    async def is_awake(self) -> bool:
        return await self.states() == {"db": "DEPLOYED", "web": "DEPLOYED"}

    async def states(self) -> dict[str, str]:
        """The states of the services that have instances."""
        shown = (await self.call("GET", f"{self.path}/services"))["results"]
        kinds = {"DATABASE": "database", "APPLICATION": "application"}
        return {
            one["name"]: (await self.call("GET", f"/{kind}/{one['id']}/status"))["deployment_state"]
            for one in shown
            if (kind := kinds.get(one["service_type"]))
        }

    async def picture(self) -> Any:
        seen = await picture(lambda path: self.call("GET", path), self.path)
        return {name: value for name, value in seen.items() if name != "environment"}


@pytest.fixture(params=[*slow("process"), *nightly("docker")])
async def there(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    is_docker = request.param == "docker"
    async with AsyncExitStack() as stack:
        host = docker_host() if is_docker else ""
        if is_docker:
            await stack.enter_async_context(official_images(host, *IMAGES))
        settings: dict[str, Any] = {"git_allow_local": True, "stop_seconds": 1, "settle_seconds": 0}
        yield await stack.enter_async_context(place(request.param, host, **settings))


@pytest.mark.timeout(300)
async def test_the_shop_is_arranged_cloned_changed_rolled_back_put_to_sleep_exported_and_rebuilt(
    there: Place,
) -> None:
    clock = TurnedClock()
    repository = Repository(there.beside / "shop").put(FILES)
    repository.commit("A shop")
    async with there.windlass(clock=clock) as windlass:
        organization = (await windlass.call("GET", "/organization"))["id"]
        project = await windlass.call("POST", f"/organization/{organization}/project", {"name": "shop"})
        made = await windlass.call("POST", f"/project/{project['id']}/environment", {"name": "production"})
        shop = Shop(windlass, made["id"])
        await shop.open(repository.url)
        first = await shop.deploy()
        assert await shop.page() == GOODS.format(1, "${a}")
        before = await shop.picture()

        clone = await windlass.call("POST", f"{shop.path}/clone", {"name": "staging"})
        assert await Shop(windlass, clone["id"]).picture() == before

        await change(shop)
        await shop.deploy()
        assert await shop.page() == GOODS.format("none", "another")
        assert await shop.picture() != before
        await shop.deploy("rollback", deployment_id=first)
        assert await shop.page() == GOODS.format(1, "${a}")
        assert await shop.picture() == before

        again = Shop(windlass, await rebuilt(windlass, await archive(windlass, shop.path)))
        assert await again.picture() == before
        await again.deploy()
        assert await again.page() == GOODS.format(1, "${a}")
        assert await shop.page() == GOODS.format(1, "${a}")

        await shop.sleep(clock)
        assert await shop.page() == GOODS.format(1, "${a}")
        await until(shop.is_awake)


async def change(shop: Shop) -> None:
    """Changes variables of both levels, and the settings of the application."""
    web = f"/application/{await shop.web()}"
    await shop.call("PATCH", web, {"cpu": 300, "arguments": ["python3", "app.py"]})
    for level in (web, shop.path):
        for variable in (await shop.call("GET", f"{level}/environmentVariable"))["results"]:
            path = f"{level}/environmentVariable/{variable['id']}"
            if variable["key"] == "SCHEMA":
                await shop.call("DELETE", path)
            elif variable["key"] == "BUCKET" and level == shop.path:
                await shop.call("PUT", path, {"key": "BUCKET", "value": "another"})


async def archive(windlass: Windlass, path: str) -> Configuration:
    return Configuration(await windlass.file(f"{path}/terraformExport"))


async def rebuilt(windlass: Windlass, configuration: Configuration) -> str:
    (project,) = configuration.of_type("qovery_project").values()
    project["name"] = "shop again"

    async def send(method: str, path: str, body: Any) -> Any:
        return await windlass.call(method, f"/compat{path}", body)

    provider = Provider(send, configuration, dict.fromkeys(configuration.secrets, "of the till"))
    await provider.apply()
    return provider.id("qovery_environment", "production")
