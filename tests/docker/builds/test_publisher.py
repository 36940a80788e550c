"""A builder for engines that cannot build: its artifacts name an image in a registry, with its digest."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.docker.builds.benches import Bench
from tests.engines.dockers import BOX, docker_host
from tests.registries.docker_registry import PASSWORD, USER, docker_registry
from windlass.base.addresses import Reach
from windlass.builders.builder import BuildError, BuilderUnavailable
from windlass.docker.builds.published_digests import PublishedDigests
from windlass.docker.builds.publisher import DockerPublisher
from windlass.docker.builds.registry_access import RegistryAccess
from windlass.docker.client import Docker
from windlass.docker.client.images import image, pull, push
from windlass.engines.engine import EngineError
from windlass.engines.registries import BuildRegistry, RegistryLogin, parse_ref

LOGIN = RegistryLogin(USER, PASSWORD)
DOCKERFILE = f"FROM {BOX}\nRUN mkdir /site && echo hello > /site/index.html\nEXPOSE 8080\n"


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with docker_registry(tmp_path_factory.mktemp("registry") / "one", tls=False) as served:
        yield served


@pytest.fixture
def own(registry):
    return BuildRegistry(f"{registry.host}/acme/builds", LOGIN)


@pytest.fixture
async def raw():
    docker = Docker(docker_host())
    yield docker
    await docker.close()


def publisher_of(docker: Docker, bench: Bench, folder: Path, allowed: Reach | None = None) -> DockerPublisher:
    digests, access = PublishedDigests(folder / "published"), RegistryAccess(allowed)
    return DockerPublisher(docker, bench.builder, bench.installation, digests, access)


@pytest.fixture
async def bench(raw, own, tmp_path):
    """A bench whose builder is a publisher."""
    made = Bench(raw.host, tmp_path)
    publisher = made.builder = publisher_of(raw, made, tmp_path)
    publisher.use(own)
    yield made
    publisher.use(own)
    await made.close()


async def test_a_published_image_is_named_by_its_digest_and_its_folders_are_exported(bench, raw, tmp_path):
    built = await bench.build(DOCKERFILE)
    name = f"{bench.builder.registry.prefix}/{bench.service}"
    assert built.ref.startswith(f"{name}@sha256:")
    assert (built.key, built.ports) == ("k1", (8080,))
    assert await bench.builder.find(bench.service, "k1") == built
    assert await bench.builder.find(bench.service, "k2") is None
    # The engine has lost it meanwhile, and its tag stands for another image.
    await raw.raw("DELETE", f"/images/windlass/{bench.service}:k1", params={"force": True})
    await raw.raw("POST", f"/images/{BOX}/tag", params={"repo": name, "tag": "k1"})
    await push(raw, f"{name}:k1", LOGIN)
    await raw.raw("DELETE", f"/images/{name}:k1")
    (tmp_path / "files").mkdir()
    await bench.builder.export(built, "site", tmp_path / "files")
    assert (tmp_path / "files" / "index.html").read_text() == "hello\n"
    assert await image(raw, built.ref) is None, "a name would keep it on the engine"


async def test_an_image_that_the_registry_lost_is_pushed_again_when_it_is_needed(bench, own):
    built = await bench.build(DOCKERFILE)
    bench.builder.use(replace(own, prefix=f"{own.prefix}/other"))
    again = await bench.builder.find(bench.service, "k1")
    assert again.ref.startswith(f"{own.prefix}/other/{bench.service}@sha256:")
    assert parse_ref(again.ref).digest == parse_ref(built.ref).digest


async def test_an_image_of_others_under_the_name_of_a_build_is_not_used(bench, raw, own, tmp_path):
    """It has all labels of the build. Whoever may push to the registry can put it there."""
    built = await bench.build(DOCKERFILE)
    name, local = f"{own.prefix}/{bench.service}", f"windlass/{bench.service}:k1"
    forged = await raw.json(
        "POST", "/commit", params={"container": await container_of(raw, built.ref)}, body={}
    )
    for target in (name, f"windlass/{bench.service}"):
        await raw.raw("POST", f"/images/{forged['Id']}/tag", params={"repo": target, "tag": "k1"})
    false = await push(raw, f"{name}:k1", LOGIN)
    assert false != parse_ref(built.ref).digest
    for ref in (f"{name}:k1", local):  # the engine has lost the build
        await raw.raw("DELETE", f"/images/{ref}", params={"force": True})
    assert await bench.builder.find(bench.service, "k1") == built
    # Another server has not pushed it, and builds it again.
    await raw.raw("DELETE", f"/images/{local}", params={"force": True})
    await PublishedDigests(tmp_path / "published").forget(local)
    assert await bench.builder.find(bench.service, "k1") is None


async def container_of(raw: Docker, ref: str) -> str:
    await pull(raw, ref, LOGIN)
    return str((await raw.json("POST", "/containers/create", body={"Image": ref, "Cmd": ["true"]}))["Id"])


async def test_the_engine_is_not_sent_to_a_registry_at_a_closed_address(raw, bench, own, tmp_path):
    built = await bench.build(DOCKERFILE)
    other = Bench(raw.host, tmp_path / "closed")
    closed = other.builder = publisher_of(raw, other, tmp_path, Reach())
    closed.use(own)
    refusal = r"\AAsk the operator to allow the registry localhost:\d+ with outbound_allow"
    with pytest.raises(BuildError, match=refusal):
        await other.build(DOCKERFILE)
    with pytest.raises(BuildError, match=refusal):
        await closed.find(bench.service, "k1")
    with pytest.raises(EngineError, match=refusal):
        await closed.export(built, "site", tmp_path)


async def test_builds_without_registry_or_engine_or_with_a_wrong_login_say_what_to_do(bench, own, tmp_path):
    bench.builder.use(None)
    with pytest.raises(BuildError, match=r"\AChoose a registry for the images of the cluster"):
        await bench.build(DOCKERFILE)
    assert await bench.builder.find(bench.service, "k1") is None
    bench.builder.use(replace(own, login=RegistryLogin(USER, "wrong")))
    with pytest.raises(BuildError, match=r"\ACheck the login and its rights at the registry"):
        await bench.build(DOCKERFILE)
    bench.builder.use(replace(own, prefix="localhost:1/builds"))
    with pytest.raises(BuilderUnavailable, match="does not answer"):
        await bench.build(DOCKERFILE)
    docker = Docker(f"unix://{tmp_path}/missing.sock")
    alone = Bench(docker.host, tmp_path / "alone")
    publisher = alone.builder = publisher_of(docker, alone, tmp_path)
    publisher.use(own)
    with pytest.raises(BuildError, match=r"\AAsk the operator to install Docker"):
        await alone.build(DOCKERFILE)
    await publisher.discard(alone.service)
    assert not await publisher.services()
    await publisher.stop()
