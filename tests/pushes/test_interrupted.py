"""A push outlives its client and its server, and another push at the same time is judged by git."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.pushes.conftest import Scene
from tests.pushes.pushing import (
    Folder,
    ask,
    deployments,
    ended_deployment,
    make_application,
    make_environment,
    pushed_place,
    web_folder,
    with_token,
)
from tests.whole import Place, Windlass, until
from tests.world import ADMIN
from windlass.control.records.disk_shares import DiskRecord, note_disk
from windlass.control.services.pushes import sweep_pushed
from windlass.sources.push.commands import FLUSH_PACKET, packet

SLOW = {"build_command": "echo building; sleep 4"}


@pytest.mark.slow
async def test_hanging_up_cancels_nothing(scene: Scene):
    app = await make_application(scene.windlass, scene.environment, **SLOW)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    with folder.begin_push(url) as client:
        await is_building(scene.windlass, app["id"])
        client.kill()
    assert (await ended_deployment(scene.windlass, app["id"]))["status"] == "SUCCEEDED"
    assert folder.git("rev-parse", "HEAD") in await ask(folder.path, "ls-remote", url)


async def test_of_two_pushes_at_once_one_is_refused(scene: Scene):
    app = await make_application(scene.windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    assert (await folder.push(url)).code == 0
    await ask(scene.place.beside, "clone", "--quiet", url, "twin")
    twin = Folder(scene.place.beside / "twin")
    folder.write(text="one of two").commit("one of two")
    twin.write(text="two of two").commit("two of two")
    ended = await asyncio.gather(folder.push(url), twin.push(url))
    assert sorted(each.code for each in ended) == [0, 1], ended
    refused = next(each.text for each in ended if each.code)
    assert any(why in refused for why in ("fetch first", "Push again", "newer deployment")), refused
    heads = (folder.git("rev-parse", "HEAD"), twin.git("rev-parse", "HEAD"))
    won = heads[0 if ended[0].code == 0 else 1]
    assert won in await ask(folder.path, "ls-remote", url)


@pytest.mark.slow
async def test_a_branch_that_moved_during_a_build_is_not_moved_again(scene: Scene):
    app = await make_application(scene.windlass, scene.environment, **SLOW)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    with folder.begin_push(url) as client:
        await is_building(scene.windlass, app["id"])
        pushed = scene.windlass.installation.ctx.pushed
        other = folder.git("commit-tree", "HEAD^{tree}", "-m", "other")
        await ask(folder.path, "push", "--quiet", str(pushed.path(app["id"])), f"{other}:refs/heads/main")
        said = await asyncio.to_thread(client.communicate)
    assert b"another push has moved main meanwhile" in said[0]
    assert other in await ask(folder.path, "ls-remote", url)


async def test_the_same_commit_may_be_pushed_again_after_a_failed_build(scene: Scene):
    app = await make_application(scene.windlass, scene.environment, build_command="false")
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    for _ in range(2):
        assert (await folder.push(url)).code == 1
    await scene.windlass.call("PATCH", f"/application/{app['id']}", {"build_command": None})
    assert (await folder.push(url)).code == 0


async def test_an_organization_above_its_share_of_the_disk_cannot_push(scene: Scene):
    app = await make_application(scene.windlass, scene.environment)
    ctx = scene.windlass.installation.ctx
    org = (await scene.windlass.call("GET", "/organization"))["id"]
    record = DiskRecord(1 << 30, {org: 2 << 30}, {org: 2 << 30})
    await ctx.store.write(lambda tx: note_disk(tx, ctx.ownership.place, record))
    ended = await web_folder(scene.place.beside / "web").push(with_token(app["push_url"]))
    assert (ended.code, "holds 2.0 GiB" in ended.text) == (128, True), ended


async def test_a_repository_on_another_server_is_named(scene: Scene):
    app = await make_application(scene.windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    ctx = scene.windlass.installation.ctx
    await ctx.store.write(lambda tx: tx.facts.set(f"repository of {app['id']}", b"another"))
    ended = await folder.push(url)
    assert (ended.code, "in the data directory of another server" in ended.text) == (128, True), ended
    for repository in (
        {"url": "https://git.example.com/x.git"},
        {"url": "windlass://push", "branch": "main"},
    ):
        await scene.windlass.call("PATCH", f"/application/{app['id']}", {"git_repository": repository})
    assert (await folder.push(url)).code == 0


async def test_pushed_repositories_count_for_the_share_of_their_organization(scene: Scene):
    app = await make_application(scene.windlass, scene.environment)
    await web_folder(scene.place.beside / "web").push(with_token(app["push_url"]))
    meter = scene.windlass.installation.disk_meter
    assert ("repositories", app["id"]) in dict(meter._folders())


async def test_packs_are_joined_and_commits_that_nothing_needs_are_forgotten(scene: Scene, monkeypatch):
    app = await make_application(scene.windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    await folder.push(url)
    pushed = scene.windlass.installation.ctx.pushed
    for number in range(3):
        folder.write(other=str(number)).commit("more")
        await folder.push(url, "main:other")
    monkeypatch.setattr("windlass.sources.push.repositories._MAX_PACKS", 2)
    monkeypatch.setattr("windlass.sources.push.repositories._UNREACHABLE_RETENTION_SECONDS", -1)
    await pushed.tidy(app["id"], ())
    assert len([*(pushed.path(app["id"]) / "objects" / "pack").glob("*.pack")]) == 1
    kept = await ask(pushed.path(app["id"]), "for-each-ref", "refs/windlass")
    assert kept == ""
    await ask(folder.path, "fetch", "--quiet", url, "other")


# A killed server


@contextlib.asynccontextmanager
async def server(there: Place) -> AsyncIterator[tuple[Windlass, subprocess.Popen[bytes]]]:
    settings = there.settings
    words = ["serve", "--data-dir", settings.data_dir, "--port", str(settings.port), "--gateway-port", "0"]
    environment = os.environ | {
        "WINDLASS_ADMIN_TOKEN": ADMIN,
        "WINDLASS_ENGINE": "process",
        "WINDLASS_SETTLE_SECONDS": "0.2",
        "WINDLASS_RATE_LIMIT": "1000000",
    }
    with (there.beside / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "windlass", *words], env=environment, stdout=log, stderr=log
        )
    windlass: Any = Windlass(f"http://127.0.0.1:{settings.port}", None)  # type: ignore[arg-type]

    async def answers() -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            answer = await asyncio.to_thread(windlass._called, "GET", "/organization", None)
            return bool(answer.status == 200)
        return False

    try:
        await until(answers)
        yield windlass, process
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait)


async def is_building(windlass: Windlass, app: str) -> None:
    async def builds() -> bool:
        found = await deployments(windlass, app)
        return bool(found) and found[0]["status"] == "BUILDING"

    await until(builds)


@pytest.mark.slow
async def test_a_server_killed_during_a_build_moves_the_branch_after_its_next_start():
    async with pushed_place() as there:
        async with server(there) as (windlass, process):
            app = await make_application(windlass, await make_environment(windlass), **SLOW)
            url, folder = with_token(app["push_url"]), web_folder(there.beside / "web")
            with folder.begin_push(url) as client:
                await is_building(windlass, app["id"])
                process.kill()
                await asyncio.to_thread(client.wait)
            assert client.returncode != 0
        async with server(there) as (windlass, process):
            assert (await ended_deployment(windlass, app["id"]))["status"] == "SUCCEEDED"
            assert folder.git("rev-parse", "HEAD") in await ask(folder.path, "ls-remote", url)
            again = await folder.push(url)
            assert (again.code, "Everything up-to-date" in again.text) == (0, True), again


@pytest.mark.slow
async def test_a_stopping_server_says_that_the_push_continues_later():
    async with pushed_place() as there:
        async with server(there) as (windlass, process):
            app = await make_application(windlass, await make_environment(windlass), **SLOW)
            url, folder = with_token(app["push_url"]), web_folder(there.beside / "web")
            with folder.begin_push(url) as client:
                await is_building(windlass, app["id"])
                process.send_signal(signal.SIGTERM)
                said, _ = await asyncio.to_thread(client.communicate)
            assert b"Windlass stops here" in said, said
        async with server(there) as (windlass, process):
            assert (await ended_deployment(windlass, app["id"]))["status"] == "SUCCEEDED"
            assert folder.git("rev-parse", "HEAD") in await ask(folder.path, "ls-remote", url)


@pytest.mark.slow
async def test_a_server_killed_while_it_receives_has_stored_nothing():
    async with pushed_place() as there:
        async with server(there) as (windlass, process):
            app = await make_application(windlass, await make_environment(windlass))
            path = urlsplit(app["push_url"]).path + "/git-receive-pack"
            connection = http.client.HTTPConnection("127.0.0.1", there.settings.port, timeout=30)
            connection.putrequest("POST", path)
            pair = base64.b64encode(f"x:{ADMIN}".encode()).decode()
            connection.putheader("Authorization", f"Basic {pair}")
            connection.putheader("Content-Type", "application/x-git-receive-pack-request")
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders()
            head = packet(b"%b %b refs/heads/main\0report-status" % (b"0" * 40, b"1" * 40)) + FLUSH_PACKET
            for piece in (head, b"PACK" + b"x" * 2_000_000):
                connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            incoming = there.folder / "repositories" / app["id"] / "incoming"

            async def arrives() -> bool:
                return any(file.stat().st_size > 1_000_000 for file in incoming.glob("*"))

            await until(arrives)
            process.kill()
            connection.close()
        async with server(there) as (windlass, process):
            url, folder = with_token(app["push_url"]), web_folder(there.beside / "web")
            assert [*incoming.iterdir()] == []
            assert await ask(folder.path, "ls-remote", url) == ""
            assert await deployments(windlass, app["id"]) == []
            assert (await folder.push(url)).code == 0


# Large pushes


@pytest.mark.slow
async def test_a_pack_that_git_sends_in_chunks_is_stored():
    """git asks first whether it may, with an empty push, and then sends chunks."""
    async with pushed_place() as there, there.windlass() as windlass:
        app = await make_application(windlass, await make_environment(windlass))
        url, folder = with_token(app["push_url"]), web_folder(there.beside / "web")
        (folder.path / "large").write_bytes(os.urandom(5_000_000))
        folder.commit("large")
        ended = await folder.push(url)
        assert ended.code == 0, ended
        await ask(there.beside, "clone", "--quiet", url, "cloned")
        assert (there.beside / "cloned" / "large").stat().st_size == 5_000_000


async def test_a_push_may_have_more_chunks_than_a_request_of_the_api(scene: Scene):
    app = await make_application(scene.windlass, scene.environment)
    head = packet(b"%b %b refs/heads/main\0report-status" % (b"0" * 40, b"1" * 40)) + FLUSH_PACKET
    pieces = [head, *[b"x"] * 5000]
    incoming = scene.windlass.installation.ctx.pushed.path(app["id"]) / "incoming"
    url = app["push_url"] + "/git-receive-pack"
    status, report = await asyncio.to_thread(post_chunks, url, pieces, lambda: any(incoming.glob("*")))
    assert (status, b"unpack " in report) == (200, True), report
    path = f"{scene.windlass.url}/application/{app['id']}/deploy"
    status, _ = await asyncio.to_thread(post_chunks, path, [b" "] * 5000)
    assert status == 400, "the negative control"


def post_chunks(
    url: str, pieces: list[bytes], is_allowed: Callable[[], bool] = lambda: True
) -> tuple[int, bytes]:
    """`is_allowed`: whether the server has found that this caller may send so much, after the first piece."""
    parts = urlsplit(url)
    with contextlib.closing(
        http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    ) as connection:
        connection.putrequest("POST", parts.path)
        pair = base64.b64encode(f"x:{ADMIN}".encode()).decode()
        token = f"Basic {pair}" if parts.path.startswith("/git/") else f"Token {ADMIN}"
        connection.putheader("Authorization", token)
        kind = "x-git-receive-pack-request" if parts.path.startswith("/git/") else "json"
        connection.putheader("Content-Type", f"application/{kind}")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        with contextlib.suppress(OSError):
            for piece in pieces:
                connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
                while not is_allowed():
                    time.sleep(0.01)
            connection.send(b"0\r\n\r\n")
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.slow
async def test_one_repository_that_cannot_be_joined_does_not_stop_the_housekeeping(scene: Scene, monkeypatch):
    app = await make_application(scene.windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    await folder.push(url)
    ctx = scene.windlass.installation.ctx
    packs = ctx.pushed.path(app["id"]) / "objects" / "pack"
    folder.write(other="more").commit("more")
    await folder.push(url, "main:other")
    tried: list[str] = []

    async def stuck(self: Any, application: str, *words: str) -> bool:
        tried.append(words[0])
        raise TimeoutError

    monkeypatch.setattr("windlass.sources.push.repositories._MAX_PACKS", 2)
    with monkeypatch.context() as patched:
        patched.setattr("windlass.sources.push.repositories.PushedRepositories._try", stuck)
        await sweep_pushed(ctx)
        await sweep_pushed(ctx)
        assert tried == ["gc"], "it is not tried again at once"
        ctx.pushed._paused[app["id"]] = (0.0, 7200.0)
        ctx.pushed._tidied.clear()  # as after another push
        await sweep_pushed(ctx)
        assert tried == ["gc", "gc"]
        assert ctx.pushed._paused[app["id"]][1] == 14400.0
    ctx.pushed._paused[app["id"]] = (0.0, 7200.0)
    ctx.pushed._tidied.clear()  # as after another push
    await sweep_pushed(ctx)
    assert len([*packs.glob("*.pack")]) == 1, "the control"
    assert app["id"] not in ctx.pushed._paused


@pytest.mark.slow
async def test_packs_are_joined_only_if_the_disk_has_room(scene: Scene, monkeypatch):
    app = await make_application(scene.windlass, scene.environment)
    url, folder = with_token(app["push_url"]), web_folder(scene.place.beside / "web")
    await folder.push(url)
    folder.write(other="more").commit("more")
    await folder.push(url, "main:other")
    pushed = scene.windlass.installation.ctx.pushed
    packs = pushed.path(app["id"]) / "objects" / "pack"
    monkeypatch.setattr("windlass.sources.push.repositories._MAX_PACKS", 2)
    monkeypatch.setattr(pushed, "_reserve", 1 << 60)
    await pushed.tidy(app["id"], ())
    assert len([*packs.glob("*.pack")]) == 2
    monkeypatch.undo()
    monkeypatch.setattr("windlass.sources.push.repositories._MAX_PACKS", 2)
    pushed._paused.clear()
    pushed._tidied.clear()  # as after another push
    await pushed.tidy(app["id"], ())
    assert len([*packs.glob("*.pack")]) == 1, "the control"


@pytest.mark.slow
async def test_leftovers_of_killed_processes_are_removed_even_without_a_push(scene: Scene):
    app = await make_application(scene.windlass, scene.environment)
    await web_folder(scene.place.beside / "web").push(with_token(app["push_url"]))
    pushed = scene.windlass.installation.ctx.pushed
    await pushed.tidy(app["id"], ())
    objects = pushed.path(app["id"]) / "objects"
    (objects / "tmp_objdir-incoming-x" / "pack").mkdir(parents=True)
    old, fresh = objects / "pack" / "tmp_pack_old", objects / "pack" / "tmp_pack_fresh"
    for left in (old, fresh, objects / "pack" / ".tmp-1-pack-x.pack"):
        left.write_bytes(b"x")
        if left != fresh:
            os.utime(left, (0, 0))
    os.utime(objects / "tmp_objdir-incoming-x", (0, 0))
    os.utime(objects / "pack", (0, 0))
    pushed._tidied[app["id"]] = time.time() + 1000
    await pushed.tidy(app["id"], ())
    assert [fresh] == [*objects.glob("tmp_*"), *objects.glob("pack/*tmp*"), *objects.glob("pack/.tmp*")]
