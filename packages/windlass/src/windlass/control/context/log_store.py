"""Stores log lines: one stream for the runtime output of a service, and one stream for each of its builds.

Secrets are masked before a line is written. Log lines arrive synchronously, but secrets are stored encrypted
in the database. Therefore a deployment registers its secrets when its workload is computed. If the deployment
began before the start of this process or on another server, the secrets are read once, and its lines wait
until then.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.atomic_files import move, sync
from windlass.base.clock import DAY, Clock, SystemClock, may_expire
from windlass.base.encryption import CannotDecrypt
from windlass.base.errors import Unavailable
from windlass.base.ids import is_id
from windlass.base.log import log
from windlass.base.segments import ALL_LINES, Gone, LineFilter, Segments
from windlass.core.deploy.states import DeploymentPhase
from windlass.core.words.masking import EMPTY_MASK, MASK, Mask
from windlass.engines.workload import OutputLine, is_of_release

MAX_CACHED_MASKS: Final = 4096
"""The number of deployments whose secrets are cached. The secrets of an evicted deployment are read again at
its next line."""
MAX_CACHED_MASK_BYTES: Final = 128 * 1024 * 1024
"""The memory of all cached masks."""


class Masks:
    def __init__(self) -> None:
        self._known: OrderedDict[str, Mask] = OrderedDict()
        self._shared: dict[tuple[str, ...], Mask] = {}
        """The mask of all deployments with the same secrets, by these."""
        self._uses: Counter[tuple[str, ...]] = Counter()
        """The number of deployments with the same secrets."""
        self._bytes = 0

    def add(self, deployment: str, secrets: Iterable[str]) -> None:
        """Adds secret values to mask in the lines and messages of this deployment."""
        mask = self._known.get(deployment)
        values = tuple(dict.fromkeys([*(mask.values if mask else ()), *secrets]))
        if mask is not None and mask.values == values:
            self._known.move_to_end(deployment)
            return
        self._forget(deployment)
        self._keep(deployment, self._shared.get(values) or Mask(values))
        while len(self._known) > MAX_CACHED_MASKS or (
            self._bytes > MAX_CACHED_MASK_BYTES and len(self._known) > 1
        ):
            self._forget(next(iter(self._known)))

    def _keep(self, deployment: str, mask: Mask) -> None:
        self._known[deployment] = mask
        self._uses[mask.values] += 1
        if self._uses[mask.values] == 1:
            self._shared[mask.values] = mask
            self._bytes += mask.estimated_bytes

    def _forget(self, deployment: str) -> None:
        mask = self._known.pop(deployment, None)
        if mask is None:
            return
        self._uses[mask.values] -= 1
        if not self._uses[mask.values]:
            del self._uses[mask.values], self._shared[mask.values]
            self._bytes -= mask.estimated_bytes

    def know(self, deployment: str, secrets: Iterable[str]) -> None:
        """Sets the secrets of a deployment unless they are cached. Fast, because every decryption of a
        workload calls this."""
        if deployment not in self._known:
            self.add(deployment, secrets)

    def of(self, deployment: str) -> Mask | None:
        """Returns the mask of a deployment, or None if its secrets have to be read first."""
        mask = self._known.get(deployment)
        if mask is None and not is_id(deployment):
            return EMPTY_MASK
        if mask is not None:
            self._known.move_to_end(deployment)
        return mask

    def text(self, deployment: str, text: str) -> str:
        """Masks the secrets of a deployment in a message about it."""
        return (self.of(deployment) or EMPTY_MASK).text(text)


LOGS_FOLDER = "logs"
"""The name of the log folder in the data directory."""
WINDLASS_WRITER = "windlass"
"""The instance name of log lines that Windlass itself writes."""
_BUILD_PREFIX = "build-"
_ACCESS_STREAM = "access"
"""The stream that the gateway writes: see `windlass.routers.builtin.service_log`."""
_ACCESS_SHARE = 4
_RETENTION_STEPS = 8
"""The precision of the retention: a line is kept too long by at most an eighth of the retention time."""
_MAX_WAITING_LINES = 20_000
_RETRY_PAUSE = 1.0
_log = log("logs")

FindSecrets = Callable[[str], Awaitable[None]]
"""Reads the secrets of a deployment and adds them to the masks."""


def restored_folder(folder: Path) -> Path:
    """Returns the folder into which a restore unpacks log lines, before they replace those in `folder`."""
    return folder.with_name(f"{folder.name}.restored")


def replaced_folder(folder: Path) -> Path:
    """Returns the folder to which a restore moves the former log lines."""
    return folder.with_name(f"{folder.name}.replaced")


def recover(folder: Path) -> None:
    """Completes the log part of a restore that was killed.

    A restore moves log files only after its transaction is committed. So restored files are preferred, and
    former files are used for services without restored files.
    """
    fresh, stale = restored_folder(folder), replaced_folder(folder)
    if stale.exists():
        for lines in (*_lines_in(fresh), *_lines_in(stale)):
            if not (folder / lines.name).exists():
                move(lines, folder / lines.name)
        sync(folder)
    for left in (fresh, stale):
        shutil.rmtree(left, ignore_errors=True)


def _lines_in(folder: Path) -> Sequence[Path]:
    return list(folder.iterdir()) if folder.exists() else ()


class CutLine(Struct, frozen=True):
    """An unfinished log line whose end is not written yet."""

    held: str
    """The unwritten end of the line so far."""
    version: str


class DeploymentLog(Struct):
    """Writes lines to the log of a deployment, each with the stage that began last."""

    write: Callable[[str, DeploymentPhase | None], None]
    stage: DeploymentPhase | None

    def __call__(self, message: str) -> None:
        self.write(message, self.stage)

    def begin(self, stage: DeploymentPhase) -> None:
        self.stage = stage


class WaitingLines(Struct):
    """Lines of a deployment whose secrets are being read from the database."""

    task: asyncio.Task[None]
    batches: list[tuple[str, Sequence[OutputLine]]] = msgspec.field(default_factory=list)
    lines: int = 0
    lost: int = 0


class Logs:
    def __init__(self, folder: Path, limit: int, days: int = 14, clock: Clock | None = None) -> None:
        self.folder = folder
        self._segments = Segments(folder, limit, voice=WINDLASS_WRITER)
        self._most = limit
        self._age = days * DAY
        self._clock = clock or SystemClock()
        self.masks = Masks()
        self.find_secrets: FindSecrets | None = None
        self._waiting: dict[str, WaitingLines] = {}
        self._cut: dict[tuple[str, str], CutLine] = {}
        """Unfinished last lines, keyed by stream and instance."""

    def write(
        self, service: str, timestamp: int, *messages: str, pod: str = WINDLASS_WRITER, version: str = ""
    ) -> None:
        self.take(service, [OutputLine(timestamp, message, pod, version) for message in messages])

    def take(self, service: str, lines: Sequence[OutputLine]) -> None:
        """Stores lines of one instance. Never fails: lines for which there is no room are counted and
        reported later."""
        if not lines:
            return
        mask = self.masks.of(lines[0].version)
        if mask is None and self.find_secrets is not None:
            self._hold_lines(service, lines, self.find_secrets)
        else:
            self._write_output(service, lines, mask or EMPTY_MASK)

    def deployment(self, service: str, deployment: str, stage: DeploymentPhase | None) -> DeploymentLog:
        """Returns the log of a deployment, beginning at a stage."""
        stream = _stream(service, deployment)

        def write(message: str, stage: DeploymentPhase | None) -> None:
            line = OutputLine(self._clock.now(), message, WINDLASS_WRITER, deployment, stage or "")
            self._write(stream, [line], self.masks.of(deployment) or EMPTY_MASK)

        return DeploymentLog(write, stage)

    def _write_output(self, service: str, lines: Sequence[OutputLine], mask: Mask) -> None:
        """Writes the output of an instance. The output of a release command goes to the log of its
        deployment."""
        first = lines[0]
        if is_of_release(first.pod):
            staged = [msgspec.structs.replace(line, stage=DeploymentPhase.COMMAND) for line in lines]
            self._write(_stream(service, first.version), staged, mask)
        else:
            self._write(service, lines, mask)

    def _write(self, stream: str, lines: Sequence[OutputLine], mask: Mask) -> None:
        self._segments.append(stream, self._mask_lines(stream, lines, mask) if mask else lines)

    def _mask_lines(self, stream: str, lines: Sequence[OutputLine], mask: Mask) -> Sequence[OutputLine]:
        messages, key = [line.message for line in lines], (stream, lines[0].pod)
        before = self._cut.pop(key, None)
        masked, rest = mask.messages(messages, before.held if before else "")
        if rest:
            self._cut[key] = CutLine(rest, lines[-1].version)
        if masked is messages:
            return lines
        return [
            line if line.message == message else msgspec.structs.replace(line, message=message)
            for line, message in zip(lines, masked, strict=True)
        ]

    def _hold_lines(self, service: str, lines: Sequence[OutputLine], find_secrets: FindSecrets) -> None:
        deployment = lines[0].version
        waiting = self._waiting.get(deployment)
        if waiting is None:
            task = asyncio.ensure_future(self._release(deployment, find_secrets))
            waiting = self._waiting[deployment] = WaitingLines(task)
        if waiting.lines + len(lines) > _MAX_WAITING_LINES:
            waiting.lost += len(lines)
        else:
            waiting.batches.append((service, lines))
            waiting.lines += len(lines)

    async def _release(self, deployment: str, find_secrets: FindSecrets) -> None:
        """Writes the waiting lines of a deployment once its secrets are cached."""
        while self.masks.of(deployment) is None:
            try:
                await find_secrets(deployment)
            except Unavailable:
                await asyncio.sleep(_RETRY_PAUSE)
            except (CannotDecrypt, msgspec.MsgspecError):
                _log.exception("the secrets of a deployment cannot be read", extra={"deployment": deployment})
                await asyncio.sleep(_RETRY_PAUSE * 60)
        waiting = self._waiting.pop(deployment)
        for service, lines in waiting.batches:
            self.take(service, lines)
        if waiting.lost:
            remark = (
                f"Lines missing here: {waiting.lost} (the database did not answer, so secrets in them "
                f"could not be masked)"
            )
            self.write(waiting.batches[-1][0], self._clock.now(), remark)

    @property
    def most_access_bytes(self) -> int:
        """Maximum size of the access log of a service, which the gateway writes beside its output."""
        return self._most // _ACCESS_SHARE

    def tail(
        self,
        service: str,
        limit: int,
        line_filter: LineFilter = ALL_LINES,
        *,
        deployment: str | None = None,
        access: bool = False,
    ) -> list[bytes]:
        """Returns the last lines as JSON, oldest first; with `access` those of the access log. Callable from
        any thread."""
        return self._segments.tail(_stream(service, deployment, access), limit, line_filter)

    def follow(
        self,
        service: str,
        limit: int,
        line_filter: LineFilter = ALL_LINES,
        *,
        after_line: str | None = None,
        deployment: str | None = None,
        access: bool = False,
    ) -> AsyncGenerator[list[bytes] | Gone, None]:
        """Yields the last lines, or the lines after the line `after_line`, and then new lines until the
        service is deleted."""
        return self._segments.follow(
            _stream(service, deployment, access), limit, line_filter, after_line=after_line
        )

    def forget(self, service: str) -> None:
        """Removes the lines of a deleted service and of its builds. A missing log is accepted."""
        self._segments.forget(service)
        self._cut = {key: rest for key, rest in self._cut.items() if key[0].partition("/")[0] != service}

    def close(self) -> None:
        """Closes all files, and drops lines that still wait for the secrets of their deployment.

        The unwritten end of an unfinished line is written masked, because it may be the beginning of a
        secret.
        """
        for waiting in self._waiting.values():
            waiting.task.cancel()
        for (stream, pod), line in self._cut.items():
            self._segments.append(stream, [OutputLine(self._clock.now(), MASK, pod, line.version)])
        self._cut = {}
        self._segments.close()

    async def services(self) -> Collection[str]:
        """Returns all services that have log lines."""
        return {stream.partition("/")[0] for stream in self._segments.streams()}

    async def sweep(self, deleted_services: Collection[str]) -> None:
        """Removes all lines of the services in `deleted_services`. Of all other services, removes expired
        lines and surplus build logs."""
        now = self._clock.now()
        self._segments.report(now)
        for service in deleted_services:
            self.forget(service)
        streams = sorted(self._segments.streams())
        for stream in streams if may_expire(self._clock) else ():
            self._segments.expire(stream, now - self._age, now - self._age // _RETENTION_STEPS)
        self._sweep_builds([stream for stream in streams if _is_build(stream)])

    async def set_aside(self, service: str, destination: Path) -> None:
        """Moves the lines of a service and of its builds to the folder `destination`."""
        self._segments.move_out(service, destination / "logs")

    async def put_back(self, service: str, source: Path) -> None:
        self._segments.move_in(source / "logs", service)

    def _sweep_builds(self, streams: Sequence[str]) -> None:
        """Removes the oldest build logs of each service beyond the size limit. The limit is as large as the
        limit of the service's runtime log."""
        taken: dict[str, int] = {}
        for stream in sorted(streams, key=self._segments.last_change, reverse=True):
            service, size = stream.partition("/")[0], self._segments.size(stream)
            newer = taken.get(service, 0)
            taken[service] = newer + size
            if size == 0 or (newer and newer + size > self._most):
                self._segments.forget(stream)


def _stream(service: str, deployment: str | None, access: bool = False) -> str:
    if access:
        return f"{service}/{_ACCESS_STREAM}"
    return service if deployment is None else f"{service}/{_BUILD_PREFIX}{deployment}"


def _is_build(stream: str) -> bool:
    return stream.rpartition("/")[2].startswith(_BUILD_PREFIX)
