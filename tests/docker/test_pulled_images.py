"""Images that Windlass pulled go once no service uses them; what the operator pulled stays."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.docker.builds.benches import Bench
from tests.engines.dockers import BOX
from tests.engines.small_registry import SmallRegistry
from windlass.base.ids import new_id
from windlass.builders.builder import BuildError
from windlass.docker.client import Docker, pulled_images
from windlass.docker.client.images import ask_registry, image, pull
from windlass.docker.client.pulled_images import ImageUser
from windlass.docker.engine import DockerEngine
from windlass.engines.workload import Artifact

pytestmark = pytest.mark.slow


class Images:
    """Images of registries, by digest."""

    def __init__(self, docker: Docker, stack: AsyncExitStack) -> None:
        self._docker, self._stack = docker, stack
        self.refs: list[str] = []

    async def publish(self) -> str:
        host = await self._stack.enter_async_context(SmallRegistry(comment=str(uuid.uuid4())).served())
        name = f"{host}/acme/shop"
        ref = f"{name}@{await ask_registry(self._docker, f'{name}:1')}"
        self.refs.append(ref)
        return ref


@pytest.fixture
async def images(raw: Docker) -> AsyncIterator[Images]:
    async with AsyncExitStack() as stack:
        published = Images(raw, stack)
        yield published
        for ref in published.refs:
            await forget(raw, ref)


@pytest.fixture
async def bench(host, tmp_path, watched) -> AsyncIterator[Bench]:
    """A builder with the notes of the engine."""
    made = Bench(host, tmp_path, of_engine=watched.folder)
    yield made
    for service in await made.builder.services():
        await made.builder.discard(service)
    await made.close()


async def forget(raw: Docker, ref: str) -> None:
    if described := await image(raw, ref):
        await raw.raw("DELETE", f"/images/{described['Id']}", params={"force": True})


async def use(engine: DockerEngine, ref: str, service: str, org: str = "acme") -> None:
    await engine.prepare(Artifact(kind="image", ref=ref), print, org=org, service=service)


async def test_an_image_is_removed_once_no_deployment_of_any_service_needs_it(engine, bench, raw, images):
    first, second = await images.publish(), await images.publish()
    shop, blog = new_id(), new_id()
    for ref in (first, second):
        await use(engine, ref, shop)
    await use(engine, first, blog)
    await bench.builder.prune(shop, [second])
    assert await image(raw, first), "the other service uses it"
    await bench.builder.prune(blog, [])
    assert await image(raw, first) is None
    assert await image(raw, second), "a deployment that is kept may be started again"
    await use(engine, first, shop)  # as a rollback does
    assert await image(raw, first)
    await bench.builder.discard(shop)
    assert (await image(raw, first), await image(raw, second)) == (None, None)
    assert await bench.builder.services() == set()


async def test_an_image_that_windlass_did_not_pull_is_never_removed(engine, bench, raw, images):
    of_operator, both = await images.publish(), await images.publish()
    await pull(raw, of_operator)
    await use(engine, of_operator, shop := new_id())
    await use(engine, both, shop)
    await pull(raw, f"{both.partition('@')[0]}:1")
    await bench.builder.discard(shop)
    assert await image(raw, of_operator)
    assert (await image(raw, both) or {})["RepoTags"]
    await use(engine, BOX, shop)
    await bench.builder.discard(shop)
    assert await image(raw, BOX)


async def test_a_tag_of_the_operator_stays_if_an_organization_pulls_the_image_by_another_name(
    engine, bench, raw, images
):
    ref = await images.publish()
    await use(engine, ref, shop := new_id())
    name = f"windlass-test/of-operator-{uuid.uuid4()}"
    await raw.raw("POST", f"/images/{ref}/tag", params={"repo": name, "tag": "1"})
    await bench.build(f"FROM {name}:1\nENV A=1\n")
    await bench.builder.discard(shop)
    await bench.build(f"FROM {BOX}\nENV A=1\n", key="k2")
    await bench.builder.discard(bench.service)
    assert (await image(raw, f"{name}:1") or {})["RepoTags"] == [f"{name}:1"]


async def test_an_image_of_a_container_stays_until_the_container_is_gone(engine, bench, raw, images):
    ref = await images.publish()
    await use(engine, ref, shop := new_id())
    made = (await raw.json("POST", "/containers/create", body={"Image": ref}))["Id"]
    await bench.builder.discard(shop)
    assert await image(raw, ref)
    assert await bench.builder.services() == {shop}, "the next sweep tries again"
    await raw.raw("DELETE", f"/containers/{made}")
    await bench.builder.sweep([shop])
    assert await image(raw, ref) is None


async def test_an_organization_keeps_a_bounded_number_of_pulled_images(engine, raw, images, monkeypatch):
    monkeypatch.setattr(pulled_images, "MAX_IMAGES_OF_ORG", 2)
    other, *own = [await images.publish() for _ in range(5)]
    await use(engine, other, new_id(), org="another")
    for ref in own[:2]:
        await use(engine, ref, new_id())
    await use(engine, own[0], new_id())
    for ref in own[2:]:
        await use(engine, ref, new_id())
    assert [ref for ref in images.refs if await image(raw, ref)] == [other, *own[2:]]


async def test_a_base_image_stays_as_long_as_the_latest_build_of_a_service_uses_it(bench, raw, images):
    first, second = [f"{(await images.publish()).partition('@')[0]}:1" for _ in range(2)]
    await bench.build(f"FROM {first}\nENV A=1\n")
    assert await image(raw, first)
    await bench.build(f"FROM {second}\nENV A=1\n", key="k2")
    assert await image(raw, first) is None
    assert await image(raw, second)
    await bench.builder.discard(bench.service)
    assert await image(raw, second) is None


async def test_a_tag_stays_while_another_service_runs_its_digest(engine, bench, raw, images):
    """With the last tag of a repository, an engine removes its digests, too."""
    ref = await images.publish()
    tag = f"{ref.partition('@')[0]}:1"
    await bench.build(f"FROM {tag}\nENV A=1\n")
    await use(engine, ref, shop := new_id())
    await bench.builder.discard(bench.service)
    assert await image(raw, ref)
    await bench.builder.discard(shop)
    await bench.builder.sweep([bench.service])
    assert await image(raw, ref) is None


@pytest.mark.parametrize("buildkit", [True, False])
async def test_a_base_image_that_is_refused_has_no_note_of_the_service(host, tmp_path, raw, buildkit):
    """With the note, the next build of the service would remove the image of another organization."""
    bench, id = Bench(host, tmp_path, buildkit=buildkit), (await image(raw, BOX) or {})["Id"]
    try:
        pulled = bench.builder._pulled
        await pulled.note_pull(ImageUser("of-another", "another"), "another.example/shop:1", id)
        with pytest.raises(BuildError, match="cannot be named by its id"):
            await bench.build(f"FROM {id.removeprefix('sha256:')[:12]}\nENV A=1\n")
        assert await pulled.services() == {"of-another"}
    finally:
        await bench.builder.stop()


async def test_a_pulled_image_without_a_usage_note_is_never_removed(engine, bench, raw, images):
    ref = await images.publish()
    await engine.prepare(Artifact(kind="image", ref=ref), print, org="acme")
    for service in await bench.builder.services():
        await bench.builder.discard(service)
    assert await image(raw, ref)


async def test_an_image_is_used_also_if_its_note_cannot_be_written(engine, watched, raw, images):
    ref = await images.publish()
    (watched.folder / "pulled").write_text("")  # no folder
    for _ in range(2):
        await use(engine, ref, new_id())
    assert await image(raw, ref)
