"""The Kubernetes engine keeps the promises about numbers of instances, on an API server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.engines.rollouts import Rollouts
from tests.engines.stations import Opener
from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.base.addresses import Reach
from windlass.engines.workload import Artifact
from windlass.kubernetes.provider import make_engine


class StubRig:
    cannot: Mapping[str, str] = {"programs": "it runs nothing"}

    def __init__(self, cluster: StubCluster, folder: Path) -> None:
        self.cluster, self._folder = cluster, folder

    def opener(self) -> Opener:
        return partial(
            make_engine,
            self.cluster.access,
            Reach(loopback=True),
            folder=self._folder,
            installation="test",
            helper_image="box:1",
        )

    async def artifact(self, program: str) -> Artifact:
        return Artifact(kind="image", ref="shop/web:1", command=("python3", "main.py"))

    async def copies(self, service: str) -> Sequence[tuple[int, int]]:
        return [
            (int(pod["metadata"]["labels"]["windlass.dev/generation"]), number)
            for number, pod in enumerate(self.cluster.all("pods"))
            if pod["metadata"]["labels"]["windlass.dev/service"] == service
            and pod["status"]["phase"] == "Running"
        ]

    async def traces(self, service: str) -> Collection[str]:
        return []

    async def remembered(self) -> bytes:
        return b""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[StubRig]:
    async with stub_cluster(tmp_path) as cluster:
        yield StubRig(cluster, tmp_path / "engine")


class TestRollouts(Rollouts):
    """See there."""
