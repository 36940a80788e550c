"""Servers that own the services of one engine start containers one after the other.

While a server examines a container, the engine mounts its volumes on its machine. If another server started
the container meanwhile, its program could lead a volume to a folder of the machine.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from tests.docker.watched import FOREVER, Watched, again, nothing_left, until, wanted
from tests.engines.dockers import BOX, build
from windlass.docker import containers, mount_points, names, start_locks, volume_files
from windlass.docker.client import Docker
from windlass.docker.start_locks import StartLocks
from windlass.engines.workload import Artifact, Volume

pytestmark = pytest.mark.slow

SHARED = Volume(name="a", mount="/a")


@pytest.fixture
async def servers(host, make_engine) -> AsyncIterator[tuple[Watched, Watched]]:
    """Two servers without a folder in common."""
    installation = f"test-{uuid.uuid4()}"
    first, second = make_engine(host, installation), make_engine(host, installation)
    await first.begin()
    await second.begin()
    yield first, second
    await nothing_left(first)


@pytest.fixture
async def with_volume(raw: Docker) -> AsyncIterator[Artifact]:
    """An image with a volume of its own."""
    ref = f"windlass-test/volume-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": f"FROM {BOX}\nRUN mkdir -p /b/inner\nVOLUME /b/inner\n"})
    yield Artifact(kind="image", ref=ref)
    await raw.raw("DELETE", f"/images/{ref}", params={"force": True})


class Examined:
    """How often containers were examined, and which programs of their service ran meanwhile."""

    def __init__(self) -> None:
        self.times = 0
        self.beside: list[str] = []


@contextmanager
def slow_examinations(monkeypatch: pytest.MonkeyPatch, raw: Docker) -> Iterator[Examined]:
    """Gives other servers the time to start something during an examination."""
    found, examine = Examined(), mount_points.examine_mount_points

    async def slow(docker: Docker, container: str, *more: Any) -> None:
        found.times = number = found.times + 1
        await examine(docker, container, *more)
        await asyncio.sleep(2.5 if number % 2 else 1)  # two servers are not equally fast
        service = (await raw.json("GET", f"/containers/{container}/json"))["Config"]["Labels"]
        wanted = {"label": [f"windlass.service={service['windlass.service']}"], "status": ["running"]}
        running = await raw.json("GET", "/containers/json", params={"filters": wanted})
        found.beside += [each["Id"] for each in running]

    with monkeypatch.context() as patch:
        patch.setattr(containers, "examine_mount_points", slow)
        yield found


@pytest.fixture(params=["own", "shared"])
def kind(request, with_volume) -> dict[str, Any]:
    """Containers with a volume of their own, or of their service."""
    return {"artifact": with_volume} if request.param == "own" else {"volumes": (SHARED,)}


async def restarted_by_both(servers: tuple[Watched, Watched], raw: Docker, kind: dict[str, Any]) -> None:
    """A container ends, and both servers start it again."""
    first, second = servers
    it = wanted(f"echo begun; if [ -e /ended ]; then {FOREVER}; fi; touch /ended; sleep 3", **kind)
    await first.engine.run(it, 0)
    await until(lambda: all(each.said().count("begun") == 2 for each in (first, second)))
    await asyncio.sleep(3)  # the slower server may still look at the container


async def test_a_container_is_not_examined_while_another_server_starts_it(servers, raw, kind, monkeypatch):
    with slow_examinations(monkeypatch, raw) as examined:
        await restarted_by_both(servers, raw, kind)
    assert examined.times >= 2
    assert examined.beside == []


async def test_without_the_lock_a_container_runs_while_it_is_examined(servers, raw, kind, monkeypatch):
    monkeypatch.setattr(StartLocks, "of", lambda *_: nullcontext())
    with slow_examinations(monkeypatch, raw) as examined:
        await restarted_by_both(servers, raw, kind)
    assert examined.beside


async def prepared_alone(servers: tuple[Watched, Watched], monkeypatch: pytest.MonkeyPatch) -> int:
    """Two servers start containers of one service at the same time. Returns how many of them copied files of
    the image into the volumes."""
    prepare, alone = volume_files.prepare_volumes, list[bool]()

    async def slow(*given: Any, is_alone: bool) -> None:
        alone.append(is_alone)
        await asyncio.sleep(1.5)
        await prepare(*given, is_alone=is_alone)

    monkeypatch.setattr(containers, "prepare_volumes", slow)
    it = wanted(volumes=(SHARED,))
    runs = [each.engine.run(again(it), index) for index, each in enumerate(servers)]
    await asyncio.gather(*runs, return_exceptions=True)
    return sum(alone)


async def test_one_server_copies_files_of_an_image_into_the_volumes_of_a_service(servers, monkeypatch):
    assert await prepared_alone(servers, monkeypatch) == 1


async def test_without_the_lock_two_servers_would_copy_files(servers, monkeypatch):
    monkeypatch.setattr(StartLocks, "of", lambda *_: nullcontext())
    assert await prepared_alone(servers, monkeypatch) == 2


async def test_a_lock_of_a_server_that_was_killed_is_taken(host, make_engine, monkeypatch, raw, tmp_path):
    monkeypatch.setattr(start_locks, "STALE_SECONDS", 0.5)
    installation = f"test-{uuid.uuid4()}"
    killed = StartLocks(raw, installation, tmp_path / "killed")
    assert await killed._holder_of(names.start_lock(installation, "service")) == killed._server
    async with asyncio.timeout(60), StartLocks(raw, installation, tmp_path / "other").of("service"):
        pass


async def test_a_start_keeps_its_lock_after_an_earlier_one_was_cancelled(raw, tmp_path, monkeypatch):
    """The earlier one releases the lock late."""
    installation, go_on = f"test-{uuid.uuid4()}", asyncio.Event()
    locks = StartLocks(raw, installation, tmp_path)
    release = locks._release

    async def release_late(*given: Any) -> None:
        await go_on.wait()
        await release(*given)

    async def start(held: asyncio.Event, leave: asyncio.Event) -> None:
        async with locks.of("service"):
            held.set()
            await leave.wait()

    monkeypatch.setattr(locks, "_release", release_late)
    first_held, second_held, leave = asyncio.Event(), asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(start(first_held, leave))
    await first_held.wait()
    first.cancel()
    await until(lambda: locks._releases)
    first.cancel()
    second = asyncio.create_task(start(second_held, leave))
    await asyncio.wait([asyncio.create_task(second_held.wait())], timeout=1)
    [late] = locks._releases.values()
    go_on.set()
    await late
    await second_held.wait()
    other = StartLocks(raw, installation, tmp_path / "other")
    assert await other._holder_of(names.start_lock(installation, "service")) == locks._server
    leave.set()
    await second
    await asyncio.gather(locks.close(), other.close())


async def test_a_lock_that_its_holder_renews_is_kept(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(start_locks, "STALE_SECONDS", 2.0)
    monkeypatch.setattr(start_locks, "RENEWAL_INTERVAL", 0.3)
    installation = f"test-{uuid.uuid4()}"
    one, other = (StartLocks(raw, installation, tmp_path / name) for name in ("one", "other"))
    order = list[str]()

    async def wait() -> None:
        async with other.of("service"):
            order.append("other")

    async with one.of("service"):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(5)
        order.append("one")
    await waiting
    assert order == ["one", "other"]
