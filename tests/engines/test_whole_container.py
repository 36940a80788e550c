"""The life of a container on a whole Windlass with a Docker engine, from an image that is there already."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.dockers import BOX, build, docker_host
from tests.whole import Visitors, Windlass, page, place, until
from windlass.docker.client import Docker

pytestmark = pytest.mark.slow

IMAGE = "windlass-test/page"
DOCKERFILE = f"""
FROM {BOX}
RUN mkdir /www && echo {{release}} > /www/index.html
CMD ["httpd", "-f", "-p", "8080", "-h", "/www"]
"""


@pytest.fixture
async def there():
    host = docker_host()
    docker = Docker(host)
    for release in ("1.0", "2.0"):
        await build(docker, f"{IMAGE}:{release}", {"Dockerfile": DOCKERFILE.format(release=release)})
    await docker.close()
    async with place("docker", host) as made:
        yield made


class Page:
    """A container that serves the number of its release."""

    def __init__(self, windlass: Windlass) -> None:
        self.windlass = windlass
        self.path = ""

    async def make(self, **fields: Any) -> None:
        org = (await self.windlass.call("GET", "/organization"))["id"]
        project = await self._made(f"/organization/{org}/project", name="acme")
        environment = await self._made(f"/project/{project}/environment", name="production")
        port = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
        body = {"name": "page", "image_name": IMAGE, "tag": "1.0", "ports": [port], "memory": 64} | fields
        made = await self._made(f"/environment/{environment}/container", **body)
        self.path = f"/container/{made}"

    async def do(self, action: str, **body: Any) -> Any:
        """The deployment, when it has ended."""
        begun = await self.windlass.call("POST", f"{self.path}/{action}", body)
        at = f"{self.path}/deployment/{begun['id']}"

        async def ended() -> bool:
            return (await self.windlass.call("GET", at))["finished_at"] is not None

        await until(ended)
        return await self.windlass.call("GET", at)

    async def text(self) -> str:
        links = (await self.windlass.call("GET", f"{self.path}/link"))["results"]
        return (await page(links[0]["url"])).text.strip()

    async def url(self) -> str:
        return str((await self.windlass.call("GET", f"{self.path}/link"))["results"][0]["url"])

    async def _made(self, path: str, **body: Any) -> str:
        return str((await self.windlass.call("POST", path, body))["id"])


async def test_a_container_is_deployed_updated_rolled_back_and_deleted_without_a_request_that_fails(there):
    async with there.windlass() as windlass:
        one = Page(windlass)
        await one.make()
        assert (await one.do("deploy"))["status"] == "SUCCEEDED"
        async with Visitors(await one.url()) as visitors:
            assert await one.text() == "1.0"
            assert (await one.do("deploy", image_tag="2.0"))["status"] == "SUCCEEDED"
            assert await one.text() == "2.0"
            assert (await one.do("rollback"))["status"] == "SUCCEEDED"
            assert await one.text() == "1.0"
        assert {seen.status for seen in visitors.pages} == {200}
        assert (await one.do("stop"))["status"] == "SUCCEEDED"
        await windlass.call("DELETE", one.path)
        await there.is_empty()


async def test_a_failed_image_pull_leaves_the_serving_instance_running(there):
    """Even where the old instance would have to end first, because of its storage."""
    async with there.windlass() as windlass:
        one = Page(windlass)
        await one.make(storage=[{"size": 1, "mount_point": "/data"}])
        await one.do("deploy")
        async with Visitors(await one.url()) as visitors:
            ended = await one.do("deploy", image_tag="not-there")
            assert ended["status"] == "FAILED"
            assert f"{IMAGE}:not-there" in ended["message"]
            assert await one.text() == "1.0"
        assert {seen.status for seen in visitors.pages} == {200}


async def test_entrypoint_and_arguments_of_a_container_replace_those_of_its_image(there):
    async with there.windlass() as windlass:
        one = Page(windlass)
        script = "echo mine > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
        await one.make(entrypoint="sh -c", arguments=[script])
        assert (await one.do("deploy"))["status"] == "SUCCEEDED"
        assert await one.text() == "mine"
