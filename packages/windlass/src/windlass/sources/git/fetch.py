"""Fetches one commit of a repository into a folder.

The repository, its server and all their output are treated as hostile. Hooks, filters and submodules of a
repository are not run or fetched, git connects only to the checked address, and the folder contains no `.git`
afterwards. Kept copies are prepared for the next fetch in the background, at most one per name.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypeVar
from urllib.parse import unquote, urlsplit

from windlass.base import addresses, subprocesses
from windlass.base.addresses import Address, Reach, Resolve
from windlass.base.cleanup import on_failure
from windlass.base.log import log
from windlass.base.private import private_folder
from windlass.builders.builder import DISK_FULL_ERROR
from windlass.sources.git.commit import GitCommit
from windlass.sources.git.copy import Copy
from windlass.sources.git.kept import KeptCopy, discard, sweep
from windlass.sources.git.limits import Limits
from windlass.sources.git.messages import Redirected, printable
from windlass.sources.git.remote import Progress, Remote, silent, without_repository
from windlass.sources.git.settings import authorization, environment
from windlass.sources.git.source import (
    GitError,
    GitSource,
    RemoteAddress,
    folder,
    place,
    wanted_commit,
    wanted_ref,
)
from windlass.sources.git.trust import write_bundle


class CopyPreparations:
    def __init__(self, home: Path, limits: Limits) -> None:
        self._home, self._limits = home, limits
        self._is_stopped = False
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, kept_copy: KeptCopy) -> None:
        """Prepares a kept copy in the background, and closes it afterwards."""
        if self._is_stopped:
            kept_copy.close()
            return

        def end(_: asyncio.Task[None]) -> None:
            self._tasks.pop(name)
            kept_copy.close()

        self._tasks[name] = asyncio.ensure_future(self._prepare(kept_copy))
        self._tasks[name].add_done_callback(end)

    async def cancel(self, name: str) -> None:
        if task := self._tasks.get(name):
            task.cancel()
            await asyncio.wait([task])

    async def stop(self) -> None:
        """Cancels all preparations. Later calls of `start` prepare nothing."""
        self._is_stopped = True
        await subprocesses.run_together(*map(self.cancel, [*self._tasks]))

    async def _prepare(self, kept_copy: KeptCopy) -> None:
        try:
            async with asyncio.timeout(self._limits.seconds):
                await kept_copy.prepare(without_repository(self._home, self._limits))
        except (GitError, OSError) as error:  # the next fetch starts with an empty folder
            _log.warning("no copy is kept for the next fetch", extra={"why": str(error)})
        await subprocesses.in_thread(sweep, self._home)


_log = log("builders.git")

T = TypeVar("T")

MIN_GIT_VERSION: Final = (2, 37)  # http.curloptResolve
_INSTALL: Final = (
    f"Install git {MIN_GIT_VERSION[0]}.{MIN_GIT_VERSION[1]} or newer on the machine that runs Windlass"
)
MAX_ATTEMPTS: Final = 50
SCRATCH_PREFIX: Final = "commits-"
MAX_BRANCHES: Final = 1000
_HEAD: Final = "HEAD"
_HEADS: Final = "refs/heads/"


class Git:
    def __init__(
        self,
        *,
        allow_local: bool,
        outbound_allow: Sequence[str],
        home: Path,
        closed: Path | None = None,
        limits: Limits | None = None,
        resolve: Resolve = addresses.resolve,
        ca_file: str = "",
    ) -> None:
        """`home`: a folder that only this object uses, for known ssh host keys and kept copies. `closed`: a
        folder that must not contain fetched repositories, because it contains the kept copies of all
        services. `ca_file`: authorities that are trusted beside those of the system; empty: none."""
        self._allow_local = allow_local
        self._reach = Reach(outbound_allow, loopback=allow_local)
        self._home = home.absolute()
        self._closed = None if closed is None else closed.resolve()
        self._limits = limits or Limits()
        self._resolve = resolve
        self._ca_file = ca_file
        self._usable = False
        self._preparations = CopyPreparations(self._home, self._limits)

    async def stop(self) -> None:
        """Cancels the preparation of kept copies."""
        await self._preparations.stop()

    async def fetch(self, source: GitSource, destination: Path, progress: Progress = silent) -> GitCommit:
        """Fetches the files of one commit into a new folder. Removes the folder on failure."""
        return await self._run_on(
            source, lambda remote: _fetch(Copy(remote, source, destination.absolute(), progress))
        )

    @asynccontextmanager
    async def fetching(
        self, source: GitSource, destination: Path, name: str, progress: Progress = silent
    ) -> AsyncIterator[GitCommit]:
        """Fetches a commit like `fetch`, but transfers only the difference to the last fetch with the same
        name.

        When the block ends, the kept copy is prepared for the next fetch in the background.
        """
        kept = await subprocesses.in_thread(KeptCopy.hold, self._home, name)
        if kept is None:
            yield await self.fetch(source, destination, progress)
            return

        destination = destination.absolute()  # noqa: ASYNC240 (does not access the disk)

        async def action(remote: Remote) -> GitCommit:
            return await _fetch_kept(Copy(remote, source, destination, progress, kept=kept), kept)

        with on_failure(kept.close):
            commit = await self._run_on(source, action)
        try:
            yield commit
        finally:
            self._preparations.start(name, kept)

    async def discard(self, name: str) -> None:
        """Deletes the kept copy of this name."""
        await self._preparations.cancel(name)
        await subprocesses.in_thread(discard, self._home, name)

    async def commits(self, source: GitSource, limit: int = 20) -> list[GitCommit]:
        """Returns commits, newest first: the newest ones of a branch, or the source's commit and its
        predecessors."""

        async def action(remote: Remote) -> list[GitCommit]:
            async with self._scratch() as scratch:
                # the filter omits trees and files, if the server supports it
                return await Copy(remote, source, scratch, options=("--filter=tree:0",)).commits(limit)

        return await self._run_on(source, action)

    async def head(self, source: GitSource) -> tuple[str, str]:
        """Returns the name and the newest commit of the source's branch, or of the default branch."""
        ref = wanted_ref(source)

        async def action(remote: Remote) -> tuple[str, str]:
            answer = await remote.ask("ls-remote", "--symref", "--", remote.url, ref)
            return _head_in(answer, ref) or _refuse_without_head(remote.url, source)

        return await self._run_on(source, action)

    async def branches(self, source: GitSource) -> list[str]:
        """Returns the names of all branches, the default branch first."""

        async def action(remote: Remote) -> list[str]:
            answer = await remote.ask("ls-remote", "--symref", "--", remote.url, _HEAD, f"{_HEADS}*")
            return branches_in(answer)

        return await self._run_on(source, action)

    async def changed_paths(self, source: GitSource, old_commit: str, new_commit: str) -> list[str]:
        """Returns the paths of all files that differ between two commits, relative to the top of the
        repository."""

        async def action(remote: Remote) -> list[str]:
            async with self._scratch() as scratch:
                options = ("--filter=blob:none",)
                return await Copy(remote, source, scratch, options=options).changed_paths(
                    old_commit, new_commit
                )

        return await self._run_on(source, action)

    async def sweep(self) -> None:
        """Terminates processes and deletes files that a killed Windlass has left in `home`."""
        await subprocesses.in_thread(partial(subprocesses.end_all_of, self._home, in_cells=False))
        for left in self._home.glob(f"{SCRATCH_PREFIX}*"):
            await subprocesses.in_thread(_remove, left)
        await subprocesses.in_thread(sweep, self._home)

    async def _run_on(self, source: GitSource, action: Callable[[Remote], Awaitable[T]]) -> T:
        """Runs an action on the repository within the time limit. Converts errors into GitError with a
        message for users."""
        where = place(source.url)
        wanted_ref(source)
        wanted_commit(source)
        with _translated(self._limits):
            async with asyncio.timeout(self._limits.seconds):
                await self._ready()
                try:
                    return await action(await self._remote(where, source.token))
                except Redirected:
                    if (other := where.with_suffix()) is None:
                        raise
                    return await action(await self._remote(other, source.token))

    async def _ready(self) -> None:
        """Checks that git is installed, and new enough to pin a host name to an address."""
        private_folder(self._home)  # an operator may have deleted the folder to free disk space
        if self._usable:
            return
        try:
            answer = await without_repository(self._home, self._limits).ask("version")
        except FileNotFoundError as error:
            raise GitError(f"{_INSTALL}: the PATH of the server has no git.") from error
        version = re.search(r"(\d+)\.(\d+)", answer)
        if not version or (int(version[1]), int(version[2])) < MIN_GIT_VERSION:
            raise GitError(f"{_INSTALL}: it has {printable(answer)}.")
        self._usable = True

    async def _remote(self, remote_address: RemoteAddress, token: str | None) -> Remote:
        pinned = await self._checked_addresses(remote_address)
        header = (
            authorization(token, str(remote_address.host))
            if token and remote_address.scheme in ("http", "https")
            else ""
        )
        trust: list[tuple[str, str]] = []
        if self._ca_file and remote_address.scheme == "https":
            # Each time: the authorities of the system are renewed, and the folder may have been deleted.
            trust = [("http.sslCAInfo", str(write_bundle(self._home, self._ca_file)))]
        variables = environment(remote_address, pinned, self._home, header, trust)
        hidden = (token, token.partition(":")[2], header.rpartition(" ")[2]) if token else ()
        return Remote(remote_address.url, variables, self._home, self._limits, hidden, bool(header))

    async def _checked_addresses(self, remote_address: RemoteAddress) -> Sequence[Address]:
        """Returns the addresses of the host. Raises GitError unless all of them are allowed."""
        if remote_address.scheme == "file":
            if not self._allow_local:
                raise GitError(
                    "Name a repository of a git server, or start Windlass with "
                    "WINDLASS_GIT_ALLOW_LOCAL=1: without it, file:// is refused."
                )
            folder = Path(unquote(urlsplit(remote_address.url).path))
            if self._closed and (await asyncio.to_thread(folder.resolve)).is_relative_to(self._closed):
                raise GitError("Name a repository outside of the data directory of Windlass.")
            return ()
        addresses = await self._addresses(remote_address)
        if not all(map(self._reach.admits, addresses)):
            raise GitError(
                "Ask the operator to allow the network of the repository with the setting outbound_allow: "
                f"{remote_address.host} has no public address."
            )
        if remote_address.scheme == "http" and not all(map(self._reach.names, addresses)):
            raise GitError("Use https://: http:// shows the code and any token to everyone on the way.")
        return addresses

    async def _addresses(self, remote_address: RemoteAddress) -> Sequence[Address]:
        if not isinstance(remote_address.host, str):
            return [remote_address.host]
        with suppress(OSError):
            if addresses := await self._resolve(remote_address.host, remote_address.port):
                return addresses
        raise GitError(
            f"Check the address of the repository: there is no machine named {remote_address.host}."
        )

    @asynccontextmanager
    async def _scratch(self) -> AsyncIterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=self._home))
        try:
            yield folder
        finally:
            await subprocesses.in_thread(_remove, folder)


async def _fetch_kept(working_copy: Copy, kept_copy: KeptCopy) -> GitCommit:
    """Fetches a commit with the kept copy. If that fails, fetches it again into an empty folder, because the
    copy may be the reason."""
    try:
        return await _fetch(working_copy)
    except GitError:
        if not kept_copy.taken:
            raise
    await subprocesses.in_thread(kept_copy.forget)
    return await _fetch(working_copy)


async def _fetch(working_copy: Copy) -> GitCommit:
    below = folder(working_copy.source.root_path)
    async with _clear_on_failure(working_copy.folder):
        if working_copy.kept:
            await subprocesses.in_thread(working_copy.kept.take, working_copy.remote.url, working_copy.folder)
        commit = (await working_copy.commits())[0]
        await working_copy.check_out(commit.id)
        if not (working_copy.folder / below).is_dir():
            raise GitError(f"root_path: there is no folder {below} in commit {commit.id[:12]}.")
    return commit


def branches_in(answer: str) -> list[str]:
    """Returns the branches in the output of `git ls-remote --symref`, the default branch first."""
    default = ""
    names: list[str] = []
    for line in answer.split("\n"):
        left, _, right = line.partition("\t")
        if right == _HEAD and left.startswith("ref: "):
            default = printable(left.removeprefix("ref: ").removeprefix(_HEADS))
        elif right.startswith(_HEADS):
            names.append(printable(right.removeprefix(_HEADS)))
    return sorted(names, key=lambda name: (name != default, name))[:MAX_BRANCHES]


def _head_in(answer: str, ref: str) -> tuple[str, str] | None:
    name = ref
    for line in answer.split("\n"):
        left, _, right = line.partition("\t")
        if right == ref and not left.startswith("ref: "):
            return printable(name.removeprefix("refs/heads/")), left
        if right == ref:
            name = left.removeprefix("ref: ")
    return None


def _refuse_without_head(url: str, source: GitSource) -> NoReturn:
    if source.branch:
        raise GitError(
            f"Choose another branch, or push this one: there is no branch {source.branch} in {url}."
        )
    raise GitError(f"Push a commit first: {url} has no commits yet, or no default branch.")


@asynccontextmanager
async def _clear_on_failure(folder: Path) -> AsyncIterator[None]:
    await subprocesses.in_thread(_remove, folder)
    async with AsyncExitStack() as undo:
        undo.push_async_callback(subprocesses.in_thread, _remove, folder)
        await subprocesses.in_thread(partial(folder.mkdir, mode=0o700, parents=True))
        yield
        undo.pop_all()


def _remove(folder: Path) -> None:
    """Removes a folder. Retries, because a terminating process may still write a file."""
    for _ in range(MAX_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.02)


@contextmanager
def _translated(limits: Limits) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise limits.too_slow() from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GitError(DISK_FULL_ERROR) from error
        _log.exception("a repository was not fetched")
        raise GitError(
            "Deploy again, or ask the operator to look at the log of Windlass: the repository was not "
            f"fetched because of an error of this machine ({_reason(error)})."
        ) from error


def _reason(error: OSError) -> str:
    """Returns the reason of an error with the file name, without the path on this machine."""
    reason = error.strerror or type(error).__name__
    name = Path(os.fsdecode(error.filename)).name if isinstance(error.filename, (str, bytes)) else ""
    return f"{name}: {reason}" if name else reason
