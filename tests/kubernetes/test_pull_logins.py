"""Nodes pull images that were built for a service with the login of their registry."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.engines.stations import until
from tests.kubernetes.stations import engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.engines.registries import BuildRegistry, RegistryLogin
from windlass.engines.workload import Workload

HOST = "registry.example.com:5000"
WRITER, READER = RegistryLogin("writer", "writes"), RegistryLogin("reader", "reads")
REGISTRY = BuildRegistry(f"{HOST}/acme", WRITER, READER)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        yield made


def built(of_service: str = "") -> Workload:
    """A service with an image that was built for it, or for another service."""
    it = web()
    ref = f"{HOST}/acme/{of_service or it.service}@sha256:{'a' * 64}"
    return structs.replace(it, artifact=structs.replace(it.artifact, ref=ref))


def logins(cluster: StubCluster) -> list[Any]:
    found = [each["data"] for each in cluster.all("secrets") if ".dockerconfigjson" in each["data"]]
    return [json.loads(base64.b64decode(data[".dockerconfigjson"]))["auths"] for data in found]


async def has(cluster: StubCluster, login: RegistryLogin) -> None:
    async def written() -> bool:
        return logins(cluster) == [auth(login)]

    await until(written)


def auth(login: RegistryLogin) -> Any:
    return {HOST: {"auth": base64.b64encode(f"{login.username}:{login.password}".encode()).decode()}}


async def test_a_service_gets_the_login_that_only_pulls_for_its_own_image_alone(cluster, tmp_path):
    async with engine_on(cluster, tmp_path / "engine", registry=REGISTRY) as engine:
        await engine.apply(built(of_service="another"), 1)
        assert logins(cluster) == []
        it = built()
        await engine.apply(it, 1)
        assert logins(cluster) == [auth(READER)]
        (pod,) = [each for each in cluster.all("pods") if it.service in str(each["metadata"]["labels"])]
        (secret,) = [each for each in cluster.all("secrets") if ".dockerconfigjson" in each["data"]]
        assert pod["spec"]["imagePullSecrets"] == [{"name": secret["metadata"]["name"]}]


async def test_a_changed_login_is_written_for_services_that_run_already(cluster, tmp_path):
    changed = BuildRegistry(REGISTRY.prefix, WRITER, RegistryLogin("reader", "changed"))
    for registry in (REGISTRY, changed):  # as after a restart with other settings
        async with engine_on(cluster, tmp_path / "engine", registry=registry) as engine:
            if registry is REGISTRY:
                await engine.apply(built(), 1)
            else:
                await has(cluster, RegistryLogin("reader", "changed"))
                engine.logins.use(BuildRegistry(REGISTRY.prefix, RegistryLogin("writer", "again")))
                await has(cluster, RegistryLogin("writer", "again"))
                before = len(cluster.writes())
                engine.logins.use(BuildRegistry("elsewhere.example.com", WRITER))
                await engine.apply(built(), 1)
                assert logins(cluster) == [auth(RegistryLogin("writer", "again"))]
                assert [path for _, path in cluster.writes()[before:] if "/pull-" in path] == []
