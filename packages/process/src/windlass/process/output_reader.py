"""Reads the output of all instances if this engine is the reader of its folder.

Several engines may use one folder, for example replicas on one machine. The engine that holds the reader lock
is the reader. When it ends, another engine locks the file and continues at the saved positions.

inotify reports writes. Each watch reports once and must then be set again.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base import filelock, kernel
from windlass.base.cleanup import on_failure
from windlass.base.clock import Clock
from windlass.base.folder_removal import erase
from windlass.base.log import log
from windlass.engines.engine import Sink
from windlass.engines.unread_output import READER_LOCK
from windlass.engines.workload import OutputLine
from windlass.process.output import OutputFile, UnreadableOutput
from windlass.process.records import InstanceKey, Record, RecordStore, UnknownRecord, names

_IN_MODIFY: Final = 0x2
_IN_ONESHOT: Final = 0x80000000
_IN_Q_OVERFLOW: Final = 0x4000
_EVENT: Final = struct.Struct("iIII")


class Inotify:
    """An inotify instance. `fd` is None if the kernel has no more of them; files must then be polled."""

    def __init__(self) -> None:
        self.fd: int | None = None

    def open(self) -> None:
        fd = kernel.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.fd = fd if fd >= 0 else None

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def watch(self, path: Path) -> int:
        """Adds a watch for one write. Returns its number, or -1 if no watch is available."""
        if self.fd is None:
            return -1
        once = ctypes.c_uint32(_IN_MODIFY | _IN_ONESHOT)
        return int(kernel.libc.inotify_add_watch(self.fd, os.fsencode(path), once))

    def ready(self) -> tuple[set[int], bool]:
        """Returns the watches whose files were written to, and whether notifications were lost."""
        assert self.fd is not None
        try:
            raw = os.read(self.fd, 64 * 1024)
        except BlockingIOError:
            return set(), False
        numbers, overflown, at = set(), False, 0
        while at < len(raw):
            number, mask, _, length = _EVENT.unpack_from(raw, at)
            overflown |= bool(mask & _IN_Q_OVERFLOW)
            if mask & _IN_MODIFY:
                numbers.add(number)
            at += _EVENT.size + length
        return numbers, overflown


_log = log("engines.process")

_READ_INTERVAL: Final = 0.04
"""Seconds between two reads of active files. The pause grows while there is no output."""
_MAX_PAUSE: Final = 0.2
_SILENCE_SECONDS: Final = 1.0
"""Seconds without output after which an unfinished line is handed over and inotify watches the file."""
_CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks of files with a watch, in case a notification was lost."""


class OutputReader:
    def __init__(self, records: RecordStore, clock: Clock, backlog: int) -> None:
        self._records, self._clock, self._backlog = records, clock, backlog
        self._sink: Sink | None = None
        self._lock: int | None = None
        self._outputs: dict[Path, OutputFile] = {}
        self._awake: set[Path] = set()
        self._watches: dict[int, Path] = {}
        self._wake = asyncio.Event()
        self._inotify = Inotify()
        self._reading: asyncio.Task[None] | None = None
        self._blocked_until = 0.0
        self._looked = 0.0
        self._wait = _READ_INTERVAL
        self._blind = False
        """Whether some files have no inotify watch, because no watches are left."""

    def start(self, sink: Sink) -> None:
        self._sink = sink
        self._inotify.open()
        if self._inotify.fd is not None:
            asyncio.get_running_loop().add_reader(self._inotify.fd, self._on_change)
        self._reading = asyncio.create_task(self._read_on())

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._inotify.fd is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fd)
        self._inotify.close()
        for home in list(self._outputs):
            self.drop(home)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def holds(self) -> bool:
        return self._lock is not None

    def is_reader(self) -> bool:
        """Returns whether this engine is the reader. Makes it the reader if there is none."""
        if self._lock is None and self._sink is not None:
            self._lock = filelock.try_hold(self._records.folder / READER_LOCK)
        return self._lock is not None

    def follow(self, key: InstanceKey, record: Record) -> None:
        home = self._records.home(key)
        if home not in self._outputs and self.is_reader():
            try:
                self._outputs[home] = OutputFile(home, key.service, record, self._backlog)
            except FileNotFoundError:
                return  # removed by another engine meanwhile
            except OSError as error:  # the program controls the file; opening it is tried again
                _log.warning(
                    "output of an instance cannot be read",
                    extra={"instance": key.id, "why": error.strerror or str(error)},
                )
                return
            self._wake_up(home)

    def drop(self, home: Path) -> None:
        output = self._outputs.pop(home, None)
        self._awake.discard(home)
        if output is not None:
            self._watches.pop(output.watch, None)
            output.close()

    def agree(self, keys: list[InstanceKey]) -> None:
        """Follows the output of exactly the instances in `keys`."""
        if not self.is_reader():
            return
        homes = {self._records.home(key): key for key in keys}
        for home, output in list(self._outputs.items()):
            if home not in homes or not output.current():
                self.drop(home)
        for home, key in homes.items():
            if home not in self._outputs and (record := self._records.known(key)):
                self.follow(key, record)

    async def flush(self, home: Path) -> None:
        """Hands over all available output, including an unfinished line."""
        output = self._outputs.get(home)
        try:
            while output is not None and not output.closed and self._pass_on_lines(output, unfinished=True):
                await self._free(output)
                await asyncio.sleep(0)
        except UnreadableOutput:
            return  # another engine finishes it, or the next round reads it
        except OSError:  # tried again later; the instance keeps running
            _log.exception("Output of %s cannot be handed over yet", home.parent.name)

    async def free_reserved(self, home: Path) -> None:
        """Frees the disk space of an ended program's output, except for lines that cannot be handed over
        yet."""
        await self.flush(home)
        output = self._outputs.get(home)
        if output is not None and not output.closed:
            with suppress(OSError):  # the file is gone, or its file system does not support holes
                await asyncio.to_thread(output.free_reserved)

    async def finish(self, aside_folder: Path) -> None:
        """Reads the last output of a removed instance and erases its files. After a failure, the next call of
        `finish_all` tries again."""
        try:
            await self._finish(aside_folder)
        except UnknownRecord:
            return  # left to the version that wrote it; a line was logged
        except OSError as error:
            _log.warning(
                "an instance that ended is erased later", extra={"why": error.strerror or str(error)}
            )

    async def _finish(self, aside_folder: Path) -> None:
        record = self._records.read_in(aside_folder)
        for name in ("app", "files", "home", "tmp"):
            await asyncio.to_thread(erase, aside_folder / name)
        if record is not None and not self.is_reader():
            return  # the reader may have read the first half of the last line
        if record is None or await self._finish_output(aside_folder, record):
            await asyncio.to_thread(erase, aside_folder)

    async def finish_all(self) -> None:
        """Finishes the output of instances whose removal was interrupted, or which another engine removed."""
        if self.is_reader():
            for name in names(self._records.ended):
                await self.finish(self._records.ended / name)

    async def _finish_output(self, aside_folder: Path, record: Record) -> bool:
        try:
            output = OutputFile(aside_folder, record.service, record, self._backlog)
        except FileNotFoundError:
            return True  # another engine has finished it
        try:
            while self._pass_on_lines(output, unfinished=True):
                await self._free(output)
                await asyncio.sleep(0)
        except OSError:  # the output is kept and tried again
            _log.exception("The last output of %s cannot be handed over yet", record.pod)
            return False
        finally:
            output.close()
        return True

    def _wake_up(self, home: Path) -> None:
        self._awake.add(home)
        self._wake.set()

    def _on_change(self) -> None:
        numbers, overflown = self._inotify.ready()
        for number in numbers:
            home = self._watches.pop(number, None)
            if home in self._outputs:
                self._wake_up(home)
        if overflown:
            self._check_files()

    def _check_files(self) -> None:
        """Checks all files for unread output without waiting for notifications."""
        self._looked = time.monotonic()
        for home, output in self._outputs.items():
            if output.waiting():
                self._wake_up(home)

    async def _read_on(self) -> None:
        while True:
            try:
                more = await self._round()
            except Exception:  # noqa: BLE001 (an error with one file must not stop the others)
                _log.exception("Output of instances cannot be read; trying again")
                more, self._blocked_until = False, time.monotonic() + _SILENCE_SECONDS
            await self._pause(more)

    async def _pause(self, has_more: bool) -> None:
        self._wake.clear()
        blocked = self._blocked_until - time.monotonic()
        if blocked > 0:
            await asyncio.sleep(blocked)
        elif has_more:
            await asyncio.sleep(0)
        elif self._awake:
            await asyncio.sleep(self._wait)
            self._wait = min(self._wait * 1.25, _MAX_PAUSE)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SILENCE_SECONDS if self._blind else _CHECK_INTERVAL):
                    await self._wake.wait()

    async def _round(self) -> bool:
        """Reads one piece of each active file. Returns whether there may be more output."""
        if time.monotonic() - self._looked > (_SILENCE_SECONDS if self._blind else _CHECK_INTERVAL):
            self._check_files()
        more = False
        for home in list(self._awake):
            output = self._outputs.get(home)
            if output is None:
                self._awake.discard(home)
                continue
            try:
                more |= await self._read_piece(home, output)
            except UnreadableOutput as error:
                self._awake.discard(home)  # until the next check of all files
                if error.errno == errno.ENOENT:  # another server has removed the ended instance
                    continue
                _log.info("output of an instance is read later", extra={"pod": output.pod, "why": str(error)})
        return more

    async def _read_piece(self, home: Path, output: OutputFile) -> bool:
        """Reads one piece of a file. Returns whether there was new output."""
        silent = time.monotonic() - output.grown > _SILENCE_SECONDS
        if self._pass_on_lines(output, unfinished=silent):
            self._wait = _READ_INTERVAL
            await self._free(output)
            await asyncio.sleep(0)
            return True
        if silent:
            self._watch_quiet(home, output)
        return False

    def _pass_on_lines(self, output: OutputFile, *, unfinished: bool) -> bool:
        """Hands over the next lines of a file. Returns whether there were any."""
        assert self._sink is not None
        lines = output.lines(unfinished=unfinished)
        if not lines:
            return False
        at, pod, version = self._clock.now(), output.pod, output.version
        with on_failure(output.rewind):  # so that the lines are read again
            self._sink(output.service, [OutputLine(at, line, pod, version) for line in lines])
        output.advance()
        return True

    async def _free(self, output: OutputFile) -> None:
        if output.closed:
            return
        if output.save() and output.can_free() and not await asyncio.to_thread(output.freeing()):
            output.start_new_file()

    def _watch_quiet(self, home: Path, output: OutputFile) -> None:
        output.save()
        self._awake.discard(home)
        output.watch = self._inotify.watch(home / "output")
        self._watches[output.watch] = home
        self._blind |= output.watch < 0
        if output.waiting():  # written before the watch was set
            self._awake.add(home)
