"""Reads commits, branches and files of repositories for API requests, with limited concurrency and shared
results.

A read starts processes and connects to another server. It has a timeout, and is cancelled if no caller waits
for it any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Final, NamedTuple, Protocol, TypeVar, cast

from msgspec import Struct

from windlass.base.errors import Unavailable
from windlass.sources.git import GitCommit, GitError, GitSource

READ_TIMEOUT: Final = 20.0
CACHE_SECONDS: Final = 5.0
"""Seconds for which a result is cached."""
LOOK_SECONDS: Final = 60.0
"""The timeout of a read of a commit's files, which fetches all of them."""
MAX_READS, MAX_READS_OF_ORG, MAX_READS_OF_CALLER = 8, 4, 3
"""The largest numbers of concurrent reads: in total, of one organization, and of one caller in it."""
SPARE_READS, SPARE_READS_OF_CALLERS = 4, 2
"""Additional concurrent reads: for organizations without a read in progress, and for callers without one."""


PLACE_TIMEOUT: Final = 30.0
"""Seconds for which a push or a fetch waits for a place, because git does not try again."""
_NO_PLACE: Final = "Ask again in a few seconds: as many repositories as possible are being read now"


T = TypeVar("T")


class GitReader(Protocol):
    """Reads commits and default branches of repositories, without limits or a cache."""

    async def commits(self, source: GitSource) -> Sequence[GitCommit]: ...

    async def head(self, source: GitSource) -> tuple[str, str]: ...


class ReadKey(Struct, frozen=True):
    org: str
    service: str
    """The id of the service; empty if it does not exist yet."""
    source: GitSource
    purpose: str = ""
    """The purpose of the read, which separates different reads of the same repository."""


class ReadCaller(NamedTuple):
    """The caller that starts a read. Its result is shared with all callers of the organization."""

    org: str
    caller: str


class RunningRead(Struct, eq=False):
    task: asyncio.Task[object]
    waiting: int = 0
    ended: float | None = None


class LimitedGitReader:
    """Reads repositories for requests with limited concurrency. Concurrent callers share one read."""

    def __init__(
        self, git: GitReader, *, seconds: float = READ_TIMEOUT, cache_seconds: float = CACHE_SECONDS
    ) -> None:
        self._git = git
        self._seconds, self._kept = seconds, cache_seconds
        self._reads: dict[ReadKey, RunningRead] = {}
        """Reads in progress, and reads whose results are cached."""
        self._running: dict[asyncio.Task[object], ReadCaller] = {}

    async def commits(self, reader: ReadCaller, service: str, source: GitSource) -> Sequence[GitCommit]:
        commits = await self._read(reader, ReadKey(reader.org, service, source), self._git.commits)
        return cast(Sequence[GitCommit], commits)

    async def default_branch(self, reader: ReadCaller, source: GitSource) -> str:
        key = ReadKey(reader.org, "", source)
        name, _ = cast(tuple[str, str], await self._read(reader, key, self._git.head))
        return name

    async def branches(
        self,
        reader: ReadCaller,
        source: GitSource,
        read_source: Callable[[GitSource], Awaitable[Sequence[str]]],
    ) -> Sequence[str]:
        key = ReadKey(reader.org, "", source, "branches")
        return cast(Sequence[str], await self._read(reader, key, read_source))

    async def look(
        self,
        reader: ReadCaller,
        source: GitSource,
        purpose: str,
        read_files: Callable[[GitSource], Awaitable[T]],
    ) -> T:
        """Reads the files of a commit with `read_files`. Callers with the same `purpose` share one result."""
        key = ReadKey(reader.org, "", source, purpose)
        return cast(T, await self._read(reader, key, read_files, LOOK_SECONDS))

    async def _read(
        self,
        reader: ReadCaller,
        key: ReadKey,
        read_source: Callable[[GitSource], Awaitable[object]],
        seconds: float | None = None,
    ) -> object:
        self._forget_old()
        read = self._reads.get(key) or self._start(reader, key, read_source, seconds or self._seconds)
        read.waiting += 1
        try:
            return await asyncio.shield(read.task)
        finally:
            read.waiting -= 1
            if not read.waiting and not read.task.done():
                self._reads.pop(key, None)
                read.task.cancel()

    async def stop(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _start(
        self,
        reader: ReadCaller,
        key: ReadKey,
        read_source: Callable[[GitSource], Awaitable[object]],
        seconds: float,
    ) -> RunningRead:
        if not has_place(reader, [*self._running.values()]):
            raise Unavailable(_NO_PLACE, {"retry-after": "5"})
        task = asyncio.create_task(_read_in_time(key.source, read_source, seconds))
        read = self._reads[key] = RunningRead(task)
        self._running[task] = reader
        task.add_done_callback(lambda task: self._end(task, read))
        return read

    def _end(self, task: asyncio.Task[object], running_read: RunningRead) -> None:
        self._running.pop(task)
        running_read.ended = time.monotonic()
        with suppress(asyncio.CancelledError):
            task.exception()  # marks the error as retrieved, so that asyncio does not log it

    def _forget_old(self) -> None:
        old = time.monotonic() - self._kept
        self._reads = {
            key: read for key, read in self._reads.items() if read.ended is None or read.ended > old
        }


def has_place(reader: ReadCaller, running_reads: Sequence[ReadCaller]) -> bool:
    """Returns whether another read may start. Organizations and callers without a read in progress have spare
    capacity, so that busy ones do not delay them."""
    of_org = sum(other.org == reader.org for other in running_reads)
    of_caller = running_reads.count(reader)
    besides = 0 if of_caller else SPARE_READS_OF_CALLERS
    most = MAX_READS + besides + (0 if of_org else SPARE_READS)
    return (
        len(running_reads) < most and of_org < MAX_READS_OF_ORG + besides and of_caller < MAX_READS_OF_CALLER
    )


class GitPlaces:
    """Limits the processes of git that pushes and fetches start, in the numbers of other reads."""

    def __init__(self) -> None:
        self._running: list[ReadCaller] = []
        self._freed = asyncio.Event()

    async def enter(self, caller: ReadCaller, stack: ExitStack, seconds: float | None = None) -> None:
        """Takes a place, which `stack` frees: when the process has ended, whatever its client does. Raises
        Unavailable if none becomes free in time."""
        try:
            async with asyncio.timeout(PLACE_TIMEOUT if seconds is None else seconds):
                while not has_place(caller, self._running):
                    await self._freed.wait()
        except TimeoutError as error:
            raise Unavailable(_NO_PLACE, {"retry-after": "5"}) from error
        self._running.append(caller)
        stack.callback(self._leave, caller)

    def _leave(self, caller: ReadCaller) -> None:
        self._running.remove(caller)
        self._freed.set()
        self._freed = asyncio.Event()


async def _read_in_time(
    source: GitSource, read_source: Callable[[GitSource], Awaitable[object]], seconds: float
) -> object:
    try:
        async with asyncio.timeout(seconds):
            return await read_source(source)
    except TimeoutError as error:
        raise GitError(f"it did not answer within {seconds:g} seconds.") from error
