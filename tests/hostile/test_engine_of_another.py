"""A whole server whose second cluster has a hostile engine, which harms nothing else."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.engines.test_second_host import connected
from tests.faults.inside import Inside, inside, until
from tests.hostile.engines import ID, HostileEngine, event, hostile_engine, says, streams
from windlass.control.context.place import Place
from windlass.docker import names, position, watch
from windlass.docker.client import EngineRefused
from windlass.docker.client.answers import MAX_EVENT_BYTES
from windlass.docker.engine import DockerEngine
from windlass.engines.engine import EngineError

pytestmark = pytest.mark.slow

SERVICE = "00000000-0000-4000-8000-00000000000a"


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[tuple[Inside, HostileEngine]]:
    async with (
        hostile_engine(folder / "ca") as engine,
        inside(folder, outbound_allow=["127.0.0.1/32"]) as there,
    ):
        yield there, engine


async def place_of(there: Inside, engine: HostileEngine, name: str = "east") -> Place:
    made = await connected(there, name, engine.fields())
    assert made.status == 201, made
    return await there.ctx.places.at(made["id"])


def watch_of(place: Place) -> watch.EventWatcher:
    assert isinstance(place.engine, DockerEngine)
    return place.engine._watch


async def answered(engine: HostileEngine, end: str) -> None:
    async def asked() -> bool:
        return any(line.endswith(end) for line in engine.asked)

    await until(asked)


# Files


async def erased(folder: Path) -> bool:
    """Returns True if an engine that names a file as a container makes this server erase the file."""
    victim = folder / "victim"
    victim.write_text("ours")
    async with server(folder) as (there, engine):
        engine.answers["/events"] = streams(event(str(victim), "start", SERVICE), event(ID, "start", SERVICE))
        place = await place_of(there, engine)
        await answered(engine, f"{ID}/logs")
        for follower in [*watch_of(place)._followers.values()]:
            await asyncio.wait([follower._task])
    return not victim.exists()


async def test_an_engine_with_a_file_path_as_a_container_id_causes_no_file_deletion(tmp_path):
    assert await erased(tmp_path) is False


async def test_without_the_check_of_container_ids_the_file_would_be_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(position, "is_container_id", lambda id: True)
    monkeypatch.setattr(watch, "is_container_id", lambda id: True)
    assert await erased(tmp_path) is True


@pytest.mark.parametrize("id", ["../../windlass.db", "/etc/passwd", "..", ".", "", "a/b", "a" * 65, "a\n", 7])
def test_a_path_is_not_a_valid_container_id(tmp_path, id):
    assert not position.is_container_id(id)
    with pytest.raises((ValueError, TypeError)):
        position.Positions(tmp_path).forget(id)


# Memory, and files that are open


async def followed(folder: Path) -> int:
    """The containers whose output is read when an engine tells of twenty."""
    async with server(folder) as (there, engine):
        told = [event(f"{number:064x}", "start", SERVICE) for number in range(20)]
        engine.answers["/logs"] = streams()
        engine.answers["/events"] = streams(
            *told, event(ID, "oom", SERVICE), event("b" * 64, "start", SERVICE)
        )
        watched = watch_of(await place_of(there, engine))
        await answered(engine, "/logs")

        async def told_all() -> bool:
            return watched._since == "0.000000001" and len(watched._followers) >= 5

        await until(told_all)
        return len(watched._followers)


async def test_an_engine_that_reports_ever_more_containers_gets_a_bounded_number_of_connections(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(watch, "MAX_FOLLOWED_CONTAINERS", 5)
    assert await followed(tmp_path) == 5


async def test_without_the_limit_each_reported_container_would_take_a_connection(tmp_path):
    assert await followed(tmp_path) > 5


async def test_end_events_of_unknown_containers_are_not_stored(tmp_path):
    async with server(tmp_path) as (there, engine):
        told = [event(f"{number:064x}", action, SERVICE) for number in range(50) for action in ("oom", "die")]
        engine.answers["/logs"] = streams()
        engine.answers["/events"] = streams(*told, event(ID, "start", SERVICE), event(ID, "die", SERVICE))
        watched = watch_of(await place_of(there, engine))

        async def told_all() -> bool:
            return watched.last_end(ID) is not None

        await until(told_all)
        assert [*watched._ends] == [ID]
        assert not watched._short_of_memory


LONG = {"note": "x" * MAX_EVENT_BYTES}


@pytest.mark.parametrize(
    "bad", [{"exitCode": "abc"}, {"timeNano": "now"}, LONG], ids=["code", "time", "long"]
)
async def test_an_event_that_is_not_understood_stops_no_watch(tmp_path, bad):
    async with server(tmp_path) as (there, engine):
        first, second = event(ID, "die", SERVICE, **bad), event("b" * 64, "die", SERVICE)
        first |= {name: value for name, value in bad.items() if name in first}
        begun = [event(each, "start", SERVICE) for each in (ID, "b" * 64)]
        engine.answers["/logs"] = streams()
        engine.answers["/events"] = streams(*begun, first, second)
        watched = watch_of(await place_of(there, engine))

        async def told_all() -> bool:
            return watched.last_end("b" * 64) is not None

        await until(told_all)
        assert sum(path.endswith("/events") for path in engine.asked) == 1
        assert watched.last_end(ID) is None


async def zipped(request: web.Request) -> web.StreamResponse:
    """A megabyte that would become a gigabyte."""
    body = gzip.compress(b" " * 2**26, 9)
    return web.Response(body=body, headers={"Content-Encoding": "gzip", "Api-Version": "1.44"})


LIES: dict[str, Any] = {
    "an answer that grows when it is unpacked": zipped,
    "a list of lists": says([[]] * 10),
    "containers without labels": says([{"Id": ID, "Names": ["/a"], "State": "running"}]),
    "labels that are numbers": says([{"Id": ID, "Names": [], "State": "running", "Labels": {"a": 1}}]),
    "more containers than there can be": says(
        [{"Id": ID, "Names": None, "State": "running", "Labels": {}}] * 10_001
    ),
    "an object": says({"Id": ID}),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_malformed_container_list_is_refused_with_advice(tmp_path, lie):
    async with server(tmp_path) as (there, engine):
        place = await place_of(there, engine)
        engine.answers["/containers/json"] = LIES[lie]
        with pytest.raises(EngineError, match="Check the address: a Docker engine does not answer like this"):
            await place.engine.all()


async def test_an_answer_over_a_megabyte_is_decoded_only_as_a_known_type(tmp_path, monkeypatch):
    async with server(tmp_path) as (there, engine):
        place = await place_of(there, engine)
        assert isinstance(place.engine, DockerEngine)
        engine.answers["/long"] = says({"x": "x" * 2**20})
        with pytest.raises(EngineRefused, match="more than 1048576 bytes"):
            await place.engine._docker.json("GET", "/long")
        assert await place.engine._docker.read_list("/long", dict[str, str]) == {"x": "x" * 2**20}


# Lies about containers


def container(labels: dict[str, str], **state: Any) -> dict[str, Any]:
    """The description of a container that runs at a port."""
    return {
        "Id": ID, "Name": "/one", "Config": {"Labels": labels}, "HostConfig": {"Memory": 1},
        "State": {"Status": "running", "ExitCode": 0, "StartedAt": "2026-01-31T09:05:00.007123456Z"} | state,
        "NetworkSettings": {
            "Ports": {"80/tcp": [{"HostPort": "8080"}]}, "Networks": {"a": {"IPAddress": "10.0.0.1"}},
        },
    }  # fmt: skip


def labels_of(place: Place, service: str, **more: str) -> dict[str, str]:
    assert isinstance(place.engine, DockerEngine)
    return {
        "windlass.installation": place.engine._installation, "windlass.service": service,
        "windlass.generation": "1", "windlass.index": "0", "windlass.pod": "pod",
    } | more  # fmt: skip


async def told(
    there: Inside, engine: HostileEngine, labels: dict[str, str], called: str = "", **state: Any
) -> None:
    name = names.container(labels["windlass.installation"], labels["windlass.service"], 1, 0)
    engine.answers["/containers/json"] = says(
        [{"Id": ID, "Names": [f"/{called or name}"], "Labels": labels, "State": "running"}]
    )
    engine.answers[f"{ID}/json"] = says(container(labels, **state))


async def test_containers_of_other_services_or_installations_are_ignored(tmp_path):
    async with server(tmp_path) as (there, engine):
        place = await place_of(there, engine)
        await told(there, engine, labels_of(place, SERVICE))
        assert [copy.service for copy in await place.engine.copies(SERVICE)] == [SERVICE]  # type: ignore[attr-defined]
        other = SERVICE.replace("a", "b")
        for labels in (
            labels_of(place, other),
            labels_of(place, SERVICE, **{"windlass.installation": there.ctx.installation}),
        ):
            await told(there, engine, labels)
            assert (await place.engine.observe(SERVICE)).instances == ()
        # As of a step of a Dockerfile that sets the labels of an instance.
        await told(there, engine, labels_of(place, SERVICE), called="busy_lamport")
        assert (await place.engine.observe(SERVICE)).instances == ()


async def test_the_container_network_address_reported_by_a_remote_engine_is_not_probed(tmp_path):
    async with server(tmp_path) as (there, engine):
        place = await place_of(there, engine)
        await told(there, engine, labels_of(place, SERVICE))
        (seen,) = (await place.engine.observe(SERVICE)).instances
        assert (seen.address, seen.inside) == ("127.0.0.1", "")


@pytest.mark.parametrize("port", ["0", "65536", "-1", "99999999999999999999999", "x", None])
async def test_an_invalid_port_reported_by_an_engine_is_refused(tmp_path, port):
    async with server(tmp_path) as (there, engine):
        place = await place_of(there, engine)
        labels = labels_of(place, SERVICE)
        await told(there, engine, labels)
        described = container(labels)
        described["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"] = port
        engine.answers[f"{ID}/json"] = says(described)
        with pytest.raises(EngineError, match="Check the address"):
            await place.engine.observe(SERVICE)


@pytest.mark.parametrize("figure", [10**18 * 100, -1, 1.5, "7", 2**63])
async def test_an_invalid_measurement_reported_by_an_engine_is_refused(tmp_path, figure):
    async with server(tmp_path) as (there, engine):
        place = await place_of(there, engine)
        await told(there, engine, labels_of(place, SERVICE))
        engine.answers["/stats"] = says({"cpu_stats": {"cpu_usage": {"total_usage": figure}}})
        with pytest.raises(EngineError, match="Check the address"):
            await place.engine.usage()


async def test_a_long_error_text_of_an_engine_is_truncated(tmp_path):
    async with server(tmp_path) as (there, engine):
        place = await place_of(there, engine)
        await told(there, engine, labels_of(place, SERVICE), Status="exited", Error="x" * 2**19)
        (seen,) = (await place.engine.observe(SERVICE)).instances
        assert len(seen.reason) < 5000
