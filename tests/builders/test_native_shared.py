"""Services of one group share what is built: once for all of them, and gone with the last of them."""

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
from windlass.builders.builder import BuilderAway, BuildError
from windlass.builders.native import artifacts, shared_builds

FILES = {
    "Procfile": "web: python main.py\nworker: python work.py\n",
    "main.py": "print('web')",
    "work.py": "print(2)",
}
WEB, WORKER = {"service": "web", "group": "g"}, {"service": "worker", "group": "g"}


def stored(site) -> set[str]:
    """The artifacts of all services and groups, without links."""
    return {
        f"{path.parent.name}/{path.name}"
        for path in site.kept.glob("*/[!.]*")
        if path.is_dir() and not path.is_symlink() and path.parent.name != "cache"
    }


async def both(site):
    first = await site.build(FILES, key="k", **WEB)
    second = await site.build(FILES, key="k", **WORKER)
    return first, second


async def test_the_second_service_of_a_group_builds_nothing(site):
    first, second = await both(site)
    assert first == second
    assert "This was built for another application of this repository" in site.log()
    assert stored(site) == {"shared-g/k"}
    assert site.run(replace(second, command=second.processes["worker"])) == "2"
    assert await site.builder.find("worker", "k") == first


async def test_a_server_that_is_paused_with_the_lock_is_named_and_the_build_goes_on_after_it(
    site, monkeypatch
):
    monkeypatch.setattr(shared_builds, "PATIENCE", 0.2)
    site.kept.mkdir(parents=True, exist_ok=True)
    with holder(site.kept.with_name(f"{site.kept.name}.lock")) as process:
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(BuilderAway, match=rf"let the process {process.pid} go on, or to end it"):
            await site.build(FILES, key="k", **WEB)
    await both(site)


async def test_services_without_a_group_or_of_another_share_nothing(site):
    await site.build(FILES, key="k", service="a")
    await site.build(FILES, key="k", service="b")
    await site.build(FILES, key="k", service="c", group="g")
    await site.build(FILES, key="k", service="d", group="h")
    assert stored(site) == {"a/k", "b/k", "shared-g/k", "shared-h/k"}


async def test_builds_that_race_build_once(site):
    orders = [site.order(FILES, key="k", **fields) for fields in (WEB, WORKER)]
    first, second = await asyncio.gather(*(site.builder.build(order, site.said.append) for order in orders))
    assert first == second
    assert site.log().count("This was built for another application") == 1


@pytest.mark.parametrize("gone", ["discard", "prune"])
async def test_an_artifact_goes_with_the_last_service_that_has_it(site, gone):
    first, _ = await both(site)

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
    other = await site.build(FILES, key="k", service="other", group="h")
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
    await site.build(FILES, key="other", **WEB)
    (site.kept / "web" / "other").unlink()
    assert await site.builder.services() == ["web", "worker"]
    await site.builder.sweep([])
    assert stored(site) == {"shared-g/k"}
    await site.builder.sweep(["web", "worker"])
    assert stored(site) == set()


async def test_a_service_that_is_set_aside_keeps_what_it_shares(site, tmp_path):
    first = await site.build(FILES, key="k", **WEB)
    aside = tmp_path / "aside"
    aside.mkdir()
    await site.builder.set_aside("web", aside)
    await site.builder.sweep([])
    await site.builder.put_back("web", aside)
    assert await site.builder.find("web", "k") == first
    assert Path(first.ref).is_dir()


async def test_a_failed_build_of_a_group_leaves_nothing(site):
    with pytest.raises(BuildError):
        await site.build({"Procfile": "web: no-such-program"}, key="k", **WEB)
    assert stored(site) == set()
    await site.builder.discard("web")
    assert [path.name for path in site.kept.iterdir()] == ["cache"]


async def test_a_link_whose_artifact_is_lost_is_made_again(site):
    await both(site)
    await asyncio.to_thread((site.kept / "shared-g" / "k").rename, site.top / "lost")
    assert await site.builder.find("worker", "k") is None
    again = await site.build(FILES, key="k", **WORKER)
    assert site.run(again) == "web"
    assert await site.builder.find("web", "k") == again
