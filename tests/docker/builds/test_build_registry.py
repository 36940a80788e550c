"""Images that were built are sent to the registry of the installation, and fetched where they are gone."""

from __future__ import annotations

import pytest

from tests.docker.builds.benches import Bench
from tests.engines.dockers import BOX, docker_host
from tests.registries.docker_registry import PASSWORD, USER, docker_registry
from windlass.docker.client import Docker
from windlass.docker.client.images import image, push
from windlass.docker.engine import DockerEngine
from windlass.engines.registries import BuildRegistry, RegistryLogin

LOGIN = RegistryLogin(USER, PASSWORD)
DOCKERFILE = f'FROM {BOX}\nCMD ["echo", "hello"]\n'


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with docker_registry(tmp_path_factory.mktemp("registry") / "one") as served:
        yield served


@pytest.fixture
def own(registry):
    return BuildRegistry(f"{registry.host}/windlass", LOGIN)


@pytest.fixture
async def bench(own, tmp_path):
    made = Bench(docker_host(), tmp_path, registry=own)
    yield made
    await made.close()


@pytest.fixture
async def raw(bench):
    docker = Docker(bench.host)
    yield docker
    await docker.close()


async def test_a_build_that_is_gone_from_the_engine_is_fetched_from_the_registry(bench, own, raw, tmp_path):
    built = await bench.build(DOCKERFILE)
    assert await image(raw, own.name_of(built.ref)) is None, "only its own name is left on the engine"
    for fetches in (True, False):  # the negative control: without the registry it is gone
        await raw.raw("DELETE", f"/images/{built.ref}", params={"force": True})
        other = bench.another_service(registry=own if fetches else None)
        assert await other.builder.find(bench.service, "k1") == (built if fetches else None)
        await other.builder.stop()
    engine = DockerEngine(
        host=bench.host, folder=tmp_path / "engine", installation=bench.installation, registry=own
    )
    await engine.prepare(built, bench.log.append)
    assert await bench.runs(built.ref) == "hello\n"
    await engine.stop()


async def test_an_unreachable_build_registry_fails_no_build_and_is_logged(bench):
    away = bench.another_service(registry=BuildRegistry("localhost:1/windlass", LOGIN))
    built = await away.build(DOCKERFILE)
    assert await away.builder.find(away.service, "k1") == built
    assert any("the registry did not take it" in line for line in away.log)
    await away.builder.stop()


async def test_an_image_in_the_build_registry_without_the_services_label_is_not_used(bench, own, raw):
    remote = own.name_of(f"windlass/{bench.service}:k9")
    name, _, tag = remote.rpartition(":")
    await raw.raw("POST", f"/images/{BOX}/tag", params={"repo": name, "tag": tag})
    await push(raw, remote, LOGIN)
    await raw.raw("DELETE", f"/images/{remote}")
    assert await bench.builder.find(bench.service, "k9") is None
    assert await image(raw, remote) is None
