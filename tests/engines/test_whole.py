"""The life of an application on a whole Windlass, from the repository to the page that a browser gets."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.engines.dockers import PYTHON, docker_host, give_python
from tests.marks import nightly
from tests.repositories import Repository
from tests.whole import Page, Visitors, Windlass, page, place, until
from windlass.docker.client import Docker

pytestmark = pytest.mark.slow

DOCKERFILE = f"""
FROM {PYTHON}
WORKDIR /app
COPY . .
EXPOSE 8080
CMD ["python3", "app.py"]
"""
APP = """
import http.server, os, secrets, time

NAME = secrets.token_hex(4)

class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = f"{RELEASE} {NAME}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said):
        pass

time.sleep(0.5)  # as larger ones do before they listen
http.server.ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Page).serve_forever()
"""


@pytest.fixture(params=["process", *nightly("docker")])
async def there(request):
    host = docker_host() if request.param == "docker" else ""
    if host:
        docker = Docker(host)
        await give_python(docker)
        await docker.close()
    async with place(request.param, host, git_allow_local=True) as made:
        yield made


class Shop:
    """The contract's example of an application, with a repository to push to."""

    def __init__(self, windlass: Windlass, repository: Repository) -> None:
        self.windlass = windlass
        self._repository = repository
        self._path = ""

    async def make(self) -> None:
        org = (await self.windlass.call("GET", "/organization"))["id"]
        project = await self._made(f"/organization/{org}/project", name="acme")
        environment = await self._made(f"/project/{project}/environment", name="production")
        application = await self._made(
            f"/environment/{environment}/application",
            name="shop",
            git_repository={"url": self._repository.url, "branch": "main"},
            build_mode="DOCKER",
            dockerfile_path="Dockerfile",
            cpu=500,
            memory=512,
            min_running_instances=1,
            max_running_instances=2,
            ports=[
                {
                    "internal_port": 8080,
                    "external_port": 443,
                    "protocol": "HTTP",
                    "publicly_accessible": True,
                }
            ],
        )
        self._path = f"/application/{application}"

    def push(self, release: str) -> None:
        self._repository.put({"Dockerfile": DOCKERFILE, "app.py": f"RELEASE = {release!r}\n{APP}"}).commit()

    def break_down(self) -> None:
        self._repository.put({"app.py": "raise SystemExit(1)"}).commit()

    async def do(self, deed: str, state: str = "RUNNING") -> None:
        """It is done, and the state is then as it should be."""
        await self.windlass.call("POST", f"{self._path}/{deed}")

        async def over() -> bool:
            self.status = await self.windlass.call("GET", f"{self._path}/status")
            return self.status["state"] in {"RUNNING", "STOPPED", "ERROR"}

        await until(over)
        assert self.status["state"] == state, self.status

    async def edit(self, **fields: Any) -> None:
        await self.windlass.call("PATCH", self._path, fields)

    async def delete(self) -> None:
        await self.windlass.call("DELETE", self._path)

    async def url(self) -> str:
        (link,) = (await self.windlass.call("GET", f"{self._path}/link"))["results"]
        return str(link["url"])

    async def _made(self, path: str, **body: Any) -> str:
        return str((await self.windlass.call("POST", path, body))["id"])


async def test_an_application_lives_from_the_first_commit_to_its_end_without_a_request_that_fails(there):
    async with there.windlass() as windlass:
        shop = Shop(windlass, Repository(there.beside / "shop"))
        shop.push("first")
        await shop.make()
        await shop.do("deploy")
        url = await shop.url()
        async with Visitors(url) as visitors:
            assert release(await page(url)) == "first"
            shop.push("second")
            await shop.do("deploy")
            assert release(await page(url)) == "second"
            await shop.do("rollback")
            assert release(await page(url)) == "first"
            await shop.edit(min_running_instances=2)
            await shop.do("redeploy")
            before = [len(seen) for seen in visitors.seen]
            asked = [await page(url) for _ in range(20)]
            # With the visitors' requests: they take turns with these, so that one instance may get all 20.
            visited = [page for seen, n in zip(visitors.seen, before, strict=True) for page in seen[n:]]
            assert len({page.text for page in (*asked, *visited)}) == 2
        assert {page.status for page in visitors.pages} == {200}
        for seen in visitors.seen:
            assert changes(seen) == ["first", "second", "first"]
        await shop.do("stop", "STOPPED")
        assert (await page(url)).status == 503
    async with there.windlass() as shop.windlass:
        url = await shop.url()
        await until(partial(answers, url, 503))
        await shop.do("deploy")
        assert release(await page(url)) == "second"
        await shop.delete()
        await there.is_empty()
        await until(partial(answers, url, 404))


async def test_storage_is_added_and_removed_by_one_deployment_each(there):
    async with there.windlass() as windlass:
        shop = Shop(windlass, Repository(there.beside / "shop"))
        shop.push("first")
        await shop.make()
        await shop.do("deploy")
        await shop.edit(storage=[{"size": 1, "mount_point": "/app/data"}])
        await shop.do("deploy")
        url = await shop.url()
        assert release(await page(url)) == "first"
        await shop.edit(storage=[])
        shop.break_down()
        await shop.do("deploy", "ERROR")
        await until(partial(answers, url, 200))
        assert release(await page(url)) == "first"
        shop.push("second")
        await shop.do("deploy")
        assert release(await page(url)) == "second"


async def answers(url: str, status: int) -> bool:
    return (await page(url)).status == status


def release(page: Page) -> str:
    assert page.status == 200, page
    return page.text.split()[0]


def changes(seen: list[Page]) -> list[str]:
    """Releases, each as often as it took the place of another."""
    found = [release(page) for page in seen]
    return [one for one, before in zip(found, ["", *found], strict=False) if one != before]
