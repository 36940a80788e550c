"""Files of static sites are read so that neither a slow client nor a slow disk holds up others."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.gateway.routers.sites import FILES, PAGE, serve
from tests.gateway.routers.town import request, route, until
from windlass.routers.builtin import site_files
from windlass.routers.builtin.site_files import KeptValues, SharedFile

LARGE = os.urandom(1024) * 4096
"""4 MB."""


@pytest.fixture(params=["in memory", "on a disk"])
def kernel(request, monkeypatch):
    """A kernel that has all pieces in memory, or none."""
    if request.param == "on a disk":
        monkeypatch.setattr(SharedFile, "read_now", lambda file, at, size: None)


async def test_a_site_is_unreadable_while_the_kernel_gives_no_thread_and_readable_afterwards(
    town, tmp_path, monkeypatch
):
    async def refuse(*given: object) -> None:
        raise RuntimeError("can't start new thread")

    await serve(town, tmp_path, FILES)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "to_thread", refuse)
        assert (await town.ask(request("/"))).status == 503
    assert (await town.ask(request("/"))).body == PAGE


async def test_a_large_file_arrives_whole(town, tmp_path, kernel):
    await serve(town, tmp_path, {**FILES, "film.mp4": LARGE})
    caller = await town.caller()
    said = await caller.ask(request("/film.mp4"))
    assert said.body == LARGE
    part = await caller.ask(request("/film.mp4", "GET", "shop.localhost", "Range: bytes=1000-2000999"))
    assert part.body == LARGE[1000:2001000]
    assert (await caller.ask(request("/"))).body == PAGE


async def test_requests_after_a_large_file_wait_for_its_end(town, tmp_path, kernel):
    await serve(town, tmp_path, {**FILES, "film.mp4": LARGE})
    caller = await town.caller()
    await caller.send(request("/film.mp4") + request("/"))
    assert [(await caller.said()).body for _ in range(2)] == [LARGE, PAGE]


async def test_a_client_that_does_not_read_delays_no_other(town, tmp_path, kernel):
    await serve(town, tmp_path, {**FILES, "film.mp4": LARGE * 8})
    idle = await town.caller()
    idle.out.transport.pause_reading()
    await idle.send(request("/film.mp4"))
    (client,) = town.router._shared.connections.members
    await until(lambda: client._blocked)
    assert client.transport.get_write_buffer_size() < 2 * site_files.CHUNK_BYTES + 64 * 1024
    assert (await town.ask(request("/"))).body == PAGE
    idle.out.transport.resume_reading()
    assert (await idle.said()).body == LARGE * 8


async def test_a_client_that_disconnects_during_a_download_leaves_no_file_open(town, tmp_path, kernel):
    await serve(town, tmp_path, {**FILES, "film.mp4": LARGE * 8})
    caller = await town.caller()
    await caller.send(request("/film.mp4"))
    await caller.reader.readexactly(1000)
    (opened,) = town.router._shared.sites.files.opened._values.values()
    await caller.close()
    await until(lambda: not town.router.connections and opened._users == 1)
    town.router._shared.sites.files.clear()
    assert opened._users == 0
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(opened._file)


async def test_a_file_truncated_during_a_download_breaks_the_answer_off(town, tmp_path, kernel):
    release = await serve(town, tmp_path, {**FILES, "film.mp4": LARGE})
    await town.ask(request("/"))
    (film,) = [file for file in release.iterdir() if file.stat().st_size == len(LARGE)]
    os.truncate(film, 1_000_000)
    caller = await town.caller()
    await caller.send(request("/film.mp4") + request("/"))
    answer = await caller.rest()
    assert answer.partition(b"\r\n\r\n")[2] == LARGE[:1_000_000]


async def test_a_small_file_that_became_shorter_is_not_sent(town, tmp_path):
    release = await serve(town, tmp_path)
    (photo,) = [file for file in release.iterdir() if file.stat().st_size == 1024]
    os.truncate(photo, 1000)
    assert (await town.ask(request("/photo.png"))).status == 503


async def test_a_download_in_progress_completes_from_its_release_after_a_new_one_is_published(
    town, tmp_path, kernel
):
    await serve(town, tmp_path / "one", {"film.mp4": LARGE * 8, "index.html": b"one"})
    caller = await town.caller()
    await caller.send(request("/film.mp4"))
    head = await caller.reader.readuntil(b"\r\n\r\n")
    await serve(town, tmp_path / "two", {"index.html": b"two"})
    assert (await town.ask(request("/"))).body == b"two"
    for file in (tmp_path / "one/release").iterdir():
        file.unlink()
    assert b"200 OK" in head
    assert await caller.reader.readexactly(8 * len(LARGE)) == LARGE * 8
    assert (await caller.ask(request("/film.mp4"))).status == 404


async def test_a_download_goes_on_while_its_router_retires(town, tmp_path):
    await serve(town, tmp_path, {**FILES, "film.mp4": LARGE * 8})
    caller = await town.caller()
    await caller.send(request("/film.mp4"))
    await caller.reader.readuntil(b"\r\n\r\n")
    retiring = asyncio.create_task(town.router.retire(60))
    await until(lambda: town.router._shared.stopping)
    assert town.router._shared.files_sent == 1
    assert await caller.reader.readexactly(8 * len(LARGE)) == LARGE * 8
    await retiring
    assert town.router._shared.files_sent == 0


async def test_a_hanging_disk_delays_only_requests_that_read_files(town, tmp_path, monkeypatch):
    hanging, free = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    shop = await town.instance("blog")
    await town.router.set("blog", [route([shop.endpoint], "blog", ["blog.localhost"])])
    await serve(town, tmp_path)
    plain = site_files._read_content

    def hang(path, size):
        loop.call_soon_threadsafe(hanging.set)
        asyncio.run_coroutine_threadsafe(free.wait(), loop).result()
        return plain(path, size)

    await town.ask(request("/about"))
    monkeypatch.setattr(site_files, "_read_content", hang)
    waiting = [asyncio.create_task(town.ask(request("/"))) for _ in range(3)]
    await hanging.wait()
    assert (await town.ask(request(host="blog.localhost"))).body == b"blog"
    assert (await town.ask(request("/about"))).body == FILES["about.html"]
    free.set()
    assert {(await task).body for task in waiting} == {PAGE}


async def test_concurrent_requests_for_a_file_load_it_once(town, tmp_path, monkeypatch):
    loaded: list[str] = []
    plain = site_files._read_content

    def note(path, size):
        loaded.append(path)
        return plain(path, size)

    monkeypatch.setattr(site_files, "_read_content", note)
    await serve(town, tmp_path)
    said = await asyncio.gather(*(town.ask(request("/")) for _ in range(20)))
    assert {answer.body for answer in said} == {PAGE}
    assert len(loaded) == 1


def test_the_cache_evicts_the_least_recently_added_values_at_its_size_limit():
    dropped: list[bytes] = []
    kept = KeptValues(10, len, dropped.append)
    for value in (b"aaaa", b"bbbb", b"cccc"):
        kept.put(value.decode(), value)
    assert (kept.get("aaaa"), kept.get("bbbb"), dropped, kept.total) == (None, b"bbbb", [b"aaaa"], 8)
    kept.put("cccc", b"c")
    assert (kept.total, len(kept)) == (5, 2)
    kept.put("large", b"x" * 20)
    assert (kept.total, len(kept)) == (20, 1)
    kept.clear()
    assert (kept.total, len(kept)) == (0, 0)
