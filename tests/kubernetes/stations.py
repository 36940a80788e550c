"""An engine on an API server in this process, and workloads for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.engines.stations import wanted
from tests.kubernetes.stub_cluster import StubCluster
from windlass.base.addresses import Reach
from windlass.engines.engine import Sink
from windlass.engines.environment_spaces import FindEnvironments
from windlass.engines.workload import Artifact, Workload
from windlass.kubernetes.engine import KubernetesEngine
from windlass.kubernetes.provider import make_engine


def web(**given: Any) -> Workload:
    artifact = Artifact(kind="image", ref="shop/web:1", command=("python3", "main.py"))
    return wanted(artifact, **({"settle": 0.0, "patience": 20.0} | given))


class Told:
    """The notices and lines of an engine."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.missed = 0

    def miss(self) -> None:
        self.missed += 1


@asynccontextmanager
async def engine_on(
    cluster: StubCluster,
    folder: Path,
    told: Told | None = None,
    allowed: Sequence[str] = ("10.9.9.9/32",),
    sink: Sink = lambda service, lines: None,
    find: FindEnvironments | None = None,
    **given: Any,
) -> AsyncIterator[KubernetesEngine]:
    told = told or Told()
    engine = make_engine(
        cluster.access,
        Reach((*allowed, "127.0.0.1/32"), public=False),
        folder=folder,
        helper_image="box:1",
        **({"installation": "test"} | given),
    )
    if find is not None:
        engine.find_environments_with(find)
    await engine.start(told.notices.append, sink, told.miss)
    try:
        yield engine
    finally:
        await engine.stop()
