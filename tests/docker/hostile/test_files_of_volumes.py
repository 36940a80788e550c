"""A program that changes a volume while the engine prepares another container with it reaches nothing else.

The engine copies files of the image into an empty volume, and follows the links that it meets there.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker.watched import FOREVER, again, nothing_left, seen, until, wanted
from tests.engines.dockers import BOX, build, own_engine
from windlass.docker import containers, names, volume_files
from windlass.docker.client import Docker, EngineRefused
from windlass.engines.engine import EngineError
from windlass.engines.workload import Artifact, Volume, Workload

pytestmark = pytest.mark.slow

A, B = Volume(name="a", mount="/a"), Volume(name="b", mount="/b/inner")


@pytest.fixture(scope="module")
def host():
    with own_engine() as made:
        yield made.host


@pytest.fixture
async def watched(host, make_engine):
    made = make_engine(host)
    await made.begin()
    yield made
    await nothing_left(made)


@pytest.fixture
async def filled(raw: Docker) -> AsyncIterator[str]:
    """An image with files at the mount point, the first of which takes time to copy."""
    ref = f"windlass-test/filled-{uuid.uuid4()}:1"
    steps = (
        "mkdir -p /a/z /b && dd if=/dev/zero of=/a/0 bs=1048576 count=100 && echo written > /a/z/file "
        "&& chown 1000 /a && ln -s /a/z /link"
    )
    await build(raw, ref, {"Dockerfile": f"FROM {BOX}\nRUN {steps}\n"})
    yield ref
    await raw.raw("DELETE", f"/images/{ref}", params={"force": True})


def swapping(target: Path) -> str:
    """A program that empties its volume, and links `z` to a folder of the machine once the engine copies."""
    return f"rm -rf /a/*; echo empty; while [ ! -e /a/0 ]; do :; done; ln -s {target} /a/z; {FOREVER}"


def of_image(ref: str, script: str, **more: Any) -> Workload:
    return wanted(script, artifact=Artifact(kind="image", ref=ref), volumes=(A,), **more)


async def test_files_of_an_image_are_not_copied_through_links_of_a_running_program(watched, filled, tmp_path):
    it = of_image(filled, swapping(tmp_path))
    await watched.engine.run(it, 0)
    await until(lambda: "empty" in watched.said())
    await watched.engine.run(again(it, command=("sh", "-c", f"ls /a; {FOREVER}")), 1)
    assert [*tmp_path.glob("file")] == []


async def test_if_the_engine_copied_beside_another_container_it_would_follow_the_links(
    watched, filled, tmp_path, monkeypatch
):
    prepare = volume_files.prepare_volumes

    async def always_fill(*given: Any, is_alone: bool) -> None:
        await prepare(*given, is_alone=True)

    monkeypatch.setattr(containers, "prepare_volumes", always_fill)
    it = of_image(filled, swapping(tmp_path))
    await watched.engine.run(it, 0)
    await until(lambda: "empty" in watched.said())
    await watched.engine.run(it, 1)
    assert (tmp_path / "file").read_text() == "written\n"


async def test_the_first_container_has_the_files_of_its_image_and_their_owner(watched, filled):
    await watched.engine.run(of_image(filled, "cat /a/z/file; stat -c %u /a; sleep 1000"), 0)
    await until(lambda: watched.said() == ["written", "1000"])


async def test_a_link_of_the_image_into_a_volume_is_refused_before_a_container_has_the_volume(
    watched, raw, filled
):
    it = of_image(filled, FOREVER)
    await watched.engine.run(it, 0)
    other = again(it, volumes=(A, Volume(name="c", mount="/link/c")))
    with pytest.raises(EngineError, match="/link/c lies in the volume at /a"):
        await watched.engine.run(other, 1)
    assert [copy.index for copy in await watched.engine.copies(it.service)] == [0]


async def test_a_container_left_by_an_earlier_attempt_is_replaced(watched, raw, filled):
    it = of_image(filled, FOREVER)
    name = names.volume_files(watched.installation, it.service)
    await raw.json(
        "POST", "/containers/create", params={"name": name}, body={"Image": filled, "Cmd": ["none"]}
    )
    await watched.engine.run(it, 0)
    with pytest.raises(EngineRefused, match="No such container"):
        await raw.json("GET", f"/containers/{name}/json")


async def test_nothing_starts_while_the_engine_still_copies_for_an_earlier_attempt(watched, raw, monkeypatch):
    async def refuse(*_: object) -> None:
        raise EngineRefused(409, "Conflict. The container name is already in use")  # and nobody has it yet

    monkeypatch.setattr(volume_files, "_create", refuse)
    it = wanted(FOREVER, volumes=(A,))
    with pytest.raises(EngineError, match="still copying"):
        await watched.engine.run(it, 0)
    assert await watched.engine.copies(it.service) == []


ENDS_ONCE = "[ -e /a/once ] && sleep 1000; touch /a/once; sleep 1; exit 1"


async def test_a_container_that_may_have_left_links_is_created_anew_beside_another_one(watched, raw):
    it = wanted(FOREVER, volumes=(A, B))
    path = f"/containers/{names.container(watched.installation, it.service, 1, 1)}/json"
    await watched.engine.run(it, 0)
    await watched.engine.run(again(it, command=("sh", "-c", ENDS_ONCE)), 1)
    before = (await raw.json("GET", path))["Id"]
    await seen(watched.engine, it.service, lambda copy: copy.restarts == 1)
    assert (await raw.json("GET", path))["Id"] != before
    assert it.service in watched.noticed


async def test_after_a_restart_of_windlass_the_reconciler_creates_it_anew(watched, raw):
    it = wanted(FOREVER, volumes=(A, B))
    ends = again(it, command=("sh", "-c", "sleep 8; " + ENDS_ONCE))  # after the new start
    await watched.engine.run(it, 0)
    await watched.engine.run(ends, 1)
    await watched.begin_anew()
    watched.noticed.clear()
    await until(lambda: watched.engine._restarts._left)
    await until(lambda: it.service in watched.noticed)
    await watched.engine.run(ends, 1)
    await seen(watched.engine, it.service, lambda copy: copy.restarts == 1)


async def test_a_container_alone_is_started_again(watched, raw):
    it = wanted(ENDS_ONCE, volumes=(A, B))
    path = f"/containers/{names.container(watched.installation, it.service, 1, 0)}/json"
    await watched.engine.run(it, 0)
    before = (await raw.json("GET", path))["Id"]
    await seen(watched.engine, it.service, lambda copy: copy.restarts == 1)
    assert (await raw.json("GET", path))["Id"] == before
