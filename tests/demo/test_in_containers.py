"""The demonstration where there is a Docker engine: with the images that everybody takes."""

from __future__ import annotations

import pytest

from tests.engines.dockers import docker_host
from tests.engines.standins import official_images
from tests.whole import page, place


@pytest.fixture(scope="module")
def host():
    return docker_host()


@pytest.mark.nightly  # test_first_minute.py: on the other engine
async def test_the_demo_runs_in_containers_survives_a_restart_and_is_removed_completely(host):
    async with official_images(host, "postgres:16", "python:3-slim"), place("docker", host) as there:
        async with there.windlass() as windlass:
            address = (await windlass.say("demo")).json["url"]
            assert 'class="count">1<' in (await page(address)).text
            assert 'class="count">2<' in (await page(address)).text
            again = await windlass.say("demo")
            assert again.json["url"] == address
            assert again.err.splitlines() == ["db: runs already", "guestbook: runs already"]
            running = await there.machine.running()
            assert len(running) == 2
        assert await there.machine.running() == running
        async with there.windlass() as windlass:
            again = await windlass.say("demo")
            assert again.err.splitlines() == ["db: runs already", "guestbook: runs already"]
            assert 'class="count">3<' in (await page(again.json["url"])).text
            assert await there.machine.running() == running
            await windlass.say("demo", "--remove")
            await there.is_empty()
