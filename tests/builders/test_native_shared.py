"""Builds that services shared in earlier versions stay for each of them, and go with the last one."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.test_filelock import holder
from windlass.base import filelock
from windlass.base.erasing import erase
from windlass.builders.builder import BuilderAway
from windlass.builders.native import artifacts, shared_builds

FILES = {
    "Procfile": "web: python main.py\nworker: python work.py\n",
    "main.py": "print('web')",
    "work.py": "print(2)",
}


def stored(site) -> set[str]:
    """The artifacts of all services and groups, without links."""
    return {
        f"{path.parent.name}/{path.name}"
        for path in site.kept.glob("*/[!.]*")
        if path.is_dir() and not path.is_symlink() and path.parent.name != "cache"
    }


async def shared(site, *services, group="g", key="k"):
    """An artifact as earlier versions left it: in a folder of the group, with a link of each service."""
    artifact = await site.build(FILES, key=key, service=f"shared-{group}")
    for service in services:
        link = site.kept / service / key
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(Path("..", f"shared-{group}", key))
        users = site.kept / f"shared-{group}" / ".users"
        users.mkdir(exist_ok=True)
        (users / service).touch()
    return artifact


async def both(site):
    return await shared(site, "web", "worker")


async def test_services_with_a_link_find_what_was_shared(site):
    artifact = await both(site)
    assert await site.builder.find("web", "k") == await site.builder.find("worker", "k") == artifact
    assert site.run(replace(artifact, command=artifact.processes["worker"])) == "2"


async def test_nothing_new_is_shared(site):
    await both(site)
    for service in ("web", "worker"):
        await site.build(FILES, key="new", service=service)
    assert stored(site) == {"shared-g/k", "web/new", "worker/new"}


async def test_a_server_that_is_paused_with_the_lock_is_named_and_the_sweep_goes_on_after_it(
    site, monkeypatch
):
    monkeypatch.setattr(shared_builds, "PATIENCE", 0.2)
    await both(site)
    with holder(site.kept.with_name(f"{site.kept.name}.lock")) as process:
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(BuilderAway, match=rf"let the process {process.pid} go on, or to end it"):
            await site.builder.prune("web", [])
    await site.builder.prune("web", [])


@pytest.mark.parametrize("gone", ["discard", "prune"])
async def test_an_artifact_goes_with_the_last_service_that_has_it(site, gone):
    first = await both(site)

    async def leaves(service: str) -> None:
        await (site.builder.discard(service) if gone == "discard" else site.builder.prune(service, []))

    await leaves("web")
    assert await site.builder.find("worker", "k") == first
    assert site.run(first) == "web"
    await leaves("worker")
    assert await site.builder.find("worker", "k") is None
    assert not (site.kept / "shared-g").exists()


async def test_other_services_find_their_builds_while_a_sweep_erases(site, monkeypatch):
    await both(site)
    other = await shared(site, "other", group="h")
    free = []

    def erase_slowly(path: Path) -> None:
        held = filelock.try_hold(site.kept.with_name(f"{site.kept.name}.lock"))
        free.append(held is not None)
        os.close(held or os.open(os.devnull, os.O_RDONLY))
        erase(path)

    monkeypatch.setattr(artifacts, "erase", erase_slowly)
    for service in ("web", "worker"):
        await site.builder.discard(service)
    assert len(free) >= 2
    assert all(free)
    assert stored(site) == {"shared-h/k"}
    assert await site.builder.find("other", "k") == other


async def test_a_sweep_removes_what_no_service_has_and_nothing_else(site):
    await both(site)
    await shared(site, "web", key="other")
    (site.kept / "web" / "other").unlink()
    assert await site.builder.services() == ["web", "worker"]
    await site.builder.sweep([])
    assert stored(site) == {"shared-g/k"}
    await site.builder.sweep(["web", "worker"])
    assert stored(site) == set()


async def test_a_service_that_is_set_aside_keeps_what_it_shares(site, tmp_path):
    first = await shared(site, "web")
    aside = tmp_path / "aside"
    aside.mkdir()
    await site.builder.set_aside("web", aside)
    await site.builder.sweep([])
    await site.builder.put_back("web", aside)
    assert await site.builder.find("web", "k") == first
    assert Path(first.ref).is_dir()


async def test_a_link_whose_artifact_is_lost_gives_way_to_a_build_of_its_own(site):
    await both(site)
    await asyncio.to_thread((site.kept / "shared-g" / "k").rename, site.top / "lost")
    assert await site.builder.find("worker", "k") is None
    again = await site.build(FILES, key="k", service="worker")
    assert site.run(again) == "web"
    assert await site.builder.find("web", "k") is None
