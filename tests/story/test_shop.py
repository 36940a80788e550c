"""The story of the shop in the manual is true on both engines: its own commands, with real programs."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.commands.manual import DOCS, program
from tests.engines.dockers import docker_host
from tests.engines.standins import official_images
from tests.free_ports import free_port
from tests.marks import nightly, slow
from tests.repositories import Repository
from tests.story.shop import FILES
from tests.terraform_services.images import program_image
from tests.terraform_services.modules import ENGINE, needs_program
from tests.whole import Place, Windlass, page, place, until
from tests.world import ADMIN

PAGE = (DOCS / "shop.md").read_text()
REPOSITORY = "https://git.example.com/acme/shop.git"
KEY_OF_JOB, KEY_OF_MODULE = "Z5E2F90C1", "Z0872FF4A"
IMAGES = ("postgres:16", "python:3-slim", "busybox:1.36")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Reader:
    """A person who types the commands of the page, section by section."""

    def __init__(self, windlass: Windlass, repository: Repository, folder: Path) -> None:
        self.windlass = windlass
        self._folder = folder
        self._replaced = {
            REPOSITORY: repository.url,
            "--engine TERRAFORM": f"--engine {ENGINE or 'TERRAFORM'}",
        }
        program(folder / "windlass", f'exec "{sys.executable}" -m windlass "$@"')

    async def types(self, section: int, commands: slice = slice(None)) -> str:
        """Types some commands of a section, all of which succeed. Returns their output."""
        ended = await self.tries(section, commands)
        assert ended.code == 0, ended
        return ended.out

    async def tries(self, section: int, commands: slice = slice(None)) -> Ended:
        script = "\n".join([*blocks(0), *blocks(section)[commands]])
        for text, real in self._replaced.items():
            script = script.replace(text, real)
        return await asyncio.to_thread(self._run, script)

    def learns(self, key: str, id: str) -> None:
        self._replaced[key] = f"Z{id[:8].upper()}"

    def _run(self, script: str) -> Ended:
        environment = {
            "PATH": f"{self._folder}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(self._folder / "cache"),
            "XDG_CONFIG_HOME": str(self._folder / "config"),
            "WINDLASS_URL": self.windlass.url,
            "WINDLASS_TOKEN": ADMIN,
        }
        words = ["bash", "-euo", "pipefail", "-c", script]
        ended = subprocess.run(words, cwd=self._folder, env=environment, capture_output=True, text=True)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    async def results(self, path: str) -> list[Any]:
        return list((await self.windlass.call("GET", path))["results"])


def blocks(section: int) -> Sequence[str]:
    """The blocks of shell of a section; section 0 is the beginning of the page."""
    text = re.split(r"^## ", PAGE, flags=re.MULTILINE)[section]
    return re.findall(r"^```sh\n(.+?)^```", text, re.MULTILINE | re.DOTALL)


def engine_of(section: int) -> str:
    """The engine that the heading of a section names; empty if it is for both."""
    title = re.split(r"^## ", PAGE, flags=re.MULTILINE)[section].splitlines()[0]
    named = re.search(r"\((\w+) engine\)$", title)
    return named[1].lower() if named else ""


@pytest.fixture(params=[*slow("docker"), *nightly("process")])
async def there(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    is_docker = request.param == "docker"
    async with AsyncExitStack() as stack:
        host = docker_host() if is_docker else ""
        if is_docker:
            await stack.enter_async_context(official_images(host, *IMAGES))
        settings: dict[str, Any] = {
            "port": free_port(),
            "git_allow_local": True,
            "stop_seconds": 1,
            "settle_seconds": 0,
        }
        needs_program()
        if is_docker:
            image = program_image(host)
            settings |= {"host": "0.0.0.0", "terraform_image": image, "opentofu_image": image}
        yield await stack.enter_async_context(place(request.param, host, **settings))


@pytest.mark.slow  # tests/commands/test_commands_of_the_manual.py: the commands and their options exist
@pytest.mark.timeout(300)
async def test_every_step_of_the_shop_tutorial_works_on_both_engines(there: Place, tmp_path: Path) -> None:
    repository = Repository(there.beside / "shop").put(FILES)
    repository.commit("A shop")
    async with there.windlass() as windlass:
        reader = Reader(windlass, repository, tmp_path)
        await reader.types(1)
        await reader.types(2, slice(1))
        job = await id_of(reader, "job", "migration")
        reader.learns(KEY_OF_JOB, job)
        await reader.types(2, slice(1, None))
        bucket = await bucket_of_terraform(reader)
        await reader.types(4)

        await reader.types(5)
        assert await shown(reader, "application") == f"rope, soap (tables 1, pictures in {bucket})"
        await CONTAINERS[there.settings.engine](reader)

        log = await reader.types(7)
        assert "2 sorts of goods" in log
        runs = await reader.results(f"/job/{await id_of(reader, 'job', 'nightly')}/run")
        # Another one is due if this test runs in the night.
        assert [(run["status"], run["exit_code"]) for run in runs if run["cause"] == "FORCED"] == [
            ("SUCCEEDED", 0)
        ]
        (first,) = await reader.results(f"/job/{job}/run")
        assert (first["cause"], first["output_variables"]) == (
            "EVENT",
            [f"WINDLASS_JOB_Z{job[:8].upper()}_SCHEMA"],
        )

        await reader.types(8)
        await there.is_empty()
        await until(lambda: is_gone(reader))


async def bucket_of_terraform(reader: Reader) -> str:
    await reader.types(3, slice(1))
    service = await id_of(reader, "terraform", "bucket")
    plans = await reader.results(f"/terraform/{service}/plan")
    assert [plan["added"] for plan in plans] == [1]
    reader.learns(KEY_OF_MODULE, service)
    await reader.types(3, slice(1, None))
    ((resource),) = await reader.results(f"/terraform/{service}/terraformResources")
    suffix = str(resource["attributes"]["output"])
    assert re.fullmatch("[0-9a-f]{8}", suffix)
    return f"shop-{suffix}"


async def container_with_notice(reader: Reader) -> None:
    await reader.types(6)
    assert await shown(reader, "container") == "Closed on Sundays"


async def no_container(reader: Reader) -> None:
    refused = await reader.tries(6)
    assert refused.code == 1
    assert "the cluster of this environment runs no images" in refused.err


CONTAINERS = {"process": no_container, "docker": container_with_notice}


async def environment(reader: Reader) -> str:
    organization = (await reader.windlass.call("GET", "/organization"))["id"]
    (project,) = await reader.results(f"/organization/{organization}/project")
    (found,) = await reader.results(f"/project/{project['id']}/environment")
    return str(found["id"])


async def id_of(reader: Reader, family: str, name: str) -> str:
    services = await reader.results(f"/environment/{await environment(reader)}/{family}")
    return str(next(service["id"] for service in services if service["name"] == name))


async def shown(reader: Reader, family: str) -> str:
    """The page of the only service of a family."""
    (service,) = await reader.results(f"/environment/{await environment(reader)}/{family}")
    (link,) = await reader.results(f"/{family}/{service['id']}/link")
    answer = await page(link["url"])
    assert answer.status == 200, answer
    return answer.text.strip()


async def is_gone(reader: Reader) -> bool:
    organization = (await reader.windlass.call("GET", "/organization"))["id"]
    return not await reader.results(f"/organization/{organization}/project")


def test_the_shop_page_marks_steps_that_require_the_docker_engine() -> None:
    assert {n: engine_of(n) for n in range(1, 9) if engine_of(n)} == {6: "docker"}
    assert REPOSITORY in PAGE
    assert KEY_OF_JOB in PAGE
    assert KEY_OF_MODULE in PAGE
