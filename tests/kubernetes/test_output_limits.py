"""The output of a cluster with any number of Pods takes a limited number of connections and files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from aiohttp import web as http

from tests.kubernetes.stations import engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.engines.workload import OutputLine
from windlass.kubernetes import output, output_readers


class Logs:
    """The output of the Pods of a cluster: one line after another."""

    def __init__(self, cluster: StubCluster) -> None:
        self.cluster, self.others = cluster, cluster.handler
        self.followed = self.most_followed = 0
        self.lines = 1
        self.ended = asyncio.Event()
        """Ends the connections that follow, as the end of their containers does."""
        self.seen: list[tuple[str, str]] = []
        """The name of the instance and the text of each line that was read."""

    def take(self, service: str, lines: Sequence[OutputLine]) -> None:
        self.seen += [(line.pod, line.message) for line in lines]

    async def handle(self, request: http.Request) -> http.StreamResponse:
        if not request.path.endswith("/log"):
            return await self.others(request)
        if not request.query.get("follow"):
            return http.Response(text=self._text())
        self.followed += 1
        self.most_followed = max(self.followed, self.most_followed)
        try:
            answer = http.StreamResponse()
            await answer.prepare(request)
            await answer.write(self._text().encode())
            await self.ended.wait()
            return answer
        finally:
            self.followed -= 1

    def _text(self) -> str:
        stamps = (f"2026-01-01T00:00:{number:02}.000000000Z" for number in range(self.lines))
        return "".join(f"{stamp} line {number}\n" for number, stamp in enumerate(stamps))

    async def until(self, *wanted: tuple[str, str]) -> None:
        async with asyncio.timeout(20):
            while not {*wanted} <= {*self.seen}:  # noqa: ASYNC110 (the engine reads in its own tasks)
                await asyncio.sleep(0.01)


@pytest.fixture
async def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Logs]:
    monkeypatch.setattr(output, "_MAX_PAUSE", 0.05)
    async with stub_cluster(tmp_path) as cluster:
        made = Logs(cluster)
        cluster.handler = made.handle
        yield made


async def test_output_beyond_the_limit_of_connections_is_read_in_turns(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output_readers, "MAX_STREAMS", 1)
    async with engine_on(logs.cluster, tmp_path, sink=logs.take) as engine:
        await engine.apply(web(), 3)
        await logs.until(*((f"web-1-{index}", "line 0") for index in range(3)))
        assert logs.most_followed == 1
        logs.lines = 2
        async with asyncio.timeout(20):
            while sum(text == "line 1" for _, text in logs.seen) < 2:  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.01)
    assert len(logs.seen) == len({*logs.seen})


async def test_a_pod_beyond_the_limit_of_readers_waits_for_the_end_of_another(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output_readers, "MAX_FOLLOWERS", 1)
    async with engine_on(logs.cluster, tmp_path, sink=logs.take) as engine:
        await engine.apply(web(), 2)
        async with asyncio.timeout(20):
            while not logs.seen:  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.01)
        first = {name for name, _ in logs.seen}
        assert len(first) == 1
        observed = (await engine.observe(web().service)).instances
        (gone,) = (each.id for each in observed if f"web-1-{each.index}" in first)
        (namespace,) = {pod["metadata"]["namespace"] for pod in logs.cluster.all("pods")}
        logs.cluster.drop("pods", namespace, gone)
        logs.ended.set()
        await logs.until(("web-1-0", "line 0"), ("web-1-1", "line 0"))


async def test_no_file_of_a_position_stays_open(logs: Logs, tmp_path: Path):
    async with engine_on(logs.cluster, tmp_path, sink=logs.take) as engine:
        await engine.apply(web(), 2)
        await logs.until(("web-1-0", "line 0"), ("web-1-1", "line 0"))
        assert len([*(tmp_path / "positions").iterdir()]) == 2
        opened = [str(file.resolve()) for file in Path("/proc/self/fd").iterdir()]
        assert not [path for path in opened if "positions" in path]
