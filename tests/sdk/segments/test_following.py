"""A follower of a log gets each line once, and is told of gaps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sdk.segments.lines import NOON, PLENTY, SMALL, messages, numbered, said, whole
from windlass.base.segments import Gone, Segments, line_filter


class Reader:
    """Follows, and keeps what came."""

    def __init__(self, lines: AsyncIterator[list[bytes] | Gone]) -> None:
        self.lines: list[str] = []
        self.came = asyncio.Event()
        self.task = asyncio.create_task(self._read(lines))

    async def _read(self, lines: AsyncIterator[list[bytes] | Gone]) -> None:
        async for piece in lines:
            found = [] if isinstance(piece, Gone) else [json.loads(line) for line in piece]
            self.lines += ["GONE"] if isinstance(piece, Gone) else [line["message"] for line in found]
            self.came.set()

    async def has(self, count: int) -> list[str]:
        async with asyncio.timeout(20):
            while len(self.lines) < count:
                assert not self.task.done()
                self.came.clear()
                await self.came.wait()
        return self.lines

    async def stop(self) -> list[str]:
        self.task.cancel()
        await asyncio.wait([self.task])
        return self.lines


async def test_a_follower_gets_existing_lines_and_then_each_new_line_once_across_rotations(log: Segments):
    log.append("a", numbered(0, 100, 200))
    readers = [Reader(log.follow("a", 10)), Reader(log.follow("a", 0)), Reader(log.follow("b", 10))]
    await readers[0].has(10)
    number = 100
    for size in [1, 0, 3, 50, 200, 1, 7] * 5:
        log.append("a", numbered(number, number + size, 200))
        number += size
        if size != 3:
            await asyncio.sleep(0)
    log.append("b", said("elsewhere"))
    every = [one.message for one in numbered(0, number, 200)]
    assert await readers[0].has(number - 90) == every[90:]
    assert await readers[1].has(number - 100) == every[100:]
    assert await readers[2].has(1) == ["elsewhere"]
    for reader in readers:
        await reader.stop()
    assert log._followers == {}


async def test_a_follower_resumes_after_its_last_line(log: Segments):
    log.append("a", numbered(0, 500, 50))
    found = log.tail("a", 500)
    for number in (0, 250, 499):
        reader = Reader(log.follow("a", 3, after_line=json.loads(found[number])["id"]))
        log.append("a", said("more"))
        assert (await reader.has(499 - number + 1))[-1] == "more"
        assert reader.lines[: 499 - number] == [one.message for one in numbered(number + 1, 500, 50)]
        await reader.stop()


@pytest.mark.parametrize("id", ["nonsense", "00000000-0000-8000-8000-000000000000", ""])
async def test_a_follower_learns_that_its_last_line_is_gone(log: Segments, id: str):
    log.append("a", numbered(0, 5))
    reader = Reader(log.follow("a", 2, after_line=id))
    assert await reader.has(3) == ["GONE", "line 3", "line 4"]
    await reader.stop()


async def test_a_slow_follower_learns_how_many_lines_it_missed(root: Path):
    log = Segments(root, SMALL)
    log.append("a", numbered(0, 10))
    follower = log.follow("a", 10)
    assert len(await anext(follower)) == 10  # type: ignore[arg-type]
    log.append("a", numbered(10, 3000))
    assert isinstance(await anext(follower), Gone)
    rest: list[str] = []
    while len(rest) == 0 or rest[-1] != "line 2999":
        rest += messages(await anext(follower))  # type: ignore[arg-type]
    assert rest == whole(log)
    await follower.aclose()


async def test_followers_of_a_deleted_log_stream_end(log: Segments):
    log.append("a", said("last words"))
    readers = [Reader(log.follow("a", 1)), Reader(log.follow("a/build-1", 1))]
    await readers[0].has(1)
    log.forget("a")
    async with asyncio.timeout(20):
        for reader in readers:
            await reader.task
    assert readers[0].lines == ["last words"]


async def test_a_follower_sees_what_another_process_writes(root: Path):
    log, other = Segments(root, PLENTY, size=4096), Segments(root, PLENTY, size=4096)
    reader = Reader(log.follow("a", 1))
    await asyncio.sleep(0)
    other.append("a", numbered(0, 100, 100))
    assert await reader.has(100) == [one.message for one in numbered(0, 100, 100)]
    await reader.stop()


async def test_a_follower_may_filter_lines(log: Segments):
    log.append("a", numbered(0, 300, 100))
    reader = Reader(log.follow("a", 2, line_filter(contains="7.", since=NOON + 100)))
    assert [line.strip(".") for line in await reader.has(2)] == ["line 287", "line 297"]
    log.append("a", numbered(300, 320, 100))
    assert [line.strip(".") for line in await reader.has(4)][2:] == ["line 307", "line 317"]
    await reader.stop()
