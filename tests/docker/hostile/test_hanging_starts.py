"""A program that hinders the next start of its own container hinders nobody else.

At each start of a container, the engine reads its `/etc/passwd` and `/etc/group`. A program can replace them.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import windlass.docker.engine
from tests.docker.watched import FOREVER, SECONDS, nothing_left, until, wanted
from tests.engines.dockers import BOX, build, own_engine
from tests.marks import nightly
from windlass.docker import containers, create, start_files
from windlass.docker.client import Docker
from windlass.docker.execute import TIMED_OUT
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.workload import Artifact, Phase, Volume, Workload

pytestmark = pytest.mark.slow

FIFO = "mkdir -p /etc; rm -rf /etc/group; mkfifo /etc/group; "
ONCE = "[ ! -e /volume/done ] || exec sleep 1000; touch /volume/done; "
ENDS = "sleep 1; exit 1"
VOLUME = (Volume(name="v", mount="/volume"),)


@pytest.fixture(scope="module")
def dockerd():
    with own_engine() as made:
        yield made


@pytest.fixture(scope="module")
def host(dockerd):
    return dockerd.host


@pytest.fixture
def unexamined(monkeypatch):
    async def nothing(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(start_files, "examine", nothing)


async def container_of(raw: Docker, service: str) -> str:
    filters = {"label": [f"windlass.service={service}"]}
    async with asyncio.timeout(SECONDS):
        while True:
            found = await raw.json("GET", "/containers/json", params={"filters": filters, "all": True})
            if found:
                return str(found[0]["Id"])
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "script",
    [
        FIFO,
        "rm -rf /etc/group; mkfifo /pipe; ln -s ../pipe /etc/group; ",
        *nightly(
            "rm -rf /etc/group; mkdir -p /etc/group; ",
            "rm -rf /etc/group; ln -s group /etc/group; ",
            "rm -rf /etc/passwd; truncate -s 2M /etc/passwd; ",
            "mkdir /other; mkfifo /other/group; rm -rf /etc/group; ln -s /other/group /etc/group; ",
        ),
    ],
)
async def test_a_container_with_a_fifo_as_passwd_is_recreated_and_not_restarted(watched, raw, script):
    it = wanted("mkdir -p /etc; " + ONCE + script + ENDS, volumes=VOLUME)
    first = await watched.engine.run(it, 0)
    before = (await raw.json("GET", f"/containers/{first.id}/json"))["Id"]
    await until(lambda: watched.noticed.count(it.service) >= 2)
    async with asyncio.timeout(SECONDS):
        while (await watched.engine.run(it, 0)).phase is not Phase.RUNNING:  # noqa: ASYNC110 (asked again)
            await asyncio.sleep(0.1)
    assert await container_of(raw, it.service) != before


@pytest.mark.nightly
async def test_without_the_file_check_a_start_hangs_and_lists_still_show_other_instances(
    watched, raw, unexamined, monkeypatch
):
    engine, hostile = watched.engine, wanted(FIFO + ENDS)
    await engine.run(wanted(), 0)
    await engine.run(hostile, 0)
    async with released(raw, await container_of(raw, hostile.service), watched):
        await until_it_hangs(raw, await container_of(raw, hostile.service))
        async with asyncio.timeout(20):
            found = {each.service == hostile.service: each for each in await engine.all()}
        assert found[False].phase is Phase.RUNNING
        assert found[True].phase is Phase.WAITING
        assert "its start or its end hangs" in found[True].reason
        monkeypatch.setattr(windlass.docker.engine, "INSPECT_TIMEOUT", 100.0)
        monkeypatch.setattr(windlass.docker.engine, "REQUERY_SECONDS", 0.0)
        engine._held.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await engine.all()


async def test_a_restarting_engine_does_not_wait_for_a_fifo_of_a_container(dockerd, watched):
    await stop_with_a_fifo(dockerd, watched)
    await asyncio.to_thread(dockerd.start)


async def with_hanging_commands(watched) -> Workload:
    """Returns a service in whose container the starts of commands hang."""
    hostile = wanted("rm -f /etc/passwd; mkfifo /etc/passwd; echo made; " + FOREVER)
    instance = await watched.engine.run(hostile, 0)
    await until(lambda: "made" in watched.said())
    code, _ = await watched.engine.execute(instance, ("true",), 1.0)
    assert code == TIMED_OUT
    with pytest.raises(EngineError, match="the starts of others hang"):
        await watched.engine.execute(instance, ("true",), 1.0)
    return hostile


@pytest.mark.nightly
async def test_commands_whose_starts_hang_hide_no_other_instance_and_their_container_is_ended(
    watched, monkeypatch
):
    monkeypatch.setattr(containers, "STOP_TIMEOUT", 2.0)
    other = wanted()
    await watched.engine.run(other, 0)
    hostile = await with_hanging_commands(watched)
    async with asyncio.timeout(20):
        found = {each.service: each for each in await watched.engine.all()}
        measured = await watched.engine.usage()
    assert found[other.service].phase is Phase.RUNNING
    assert found[hostile.service].phase is Phase.WAITING
    assert found[other.service].id in measured
    await watched.engine.end(hostile.service, grace=0)
    assert not await watched.engine.copies(hostile.service)


WITH_USER = (
    f"FROM {BOX}\nRUN chmod 777 /etc && touch /etc/group && chmod 666 /etc/passwd /etc/group\nUSER shop\n"
)
REPLACES = "rm -f /etc/passwd; mkfifo /etc/passwd; echo made; " + FOREVER


async def stuck_threads(dockerd, watched, raw) -> int:
    """Returns the number of threads of the engine that commands in a container with a user take for good."""
    ref = f"windlass-test/user-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": WITH_USER})
    it = wanted(REPLACES, artifact=Artifact(kind="image", ref=ref))
    instance = await watched.engine.run(it, 0)
    await until(lambda: "made" in watched.said())
    before = threads_of(dockerd)
    with suppress(EngineError):
        await asyncio.gather(*(watched.engine.execute(instance, ("true",), 1.0) for _ in range(7)))
    await watched.engine.end(it.service, grace=0)
    await asyncio.sleep(0.5)
    return threads_of(dockerd) - before


def threads_of(dockerd) -> int:
    return len(os.listdir(f"/proc/{(dockerd.data.parent / 'pid').read_text()}/task"))  # noqa: PTH208


@pytest.mark.parametrize("is_copied", [True, *nightly(False)])
async def test_the_engine_reads_no_passwd_of_a_program_for_a_command(
    dockerd, watched, raw, monkeypatch, is_copied
):
    monkeypatch.setattr(containers, "STOP_TIMEOUT", 2.0)
    if not is_copied:
        monkeypatch.setattr(create, "needs_etc_copy", lambda *_: False)
    assert (await stuck_threads(dockerd, watched, raw) < 7) is is_copied


async def test_a_program_with_a_user_may_change_its_etc_and_keeps_it_over_restarts(watched, raw):
    ref = f"windlass-test/user-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": WITH_USER})
    script = "id -un; cat /etc/mine; echo kept > /etc/mine; sleep 1; exit 1"
    it = wanted(script, artifact=Artifact(kind="image", ref=ref))
    await watched.engine.run(it, 0)
    await until(lambda: "kept" in watched.said())
    assert "shop" in watched.said()  # errors may come first: they are another stream
    await watched.engine.remove(it.service, grace=0)
    assert (await raw.json("GET", "/volumes"))["Volumes"] in (None, [])


@pytest.mark.nightly
async def test_without_time_limits_a_hanging_command_hides_all_instances(watched, monkeypatch):
    monkeypatch.setattr(containers, "STOP_TIMEOUT", 2.0)
    hostile = await with_hanging_commands(watched)
    monkeypatch.setattr(windlass.docker.engine, "INSPECT_TIMEOUT", 100.0)
    monkeypatch.setattr(windlass.docker.engine, "FIRST_INSPECT_TIMEOUT", 100.0)
    for act in (watched.engine.all, watched.engine.usage):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await act()
    monkeypatch.setattr(containers, "kill_processes", lambda container: 0)
    with pytest.raises(EngineUnavailable):
        await watched.engine.end(hostile.service, grace=0)
    monkeypatch.undo()
    await watched.engine.end(hostile.service, grace=0)


@pytest.mark.nightly
async def test_with_a_restart_policy_a_fifo_in_a_container_hangs_the_start_of_docker(
    dockerd, watched, raw, monkeypatch
):
    made = create.container

    def restarted_by_the_engine(*given: Any, **more: Any) -> dict[str, Any]:
        body = made(*given, **more)
        body["HostConfig"]["RestartPolicy"] = {"Name": "unless-stopped"}
        return body

    monkeypatch.setattr(create, "container", restarted_by_the_engine)
    await stop_with_a_fifo(dockerd, watched)
    starting = asyncio.create_task(asyncio.to_thread(dockerd.start))
    done, _ = await asyncio.wait([starting], timeout=10)
    folders = [*Path(dockerd.data, "overlay2").glob("*/merged"), *Path(dockerd.data, "vfs/dir").glob("*")]
    while not starting.done():
        for folder in folders:
            open_as_writer(folder)
        await asyncio.sleep(0.1)
    await starting
    assert not done


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("RUN mkdir -p /etc && rm -rf /etc/group && mknod /etc/group c 1 11", "Make /etc/group of the image"),
        ("VOLUME /etc", "Mount the volume elsewhere"),
    ],
)
async def test_an_image_with_a_fifo_or_huge_file_as_passwd_is_refused(watched, raw, steps, message):
    ref = f"windlass-test/hostile-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": f"FROM {BOX}\nRUN mkdir -p /etc\n{steps}\n"})
    it = wanted(artifact=Artifact(kind="image", ref=ref))
    with pytest.raises(EngineError, match=message):
        await watched.engine.run(it, 0)
    assert not await watched.engine.copies(it.service)
    await raw.raw("DELETE", f"/images/{ref}", params={"force": True})


async def test_links_within_an_image_are_followed(watched, raw):
    steps = "RUN mkdir -p /etc /store && touch /store/group && rm -rf /etc/group && ln -s /store/group /etc/"
    ref = f"windlass-test/linked-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": f"FROM {BOX}\n{steps}\n"})
    assert (
        await watched.engine.run(wanted(artifact=Artifact(kind="image", ref=ref)), 0)
    ).phase is Phase.RUNNING


async def stop_with_a_fifo(dockerd, watched):
    it = wanted(FIFO + "echo made; " + FOREVER)
    await watched.engine.run(it, 0)
    await until(lambda: "made" in watched.said())
    await asyncio.to_thread(dockerd.shut_down)


async def until_it_hangs(raw: Docker, container: str) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                async with asyncio.timeout(1):
                    await raw.json("GET", f"/containers/{container}/json")
            except TimeoutError:
                return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def released(raw, container, watched) -> AsyncIterator[None]:
    """A writer that comes and goes lets the engine read on at the end."""
    files = Path((await raw.json("GET", f"/containers/{container}/json"))["GraphDriver"]["Data"]["MergedDir"])
    try:
        yield
    finally:
        leaving = asyncio.create_task(nothing_left(watched))
        while not leaving.done():
            open_as_writer(files)
            await asyncio.sleep(0.1)
        await leaving


def open_as_writer(files: Path) -> None:
    with suppress(OSError):
        os.close(os.open(files / "etc/group", os.O_WRONLY | os.O_NONBLOCK))
