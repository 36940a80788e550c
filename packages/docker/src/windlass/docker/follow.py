"""Reads the output of a container during its lifetime, continuing at the last position."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

from windlass.base.log import log
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.raw_connection import pieces
from windlass.docker.inspection import milliseconds
from windlass.docker.output_budget import OutputBudget
from windlass.docker.position import MAX_DISORDER_MS, Position, Positions
from windlass.docker.reader_lock import ReaderLock
from windlass.engines.workload import OutputLine

MAX_LINE_BYTES: Final = 16 * 1024
LAST_LINES: Final = 1000
"""Number of the last lines that are read after a pause, if the program wrote too much."""
FIRST_PAUSE: Final = 0.1
MAX_PAUSE: Final = 5.0
REMOVAL_ERROR: Final = "marked for removal"

_log = log("engines.docker")


class ContainerOutput(Struct, frozen=True):
    """The source of output: a container and its service."""

    container: str
    service: str
    pod: str
    version: str


Write = Callable[[str, Sequence[OutputLine]], None]


class ContainerFollower:
    def __init__(
        self,
        docker: Docker,
        positions: Positions,
        turn: ReaderLock,
        source: ContainerOutput,
        budget: OutputBudget,
        write: Write,
    ) -> None:
        self._docker = docker
        self._turn = turn
        self._positions = positions
        self._source, self._budget = source, budget
        self._is_behind = False
        """Whether the program has written more than its budget allows. Only its last lines are read next."""
        self._write = write
        self._woken, self._hurried = asyncio.Event(), asyncio.Event()
        self._silent = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Continues reading, because the container was started again."""
        self._woken.set()
        self.hurry()

    def hurry(self) -> None:
        """Ends the current pause, because the container has stopped."""
        self._hurried.set()

    async def wait_until_read(self, timeout: float) -> None:
        """Waits until all output of a stopped container was passed on."""
        self.hurry()
        try:
            async with asyncio.timeout(timeout):
                await self._silent.wait()
        except TimeoutError:
            _log.warning("the last output of an instance may be lost", extra={"pod": self._source.pod})

    @property
    def service(self) -> str:
        return self._source.service

    @property
    def org(self) -> str:
        return self._budget.org

    @property
    def over(self) -> bool:
        return self._task.done()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._budget.end()
        self._positions.let_go(self._source.container)

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._woken.clear()
            try:
                await self._turn.come()
                await self._read(follow=True)
                runs = await self._is_running()
                if not runs:  # an engine may end the stream before the last line
                    await self._read(follow=False)
                pause = FIRST_PAUSE
            except Away:
                pause = await _next_pause(pause)
                continue
            except EngineRefused as refused:
                if refused.status == 404:
                    break
                if REMOVAL_ERROR not in refused.message:
                    _log.warning(
                        "the output of an instance cannot be read", extra=self._log_fields(refused.message)
                    )
                pause = await _next_pause(pause)
                continue
            except OSError as error:  # the disk may be full: reading is retried later
                _log.warning("the output of an instance cannot be kept", extra=self._log_fields(repr(error)))
                pause = await _next_pause(pause)
                continue
            if not runs:
                self._silent.set()
                await self._woken.wait()
                self._silent.clear()
            elif self._is_behind:
                await self._pause(self._budget.pause())
        self._silent.set()
        self._budget.end()
        self._positions.forget(self._source.container)

    async def _pause(self, seconds: float) -> None:
        """Pauses reading for some time, or until the container has stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurried.wait()
        self._hurried.clear()

    def _log_fields(self, reason: str) -> dict[str, str]:
        return {"pod": self._source.pod, "reason": reason}

    async def _is_running(self) -> bool:
        inspection = await self._docker.json("GET", f"/containers/{self._source.container}/json")
        return inspection["State"]["Status"] in ("running", "paused")

    async def _read(self, *, follow: bool) -> None:
        """Reads new output. Stops early if the budget is used up."""
        reading = NewOutput(self._positions.load(self._source.container), is_behind=self._is_behind)
        params = {
            "follow": follow,
            "stdout": True,
            "stderr": True,
            "timestamps": True,
            "since": reading.since,
            "tail": str(LAST_LINES) if self._is_behind else None,
        }
        self._is_behind = False
        path = f"/containers/{self._source.container}/logs"
        async with self._docker.stream("GET", path, params=params, timeout=None) as answer:
            async for chunk in pieces(answer.chunks()):
                if lines := [self._output_lines(stamp, text) for stamp, text in reading.new(chunk)]:
                    if reading.left_out:
                        lines.insert(0, [self._notice(lines[0][0].at, reading.left_out)])
                        reading.left_out = 0
                    self._write(self._source.service, [line for piece in lines for line in piece])
                self._positions.save(self._source.container, reading.position)
                if not self._budget.spend(sum(map(len, chunk))) and follow:
                    self._is_behind = True
                    return

    def _notice(self, timestamp: int, left_out: int) -> OutputLine:
        seconds = left_out / 1000
        message = f"[windlass] output of {seconds:.1f} s is left out: more was written than is read"
        return OutputLine(timestamp, message, self._source.pod, self._source.version)

    def _output_lines(self, stamp: str, text: bytes) -> list[OutputLine]:
        at, whole = milliseconds(stamp), text.rstrip(b"\r\n")
        cuts = range(0, len(whole), MAX_LINE_BYTES) or (0,)
        return [
            OutputLine(
                at,
                whole[cut : cut + MAX_LINE_BYTES].decode(errors="replace"),
                self._source.pod,
                self._source.version,
            )
            for cut in cuts
        ]


class NewOutput:
    """Filters lines that were not read before; see `position`."""

    def __init__(self, position: Position, *, is_behind: bool = False) -> None:
        """`is_behind`: only the last lines are read, and earlier lines are skipped."""
        self.position = position
        self.left_out = 0
        """Duration of the skipped output, in milliseconds."""
        self._is_behind = is_behind
        self._skip = position.count
        self._until = position.latest
        self._next = Position()

    @property
    def since(self) -> str | None:
        return _engine_time(self.position.anchor) if self.position.anchor else None

    def new(self, chunks: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
        for piece in chunks:
            head, _, text = piece.partition(b" ")
            stamp = head.decode("ascii", "replace")
            # The engine inserts its own messages without a time, such as "Error grabbing logs".
            if not stamp[:4].isdecimal():
                continue
            is_known = self._is_known(stamp)
            if self._is_behind and not is_known:
                self._skip_to(stamp)
            self._is_behind = False
            if not is_known:
                self._count(stamp)
                yield stamp, text

    def _is_known(self, stamp: str) -> bool:
        if not self._skip:
            return False
        if stamp < self.position.anchor:
            return True
        if stamp > self._until:  # the engine has already deleted some of the lines that were read
            self._skip = 0
            return False
        self._skip -= 1
        return True

    def _skip_to(self, until: str) -> None:
        """Resets the position, so that skipped lines are not read later."""
        self.left_out = max(milliseconds(until) - milliseconds(self.position.latest), 1)
        self.position.anchor, self.position.count, self.position.latest = until, 0, ""

    def _count(self, stamp: str) -> None:
        position = self.position
        position.count += stamp >= position.anchor
        if stamp > position.latest:
            position.latest = stamp
            self._advance_anchor(stamp)
        self._next.count += bool(self._next.anchor) and stamp >= self._next.anchor

    def _advance_anchor(self, stamp: str) -> None:
        """Moves the anchor forward, so that little output has to be read again."""
        if self._next.anchor and milliseconds(stamp) - milliseconds(self._next.anchor) > MAX_DISORDER_MS:
            self.position.anchor, self.position.count = self._next.anchor, self._next.count + 1
            self._next = Position()
        if not self._next.anchor:
            self._next = Position(anchor=stamp)


def _engine_time(stamp: str) -> str:
    """Returns a time in the engine's format: seconds and nanoseconds since the epoch."""
    fraction = stamp.partition(".")[2].rstrip("Z").ljust(9, "0")
    return f"{milliseconds(stamp) // 1000}.{fraction}"


async def _next_pause(pause: float) -> float:
    await asyncio.sleep(pause)
    return min(pause * 2, MAX_PAUSE)
