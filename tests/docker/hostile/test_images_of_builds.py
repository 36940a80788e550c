"""A registry that has another image for BuildKit than the one that was checked, with a real Docker engine."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.docker.builds.benches import Bench
from tests.docker.hostile.test_docker_builds import Engine, answering
from tests.engines.dockers import docker_host
from tests.marks import nightly
from tests.registries.docker_registry import DockerRegistry, docker_registry
from windlass.builders.builder import BuildError
from windlass.docker.builds import builder
from windlass.docker.client import Docker

pytestmark = pytest.mark.slow


@pytest.fixture
async def engine():
    made = Engine(docker_host())
    yield made
    await made.close()


@pytest.fixture
async def attacker(tmp_path):
    made = Bench(docker_host(), tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def docker():
    made = Docker(docker_host())
    yield made
    await made.close()


@pytest.fixture
async def registry(tmp_path, docker):
    with docker_registry(tmp_path / "registry", tls=False, login=False) as running:
        yield running
    for one in await docker.json("GET", "/images/json"):
        for ref in one["RepoTags"] or ():
            if ref.startswith(f"{running.host}/"):
                await docker.raw("DELETE", f"/images/{ref}", params={"force": True})


def push(registry: DockerRegistry, tag: str, url: str, *, evil: str) -> str:
    """Puts an image there with a step, for one processor, that fetches from the loopback of the engine."""
    labels, steps = {"mark": str(uuid.uuid4())}, [f"ADD {url} /stolen"]
    configs: dict[str, dict[str, Any]] = {each: {"Labels": labels} for each in ("amd64", "386")}
    configs[evil]["OnBuild"] = steps
    registry.push_list("evil", tag, configs)
    return f"{registry.host}/evil:{tag}"


async def test_a_build_takes_no_image_for_another_platform_than_the_one_that_is_checked(attacker, registry):
    with answering() as machine:
        ref = push(registry, "1", machine.url, evil="386")
        with pytest.raises(BuildError, match="write FROM without --platform=linux/386"):
            await attacker.build(f"FROM --platform=linux/386 {ref}\n")
        await attacker.build(f"FROM --platform=$BUILDPLATFORM {ref}\nENV A=b\n")
        assert machine.reached == []
        assert any("/evil@sha256:" in line for line in attacker.log)


@pytest.mark.nightly
async def test_without_the_guard_a_step_of_an_image_for_another_platform_runs(engine, registry):
    with answering() as machine:
        await engine.build(f"FROM --platform=linux/386 {push(registry, '1', machine.url, evil='386')}\n")
        assert machine.reached != []


@pytest.mark.parametrize("is_by_digest", [True, *nightly(False)])
async def test_a_tag_that_moves_after_the_check_changes_no_build(
    attacker, docker, registry, monkeypatch, is_by_digest
):
    """The engine has lost the image meanwhile. By its name, BuildKit takes what nobody checked."""
    with answering() as machine:
        ref = push(registry, "1", machine.url, evil="386")
        checked = attacker.builder._check_bases

        async def then_lost(*given):
            made = await checked(*given)
            push(registry, "1", machine.url, evil="amd64")
            await docker.raw("DELETE", f"/images/{ref}", params={"force": True})
            return made

        monkeypatch.setattr(attacker.builder, "_check_bases", then_lost)
        if not is_by_digest:
            monkeypatch.setattr(builder, "by_digest", lambda ref, image: ref)
        await attacker.build(f"FROM {ref}\nENV A=b\n")
        assert (machine.reached == []) is is_by_digest
