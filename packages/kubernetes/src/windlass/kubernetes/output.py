"""Reads the output of Pods during their lifetime, continuing at the last position.

Only one server of a data directory reads. The position of each Pod is kept in a file: a second, and the
number of lines that were read since then, because the API returns lines from a whole second on.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base import filelock
from windlass.base.clock import instant
from windlass.base.log import log
from windlass.engines.engine import Sink
from windlass.engines.workload import OutputLine
from windlass.kubernetes import names
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.documents import Pod
from windlass.kubernetes.instances import app_status, has_ended, is_running, number

MAX_LINE_BYTES: Final = 16 * 1024
MAX_STREAMS: Final = 500
"""Maximum number of Pods of a cluster whose output is followed. That of others is read every few seconds."""
MAX_SHORT_READS: Final = 8
_READ_SILENCE: Final = 30.0
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 5.0
_RETRY_PAUSE: Final = 0.5
_POSITION_BYTES: Final = 256
_UID_PATTERN: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_SECOND_LENGTH: Final = 19
_log = log("engines.kubernetes")

FindPod = Callable[[str, str], Pod | None]
"""Returns the Pod of a namespace and a name as it is now."""


class OutputPosition(Struct):
    restarts: int = 0
    """The restart whose output was read."""
    second: str = ""
    """The second from which lines are counted; empty before the first line."""
    count: int = 0


class OutputPositions:
    """The positions, in one file for each Pod."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, uid: str) -> OutputPosition:
        with suppress(FileNotFoundError, msgspec.MsgspecError):
            return msgspec.json.decode(self._file(uid).read_bytes().rstrip(), type=OutputPosition)
        return OutputPosition()

    def save(self, uid: str, position: OutputPosition) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The file is closed again: a cluster decides how many Pods there are.
        opened = os.open(self._file(uid), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # A single write overwrites the whole position, so a killed process leaves no partial one.
            os.pwrite(opened, msgspec.json.encode(position).ljust(_POSITION_BYTES), 0)
        finally:
            os.close(opened)

    def forget(self, uid: str) -> None:
        self._file(uid).unlink(missing_ok=True)

    def forget_others(self, kept: set[str]) -> None:
        """Removes the positions of Pods that do not exist any more."""
        for path in [*self._folder.glob("*")] if self._folder.is_dir() else ():
            if path.name not in kept:
                self.forget(path.name)

    def _file(self, uid: str) -> Path:
        if not _UID_PATTERN.fullmatch(uid):
            raise ValueError("the uid of a Pod would lead to a file elsewhere")
        return self._folder / uid


class OutputStreams:
    """Limits the connections for output to one cluster. Output that is not followed is read in turns."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._turns = asyncio.Semaphore(MAX_SHORT_READS)

    @asynccontextmanager
    async def opened(self, *, follow: bool) -> AsyncIterator[bool]:
        """Waits for a connection. Yields whether the output is followed; otherwise, it is read to its present
        end."""
        if follow and self._free > 0:
            self._free -= 1
            try:
                yield True
            finally:
                self._free += 1
            return
        async with self._turns:
            yield False


class OutputLock:
    """A lock among servers that share a data directory. The server that holds it reads the output."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: int | None = None

    @property
    def ours(self) -> bool:
        if self._held is None:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._held = filelock.try_hold(self._file)
        return self._held is not None

    async def come(self) -> None:
        while not self.ours:  # noqa: ASYNC110 (another process has it)
            await asyncio.sleep(_RETRY_PAUSE)

    def give_back(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


class PodFollower:
    """Reads one Pod until it is gone."""

    def __init__(
        self,
        api: ClusterApi,
        pod: Pod,
        index: int,
        find: FindPod,
        positions: OutputPositions,
        turn: OutputLock,
        streams: OutputStreams,
        sink: Sink,
    ) -> None:
        self._api, self._find, self._sink = api, find, sink
        self._positions, self._turn, self._streams = positions, turn, streams
        self._namespace, self._name, self._uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
        self._service, self._version = pod.label(names.SERVICE), pod.label(names.DEPLOYMENT)
        self._title = names.instance_name(
            pod.label(names.LINES_NAME), number(pod.label(names.GENERATION)), index
        )
        self._position = positions.load(self._uid)
        self._changed = asyncio.Event()
        self._read_to_end = -1
        """The restart whose output was read to its end."""
        self._is_silent = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Notes that the Pod has changed."""
        self._changed.set()

    def say(self, message: str, at: int) -> None:
        """Adds a line of Windlass to the output."""
        self._sink(self._service, [OutputLine(at, f"[windlass] {message}", self._title, self._version)])

    async def until_silent(self, timeout: float) -> None:
        """Waits until all output of an ended Pod was passed on, if this server reads it."""
        if not self._turn.ours:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._is_silent.wait()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def when_over(self, done: Callable[[], None]) -> None:
        """Calls a function when the Pod is gone, or the follower was stopped."""
        self._task.add_done_callback(lambda task: done())

    def _pod(self) -> Pod | None:
        found = self._find(self._namespace, self._name)
        return found if found is not None and found.metadata.uid == self._uid else None

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._turn.come()
            self._changed.clear()
            if (pod := self._pod()) is None:
                break
            try:
                await self._read_new(pod)
                pause = _FIRST_PAUSE
            except ClusterUnavailable:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)
                continue
            except ClusterRefusal as refused:
                if not refused.is_absent and refused.status != 400:  # 400: its container does not exist yet
                    _log.warning("output cannot be read", extra={"pod": self._name, "why": str(refused)})
                if not self._is_done():
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _MAX_PAUSE)
                    continue
            except OSError as error:  # the disk may be full: reading is tried again
                _log.warning("output cannot be kept", extra={"pod": self._name, "why": repr(error)})
                await asyncio.sleep(_MAX_PAUSE)
                continue
            if self._is_done():
                self._is_silent.set()
            await self._next_change()
        self._is_silent.set()
        self._positions.forget(self._uid)

    async def _next_change(self) -> None:
        """Waits until the Pod changes. One that still runs is read again after a while: its output may have
        ended because of a connection."""
        pod = self._pod()
        try:
            async with asyncio.timeout(_MAX_PAUSE if pod is not None and is_running(pod) else None):
                await self._changed.wait()
        except TimeoutError:
            self._read_to_end = -1

    def _is_done(self) -> bool:
        """Returns whether the Pod writes no more output."""
        pod = self._pod()
        return pod is None or has_ended(pod)

    async def _read_new(self, pod: Pod) -> None:
        """Reads what the Pod has written since the last time, and follows it while it runs."""
        status = app_status(pod)
        if status is None or not (
            status.state.running or status.state.terminated or status.last_state.terminated
        ):
            return
        restarts = status.restart_count
        if self._position.restarts < restarts:
            if self._position.restarts == restarts - 1 and self._read_to_end != restarts - 1:
                with suppress(ClusterRefusal):  # the container before may be gone
                    await self._read(previous=True, follow=False)
            self._begin(restarts)
        if self._read_to_end != restarts:
            await self._read(previous=False, follow=is_running(pod))
            self._read_to_end = restarts

    def _begin(self, restarts: int) -> None:
        self._position = OutputPosition(restarts=restarts)
        self._positions.save(self._uid, self._position)

    async def _read(self, *, previous: bool, follow: bool) -> None:
        async with self._streams.opened(follow=follow) as is_followed:
            await self._read_stream(previous=previous, follow=is_followed)

    async def _read_stream(self, *, previous: bool, follow: bool) -> None:
        position = self._position
        params = {"container": names.CONTAINER, "timestamps": "true"}
        params |= {"previous": "true"} if previous else {}
        params |= {"follow": "true"} if follow else {}
        skipped = 0
        if position.second:
            params["sinceTime"] = f"{position.second}Z"
            skipped = position.count
        path = f"/api/v1/namespaces/{self._namespace}/pods/{self._name}/log"
        rest = b""
        silence = None if follow else _READ_SILENCE
        async with self._api.stream(path, params, silence=silence) as pieces:
            async for piece in pieces:
                *whole, rest = (rest + piece).split(b"\n")
                while len(rest) > 4 * MAX_LINE_BYTES:  # a line without an end
                    whole.append(rest[:MAX_LINE_BYTES])
                    rest = rest[MAX_LINE_BYTES:]
                skipped = self._pass_on(whole, skipped)
            if rest:
                self._pass_on([rest], skipped)

    def _pass_on(self, lines: Sequence[bytes], skipped: int) -> int:
        """Hands over new lines. Returns how many of the following lines were read before."""
        new = lines[skipped:]
        if new:
            made: list[OutputLine] = []
            position = self._position
            for line in new:
                stamp, _, text = line.partition(b" ")
                second = stamp[:_SECOND_LENGTH].decode(errors="replace")
                if second != position.second and second > position.second:
                    position.second, position.count = second, 0
                position.count += 1
                made += self._output_lines(stamp.decode(errors="replace"), text)
            self._sink(self._service, made)
            self._positions.save(self._uid, position)
        return max(0, skipped - len(lines))

    def _output_lines(self, stamp: str, text: bytes) -> list[OutputLine]:
        at, whole = _milliseconds(stamp), text.rstrip(b"\r")
        cuts = range(0, len(whole), MAX_LINE_BYTES) or (0,)
        return [
            OutputLine(
                at, whole[cut : cut + MAX_LINE_BYTES].decode(errors="replace"), self._title, self._version
            )
            for cut in cuts
        ]


def _milliseconds(stamp: str) -> int:
    fraction = stamp[_SECOND_LENGTH + 1 : _SECOND_LENGTH + 4]
    return _second(stamp[:_SECOND_LENGTH]) + (number(fraction) if len(fraction) == 3 else 0)


@lru_cache(64)
def _second(stamp: str) -> int:
    try:
        return instant(datetime.fromisoformat(f"{stamp}+00:00"))
    except ValueError:
        return 0
