"""The Docker engine and a real registry with TLS and a login: digests, pulls, and who gets an image."""

from __future__ import annotations

import pytest

from tests.docker.watched import wanted
from tests.engines.dockers import BOX
from tests.registries.docker_registry import PASSWORD, USER, DockerRegistry, docker_registry
from windlass.docker import images
from windlass.docker.client import Docker
from windlass.docker.client.images import image, push
from windlass.engines.engine import ArtifactLost, EngineError
from windlass.engines.registries import PullRequest, RegistryLogin, parse_ref
from windlass.engines.workload import Artifact, Phase

pytestmark = pytest.mark.slow

LOGIN = RegistryLogin(USER, PASSWORD)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with docker_registry(tmp_path_factory.mktemp("registry") / "one") as served:
        yield served


@pytest.fixture
async def shop(registry: DockerRegistry, raw: Docker) -> str:
    """An image of the registry with the tag 1, which the engine has no more."""
    name = f"{registry.host}/acme/shop"
    await put(raw, name, "1")
    return name


async def put(raw: Docker, name: str, tag: str, change: str = "ENV A=1") -> None:
    made = (await raw.json("POST", "/containers/create", body={"Image": BOX, "Cmd": ["true"]}))["Id"]
    try:
        params = {"container": made, "repo": name, "tag": tag, "changes": change}
        await raw.json("POST", "/commit", params=params)
        await push(raw, f"{name}:{tag}", LOGIN)
    finally:
        await raw.raw("DELETE", f"/containers/{made}")
    await forget(raw, f"{name}:{tag}")


async def forget(raw: Docker, ref: str) -> None:
    described = await image(raw, ref)
    if described:
        await raw.raw("DELETE", f"/images/{described['Id']}", params={"force": True})


@pytest.mark.nightly
async def test_a_resolved_tag_stays_at_its_digest_when_the_tag_moves(engine, raw, shop):
    said: list[str] = []
    request = PullRequest(f"{shop}:1", LOGIN, is_registered=True)
    first = await engine.resolve(request, said.append)
    assert parse_ref(first).name == shop
    await put(raw, shop, "1", "ENV A=2")
    second = await engine.resolve(request, said.append)
    assert first != second
    for ref in (first, second):
        await engine.prepare(Artifact(kind="image", ref=ref), said.append, LOGIN)
        instance = await engine.run(wanted(artifact=Artifact(kind="image", ref=ref)), 0)
        assert instance.phase is Phase.RUNNING
        assert (await engine.execute(instance, ["sh", "-c", "echo $A"], 10))[1].strip() == (
            "1" if ref == first else "2"
        )
        await engine.remove(instance.service, grace=0)
        await forget(raw, ref)
    assert said == [f"Pulling {first}", f"Pulling {second}"]


async def test_an_image_pulled_with_a_login_is_not_available_without_the_login(engine, raw, shop):
    """Negative control: with the login it is there."""
    request = PullRequest(f"{shop}:1", LOGIN, is_registered=True)
    ref = await engine.resolve(request, lambda line: None)
    await engine.prepare(Artifact(kind="image", ref=ref), lambda line: None, LOGIN)
    assert await image(raw, f"{shop}:1") is None
    for login in (None, RegistryLogin(USER, "wrong")):
        for is_registered in (True, False):
            with pytest.raises(EngineError, match="Check the name of the image"):
                await engine.resolve(PullRequest(f"{shop}:1", login, is_registered), lambda line: None)
    assert await engine.resolve(request, lambda line: None) == ref
    await forget(raw, ref)


async def test_an_image_that_is_gone_is_pulled_again_by_a_deployment_with_the_login(engine, raw, shop):
    ref = await engine.resolve(PullRequest(f"{shop}:1", LOGIN, is_registered=True), lambda line: None)
    with pytest.raises(ArtifactLost, match="no longer on the Docker engine"):
        await engine.run(wanted(artifact=Artifact(kind="image", ref=ref)), 0)


async def test_an_image_present_only_on_the_engine_keeps_its_tag(engine):
    assert await engine.resolve(PullRequest(BOX), lambda line: None) == BOX


async def test_a_tag_of_a_registered_registry_is_resolved_by_the_registry_and_not_the_engine(
    engine, raw, registry
):
    name = f"{registry.host}/acme/local"
    made = (await raw.json("POST", "/containers/create", body={"Image": BOX, "Cmd": ["true"]}))["Id"]
    await raw.json("POST", "/commit", params={"container": made, "repo": name, "tag": "1"})
    await raw.raw("DELETE", f"/containers/{made}")
    assert await engine.resolve(PullRequest(f"{name}:1"), lambda line: None) == f"{name}:1"
    with pytest.raises(EngineError, match="no tag 1 of it"):
        await engine.resolve(PullRequest(f"{name}:1", LOGIN, is_registered=True), lambda line: None)
    await forget(raw, f"{name}:1")


async def test_an_image_built_for_a_service_is_refused_under_every_address_of_its_registry(
    engine, raw, registry, monkeypatch
):
    """The address of the installation's registry is refused by its name; it may have others."""
    name = f"{registry.host}/windlass/of-another"
    ref = f"{name}:1"
    await put(raw, name, "1", "LABEL windlass.service=of-another")
    artifact = Artifact(kind="image", ref=ref)
    for _ in range(2):  # pulled, and there already
        with pytest.raises(EngineError, match="images that Windlass built are for their own service alone"):
            await engine.prepare(artifact, print, LOGIN)
    monkeypatch.setattr(images, "_is_built", lambda _: False)
    await engine.prepare(artifact, print, LOGIN)
    await forget(raw, ref)
