"""Bare repositories of applications, `<data>/repositories/<application>`, which only this server writes.

Hooks never run, the configuration is written here, and git runs with the settings of fetches, because pushed
objects are as hostile as fetched ones. A pack is stored in a file before git reads it: a slow client keeps no
process busy, and a pack that is too large never reaches git.

    refs/heads/…, refs/tags/…         what clients pushed
    refs/windlass/pushed/<moment>-…   commits that are or were deployed, also after a forced push
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from windlass.base import subprocesses
from windlass.base.atomic_files import write_whole
from windlass.base.disk_reserve import MAX_RESERVE_FRACTION
from windlass.base.errors import Unavailable
from windlass.base.ids import is_id
from windlass.base.locks import Locks
from windlass.base.log import log
from windlass.builders.builder import DISK_FULL_ERROR
from windlass.config import Settings
from windlass.sources.git.limits import Limits
from windlass.sources.git.messages import printable
from windlass.sources.git.settings import environment
from windlass.sources.push.commands import PushRefused, outcomes_in

REPOSITORIES_FOLDER: Final = "repositories"
"""The name of the folder in the data directory."""
KEPT_REFS: Final = "refs/windlass/pushed"
FALLBACK_BRANCH: Final = "main"
"""The branch that is deployed as long as neither the application nor a push names one."""
_INCOMING: Final = "incoming"
_MAX_PACKS: Final = 20
"""The number of packs from which they are joined. Each push adds one, and git searches all of them."""
_UNREACHABLE_RETENTION_SECONDS: Final = 3600
"""Seconds for which unreachable objects and unused kept commits stay: a push or a build may be using them."""
_MAX_PAUSE: Final = 7 * 24 * 3600
_TIMEOUT: Final = 600
_MAX_OUTPUT_BYTES: Final = 8 * 1024**2
_CONFIG: Final = """[core]
\trepositoryformatversion = 0
\tbare = true
\thooksPath = /dev/null
\tlogAllRefUpdates = false
[receive]
\tfsckObjects = true
\tunpackLimit = 1
\tautogc = false
\tdenyCurrentBranch = ignore
\tdenyDeleteCurrent = warn
\tshallowUpdate = false
[receive "fsck"]
\tzeroPaddedFilemode = warn
\tbadTimezone = warn
\tmissingSpaceBeforeDate = warn
[transfer]
\tfsckObjects = true
[uploadpack]
\tallowFilter = true
\tallowAnySHA1InWant = true
\thideRefs = refs/windlass
[gc]
\tauto = 0
[pack]
\tthreads = 1
"""
_log = log("pushes")
# Unlike a copy for a build, this repository is the only one of its kind, and has to survive a crash.
_DURABLE_SETTINGS: Final = (("core.fsync", "committed"),)


def repositories_of(settings: Settings) -> PushedRepositories:
    return PushedRepositories(
        Path(settings.data_dir) / REPOSITORIES_FOLDER,
        settings.push_bytes,
        settings.upload_reserve_bytes,
        settings.disk_reserve_bytes,
    )


class PushedRepositories:
    def __init__(self, folder: Path, limit: int, reserve: int = 0, disk_reserve: int = 0) -> None:
        """`limit`: the largest number of bytes of one push. `reserve` and `disk_reserve`: the bytes that must
        stay free on the disk, as for uploads."""
        self._folder = folder.absolute()
        self.most = limit
        self._reserve, self._disk_reserve = reserve, disk_reserve
        self._limits = Limits(seconds=_TIMEOUT, bytes=2 * limit)
        self._writing = Locks()
        self._tidied: dict[str, float] = {}
        self._paused: dict[str, tuple[float, float]] = {}
        """When repositories that could not be tidied are tried again, and how long they wait after that."""

    def path(self, application: str) -> Path:
        return self._folder / application

    def exists(self, application: str) -> bool:
        return (self.path(application) / "HEAD").is_file()

    async def prepare(self, application: str, branch: str) -> None:
        """Creates a repository, or writes its configuration again. `branch` is the deployed branch."""
        await subprocesses.in_thread(self._prepare, application, branch)

    def _prepare(self, application: str, branch: str) -> None:
        path = self.path(application)
        with _full_disk_explained():
            for folder in ("objects", "refs", _INCOMING):
                (path / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path / "config", _CONFIG)
            _write(path / "HEAD", f"ref: refs/heads/{branch}\n")

    def default_branch(self, application: str) -> str:
        """Returns the branch that HEAD names."""
        try:
            text = (self.path(application) / "HEAD").read_text()
        except OSError:
            return FALLBACK_BRANCH
        return text.strip().removeprefix("ref: refs/heads/") or FALLBACK_BRANCH

    async def refs(self, application: str) -> dict[str, str]:
        """Returns the commits of all branches and tags."""
        if not self.exists(application):
            return {}
        words = ("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
        listed = await self._ask(application, *words)
        # Names may contain other line separators, such as U+0085.
        pairs = (line.split(" ", 1) for line in listed.split("\n") if line)
        return {ref: commit for commit, ref in pairs}

    # Receiving

    @contextmanager
    def spool(self, application: str, head: bytes = b"") -> Iterator[PackFile]:
        """Opens a file for the input of git: `head`, and what a client sends. It is deleted at the end of the
        block."""
        path = self.path(application) / _INCOMING / secrets.token_hex(8)
        with _full_disk_explained():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield PackFile(descriptor, head, self.most, self._check_room)
        finally:
            os.close(descriptor)
            path.unlink(missing_ok=True)

    def _check_room(self, disk: os.statvfs_result, size: int) -> None:
        """Raises Unavailable if the disk has too little room for so many bytes."""
        of_disk = min(self._disk_reserve, int(disk.f_blocks * disk.f_frsize * MAX_RESERVE_FRACTION))
        if disk.f_bavail * disk.f_frsize - size < self._reserve + of_disk:
            raise Unavailable(
                "Ask the operator to free disk space, or to set upload_reserve_bytes lower: uploads and "
                "pushes leave so much of the disk of Windlass free, and less would be left"
            )

    async def receive(self, application: str, pack: PackFile) -> Mapping[str, str]:
        """Stores the objects of a push and moves its refs. Returns why refs were not moved, by ref; empty for
        refs that were. Raises PushRefused if the objects were refused."""
        report, complaint = bytearray(), bytearray()
        words = ("receive-pack", "--stateless-rpc", ".")
        async with self._writing[application]:
            await self._run(application, words, report.extend, complaint.extend, pack.as_input())
        try:
            return outcomes_in(bytes(report))
        except PushRefused as refused:
            raise PushRefused(_explain(complaint.decode(errors="replace"), str(refused))) from refused

    async def move(self, application: str, ref: str, old_commit: str, new_commit: str) -> bool:
        """Moves a ref if it is still at `old_commit`. Returns whether it is at `new_commit` now."""
        if await self._try(application, "update-ref", ref, new_commit, old_commit):
            return True
        return (await self.refs(application)).get(ref) == new_commit

    async def is_commit(self, application: str, id: str) -> bool:
        return await self._try(application, "rev-parse", "--verify", "--quiet", f"{id}^{{commit}}")

    async def is_behind(self, application: str, old_commit: str, new_commit: str) -> bool:
        """Returns whether the history of `new_commit` contains `old_commit`."""
        return await self._try(application, "merge-base", "--is-ancestor", old_commit, new_commit)

    async def subject(self, application: str, commit: str) -> str:
        text = await self._ask(application, "log", "-1", "--format=%s", commit, "--")
        return printable(text)

    # Fetching

    def advertise(
        self, application: str, protocol: str, stopped: Callable[[], None]
    ) -> AsyncGenerator[bytes, None]:
        """Returns the refs for a client that fetches. `stopped` is called if git had to be stopped."""
        words = ("upload-pack", "--stateless-rpc", "--advertise-refs", ".")
        return self._stream(application, words, protocol, stopped)

    def send(
        self, application: str, request: PackFile, protocol: str, stopped: Callable[[], None]
    ) -> AsyncGenerator[bytes, None]:
        """Returns the answer to the request of a client that fetches."""
        words = ("upload-pack", "--stateless-rpc", ".")
        return self._stream(application, words, protocol, stopped, request.as_input())

    # Keeping

    async def tidy(self, application: str, needed_commits: Collection[str]) -> None:
        """Forgets commits that no deployment needs, and joins packs. `needed_commits`: the commits that may
        be deployed again. A repository where that fails is tried again after an hour, then after two, and so
        on, so that it costs the others little."""
        before = time.time() - _UNREACHABLE_RETENTION_SECONDS
        await subprocesses.in_thread(self._remove_left, application, before)
        until, pause = self._paused.get(application, (0.0, _UNREACHABLE_RETENTION_SECONDS))
        if not self._has_changed(application) or time.time() < until:
            return
        self._tidied[application] = time.time()
        try:
            await self._tidy(application, needed_commits, before)
        except (TimeoutError, OSError, Unavailable) as error:
            self._paused[application] = time.time() + pause, min(2 * pause, _MAX_PAUSE)
            _log.warning("a repository was not tidied: %s", error, extra={"service": application})
        else:
            self._paused.pop(application, None)

    def _has_changed(self, application: str) -> bool:
        objects = self.path(application) / "objects" / "pack"
        # A push without new objects adds no pack, and still a commit that is kept.
        places = [place for place in (objects, self.path(application) / KEPT_REFS) if place.is_dir()]
        newest = max((place.stat().st_mtime for place in places), default=0.0)
        return objects.is_dir() and newest >= self._tidied.get(application, 0.0)

    async def _tidy(self, application: str, needed_commits: Collection[str], cutoff: float) -> None:
        async with self._writing[application]:
            listed = await self._ask(
                application, "for-each-ref", "--format=%(objectname) %(refname)", KEPT_REFS
            )
            seen: set[str] = set()
            for line in reversed(listed.splitlines()):
                commit, _, ref = line.partition(" ")
                if _age_of(ref) < cutoff and (commit not in needed_commits or commit in seen):
                    await self._try(application, "update-ref", "-d", ref, commit)
                seen.add(commit)
            packs = [*(self.path(application) / "objects" / "pack").glob("*.pack")]
            if len(packs) >= _MAX_PACKS:
                size = sum(pack.stat().st_size for pack in packs)
                self._check_room(os.statvfs(self.path(application)), size)
                await self._try(
                    application, "gc", "--quiet", f"--prune={_UNREACHABLE_RETENTION_SECONDS}.seconds.ago"
                )

    def _remove_left(self, application: str, cutoff: float) -> None:
        """Removes what pushes and joins left that were killed."""
        for pattern in (
            f"{_INCOMING}/*",
            "objects/tmp_objdir-*",
            "objects/pack/*tmp_*",
            "objects/pack/.tmp-*",
        ):
            for left in self.path(application).glob(pattern):
                with suppress(OSError):
                    if left.stat().st_mtime < cutoff:
                        shutil.rmtree(left) if left.is_dir() else left.unlink()

    async def clear(self) -> None:
        """Removes packs that a killed server was receiving. One that another server receives stays readable
        for it, because the file is open."""
        await subprocesses.in_thread(self._clear)

    def _clear(self) -> None:
        for left in self._folder.glob(f"*/{_INCOMING}/*"):
            with suppress(OSError):
                left.unlink()

    def applications(self) -> list[str]:
        with suppress(FileNotFoundError):
            return [path.name for path in self._folder.iterdir() if is_id(path.name)]
        return []

    async def discard(self, application: str) -> None:
        await subprocesses.in_thread(self._discard, application)

    def _discard(self, application: str) -> None:
        shutil.rmtree(self.path(application), ignore_errors=True)

    async def copy(self, application: str, destination: str) -> None:
        """Copies a repository, for the copy of an application. Objects are hard links, as git never changes
        them."""
        if self.exists(application) and not self.exists(destination):
            await subprocesses.in_thread(self._copy, application, destination)

    def _copy(self, application: str, destination: str) -> None:
        draft = self._folder / f"draft-{secrets.token_hex(8)}"
        try:
            with _full_disk_explained():
                shutil.copytree(self.path(application), draft, copy_function=_link_objects)
                with suppress(OSError):  # another request has copied it meanwhile
                    draft.rename(self.path(destination))
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    # Running git

    def _variables(self, application: str, protocol: str = "") -> dict[str, str]:
        path = self.path(application)
        variables = environment(None, (), path / _INCOMING, extra_options=_DURABLE_SETTINGS)
        variables |= {"GIT_DIR": str(path), "GIT_PROTOCOL": protocol} if protocol else {"GIT_DIR": str(path)}
        return variables | {"LC_ALL": "C"}

    async def _run(
        self,
        application: str,
        arguments: Sequence[str],
        receive_data: Callable[[bytes], Any],
        note_progress: Callable[[bytes], Any],
        stdin: int = subprocess.DEVNULL,
    ) -> int:
        async with subprocesses.running(
            ["git", *arguments], cwd=self.path(application), env=self._variables(application), stdin=stdin
        ) as process:
            self._limits.confine(process)
            async with asyncio.timeout(_TIMEOUT):
                await subprocesses.run_together(
                    subprocesses.pump(process.stdout, receive_data),
                    subprocesses.pump(process.stderr, note_progress),
                    process.wait(),
                )
            return process.returncode or 0

    async def _ask(self, application: str, *words: str) -> str:
        answer = bytearray()

        def take(piece: bytes) -> None:
            answer.extend(piece)
            if len(answer) > _MAX_OUTPUT_BYTES:  # a part would look like the whole
                raise Unavailable("Push to a new application: git says too much about this repository")

        await self._run(application, words, take, len)
        return answer.decode(errors="replace")

    async def _try(self, application: str, *words: str) -> bool:
        return await self._run(application, words, len, len) == 0

    async def _stream(
        self,
        application: str,
        arguments: Sequence[str],
        protocol: str,
        stopped: Callable[[], None],
        stdin: int = subprocess.DEVNULL,
    ) -> AsyncGenerator[bytes, None]:
        variables = self._variables(application, protocol)
        loop = asyncio.get_running_loop()
        async with subprocesses.running(
            ["git", *arguments], cwd=self.path(application), env=variables, stdin=stdin
        ) as process:
            self._limits.confine(process)

            is_over = False  # the time of a loop may be a little before that of a timer that it has called

            def stop() -> None:
                nonlocal is_over
                is_over = True
                process.kill()
                stopped()

            # A timer, because this code does not run while a client takes its time to read.
            timer = loop.call_later(_TIMEOUT, stop)
            try:
                while piece := await process.stdout.read(subprocesses.CHUNK_BYTES):
                    yield piece
                if is_over:
                    raise TimeoutError
            finally:
                timer.cancel()


class PackFile:
    """The input of one git process, in a file."""

    def __init__(
        self,
        descriptor: int,
        head: bytes,
        limit: int,
        check_room: Callable[[os.statvfs_result, int], None],
    ) -> None:
        self._descriptor, self._most, self._check_room = descriptor, limit, check_room
        self.size = 0
        """The number of bytes behind the head."""
        self._write(head)

    def append(self, data: bytes) -> None:
        """Raises PushRefused if the client has sent more than it may."""
        if self.size + len(data) > self._most:
            raise PushRefused(
                f"the push is larger than {self._most / 1024**2:.0f} MiB: take large files out of the "
                "history, or ask the operator for more push_bytes"
            )
        self._check_room(os.fstatvfs(self._descriptor), 2 * len(data))  # git writes the pack once more
        self._write(data)
        self.size += len(data)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        with _full_disk_explained():
            while left:
                left = left[os.write(self._descriptor, left) :]

    def as_input(self) -> int:
        """Returns a descriptor at the beginning of the file."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return self._descriptor


def _explain(problem: str, reason: str) -> str:
    """Returns why git refused objects, without paths of this machine."""
    for pattern, words in _ERROR_MEANINGS:
        if pattern in problem or pattern in reason:
            return words
    lines = [line.strip() for line in problem.splitlines() if line.startswith(("fatal:", "error:"))]
    return printable(_PATHS_PATTERN.sub("…", (lines or [reason])[0]))


_PATHS_PATTERN: Final = re.compile(r"(?<![\w:/.%-])/[^\s'\":]+")
_ERROR_MEANINGS: Final = (
    (
        "shallow update not allowed",
        "this clone has only a part of the history: run `git fetch --unshallow` first",
    ),
    ("No space left", DISK_FULL_ERROR),
    (
        "did not receive expected object",
        "objects are missing: push again, with a newer git or a whole clone",
    ),
    ("index-pack abnormal exit", "git refuses these objects: run `git fsck`, and repair what it reports"),
    ("unpacker error", "git refuses these objects: run `git fsck`, and repair what it reports"),
)


@contextmanager
def _full_disk_explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Unavailable(DISK_FULL_ERROR) from error
        raise


def _write(file: Path, text: str) -> None:
    if not file.is_file() or file.read_text() != text:
        write_whole(file, text.encode())


def _link_objects(source: str, target: str) -> None:
    """Links a file of objects, and copies any other file."""
    if "/objects/" in source:
        os.link(source, target)
    else:
        shutil.copyfile(source, target)


def new_kept_ref() -> str:
    """Returns a ref that keeps a pushed commit."""
    return f"{KEPT_REFS}/{int(time.time()):010d}-{secrets.token_hex(4)}"


def _age_of(ref: str) -> float:
    moment = ref.rpartition("/")[2].partition("-")[0]
    return float(moment) if moment.isdecimal() else 0.0
