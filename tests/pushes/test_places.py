"""One caller starts few processes of git, and none runs for ever for a client that does not read."""

from __future__ import annotations

import asyncio
import base64
import gzip
import threading
import urllib.request
import zlib
from asyncio import to_thread
from contextlib import ExitStack, aclosing
from types import SimpleNamespace
from typing import Any

import pytest

from tests.pushes.conftest import Scene
from tests.pushes.pushing import Folder, deployments, make_application, run, web_folder, with_token
from tests.pushes.test_interrupted import post_chunks
from tests.pushes.test_refusals import KIND, got
from tests.world import ADMIN
from windlass.api import git_requests
from windlass.base.errors import Unavailable
from windlass.control.context import git_reader
from windlass.control.context.git_reader import GitPlaces, ReadCaller
from windlass.sources.push.commands import FLUSH_PACKET, packet

LISTS = ("/info/refs?service=git-upload-pack", "/info/refs?service=git-receive-pack")


@pytest.fixture
async def app(scene: Scene) -> Any:
    return await make_application(scene.windlass, scene.environment)


@pytest.fixture
def folder(scene: Scene) -> Folder:
    return web_folder(scene.place.beside / "web")


@pytest.mark.slow
async def test_a_caller_at_the_limit_of_git_reads_waits_and_then_gets_503(
    scene: Scene, app: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    url = with_token(app["push_url"])
    assert (await folder.push(url)).code == 0
    monkeypatch.setattr(git_reader, "PLACE_TIMEOUT", 0.05)
    monkeypatch.setattr(git_reader, "MAX_READS_OF_CALLER", 0)
    for path in LISTS:
        status, text, _ = await got(app["push_url"] + path)
        assert (status, "as many repositories as possible" in text) == (503, True), text
    cloned = await to_thread(run, scene.place.beside, "clone", url, "cloned", check=False)
    assert (cloned.returncode, "503" in cloned.stderr) == (128, True), cloned
    monkeypatch.undo()
    for path in LISTS:
        assert (await got(app["push_url"] + path))[0] == 200, "the control"
    for _ in range(2 * git_reader.MAX_READS_OF_CALLER):  # each place is freed
        await to_thread(run, folder.path, "ls-remote", url)
    await to_thread(run, scene.place.beside, "clone", "--quiet", url, "cloned")
    folder.write(text="two").commit("two")
    assert (await folder.push(url)).code == 0


async def test_a_place_is_free_again_when_its_holder_has_left():
    places, caller = GitPlaces(), ReadCaller("org", "caller")
    with ExitStack() as others:
        for _ in range(git_reader.MAX_READS_OF_CALLER):
            await places.enter(caller, others)
        with ExitStack() as held:
            with pytest.raises(Unavailable):
                await places.enter(caller, held, 0.01)
            await places.enter(ReadCaller("org", "another"), held)
            waiting = asyncio.create_task(places.enter(caller, held))
            await asyncio.sleep(0)
            assert not waiting.done()
            others.close()
            await waiting


@pytest.mark.slow
async def test_git_is_stopped_although_its_client_never_reads(
    scene: Scene, app: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    """The answer is larger than what the pipe and the server hold, so git waits for its client."""
    pushed = scene.windlass.installation.ctx.pushed
    pushed.most = 100_000_000
    (folder.path / "large").write_bytes(b"".join(b"%064x\n" % (n * 7919**9) for n in range(150_000)))
    commit = folder.commit("large")
    await folder.push(with_token(app["push_url"]), "main:other")
    asked = packet(f"want {commit}\n".encode()) + FLUSH_PACKET + packet(b"done\n")
    stopped = asyncio.Event()
    monkeypatch.setattr("windlass.sources.push.repositories._TIMEOUT", 0.5)

    with pushed.spool(app["id"], asked) as spool:
        async with aclosing(pushed.send(app["id"], spool, "", stopped.set)) as pieces:
            assert await anext(pieces)
            await asyncio.wait_for(stopped.wait(), 30)
            with pytest.raises(TimeoutError):
                async for _ in pieces:
                    pass


async def test_a_push_that_has_arrived_waits_for_a_place(
    scene: Scene, app: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    url, places = with_token(app["push_url"]), []
    entered = GitPlaces.enter

    async def enter(self: GitPlaces, caller: ReadCaller, held: ExitStack, seconds: float | None = None):
        places.append(len(self._running))
        await entered(self, caller, held, seconds)

    monkeypatch.setattr(GitPlaces, "enter", enter)
    assert (await folder.push(url)).code == 0
    assert len(places) == 3, "the list of refs, the decision and the objects"


@pytest.mark.slow
async def test_a_token_that_is_revoked_while_its_push_arrives_deploys_nothing(
    scene: Scene, app: Any, monkeypatch: pytest.MonkeyPatch
):
    org = (await scene.windlass.call("GET", "/organization"))["id"]
    folder = web_folder(scene.place.beside / "slow")
    entered = GitPlaces.enter
    revoked: list[str] = []

    async def enter(self: GitPlaces, caller: ReadCaller, held: ExitStack, seconds: float | None = None):
        await entered(self, caller, held, seconds)
        if seconds is not None and revoked:  # all objects have arrived
            await scene.windlass.call("DELETE", revoked.pop())

    monkeypatch.setattr(GitPlaces, "enter", enter)
    for is_revoked in (True, False):
        body = {"name": f"ci {is_revoked}", "scopes": ["Deploy"]}
        made = await scene.windlass.call("POST", f"/organization/{org}/apiToken", body)
        if is_revoked:
            revoked.append(f"/organization/{org}/apiToken/{made['id']}")
        ended = await folder.push(with_token(app["push_url"], made["token"]))
        assert ("this token may not do that any more" in ended.text) is is_revoked, ended
        assert bool(await deployments(scene.windlass, app["id"])) is not is_revoked, "the control"


async def test_a_push_has_to_arrive_within_its_time(scene: Scene, app: Any, monkeypatch: pytest.MonkeyPatch):
    head = packet(b"%b %b refs/heads/main\0report-status" % (b"0" * 40, b"1" * 40)) + FLUSH_PACKET
    url, incoming = (
        app["push_url"] + "/git-receive-pack",
        scene.windlass.installation.ctx.pushed.path(app["id"]),
    )
    arrived: list[None] = []

    def go_on() -> bool:
        arrived.append(None)
        return len(arrived) > 100 or bool([*incoming.glob("incoming/*")])

    monkeypatch.setattr("windlass.api.git_requests._PUSH_TIMEOUT", 0.0)
    status, text = await to_thread(post_chunks, url, [head, b"PACK"], go_on)
    assert (status, b"has to arrive within" in text) == (413, True), text
    monkeypatch.undo()
    arrived.clear()
    status, text = await to_thread(post_chunks, url, [head, b"PACK"], go_on)
    assert (status, b"unpack " in text) == (200, True), text


async def test_the_pushes_of_one_caller_at_once_are_few(
    scene: Scene, app: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("windlass.api.git_requests._MAX_TRANSFERS_OF_CALLER", 0)
    ended = await folder.push(with_token(app["push_url"]))
    assert (ended.code, "others of this caller are under way" in ended.text) == (1, True), ended
    monkeypatch.undo()
    assert (await folder.push(with_token(app["push_url"]))).code == 0


async def test_a_packed_body_is_unpacked_in_a_thread_and_not_at_all_once_it_is_refused(
    scene: Scene, app: Any, monkeypatch: pytest.MonkeyPatch
):
    """64 KiB of it become 64 MiB."""
    sizes: list[int] = []
    scene.windlass.installation.ctx.pushed.most = 1_500_000

    class Unpacking:
        def __init__(self, bits: int) -> None:
            self._inner = zlib.decompressobj(bits)

        def decompress(self, data: bytes, most: int) -> bytes:
            assert threading.current_thread() is not threading.main_thread()
            piece = self._inner.decompress(data, most)
            sizes.append(len(piece))
            return piece

        @property
        def unconsumed_tail(self) -> bytes:
            return self._inner.unconsumed_tail

    monkeypatch.setattr(git_requests, "zlib", SimpleNamespace(decompressobj=Unpacking, error=zlib.error))
    for ref, why, most in (("refs/pull/1/head", b"only branches", 1), ("refs/heads/main", b"larger than", 2)):
        sizes.clear()
        head = packet(b"%b %b %b\0report-status" % (b"0" * 40, b"1" * 40, ref.encode())) + FLUSH_PACKET
        body = gzip.compress(head + bytes(64 * 1024**2))
        status, text = await to_thread(post_packed, app["push_url"] + "/git-receive-pack", body)
        assert (status, why in text) == (200, True), text
        assert 0 < sum(sizes) <= (most + 1) * 1024**2, sizes


def post_packed(url: str, body: bytes) -> tuple[int, bytes]:
    pair = base64.b64encode(f"git:{ADMIN}".encode()).decode()
    headers = {"Authorization": f"Basic {pair}", "Content-Type": KIND, "Content-Encoding": "gzip"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        return answer.status, answer.read()
