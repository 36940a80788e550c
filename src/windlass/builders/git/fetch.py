"""Fetch one commit of a repository into a folder, and say which it was.

The repository, its server and everything either says are taken for hostile. Nothing that a repository brings is
run (hooks, filters, submodules), nothing but the judged address is called, and no `.git` stays behind.
"""

from __future__ import annotations

import asyncio
import errno
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from windlass.base import addresses, group
from windlass.base.addresses import Address, Reach, Resolve
from windlass.builders.git.limits import Limits, measured
from windlass.builders.git.listing import Listing, leaving
from windlass.builders.git.remote import Progress, Remote, silent
from windlass.builders.git.said import NotByName, Redirected, printable
from windlass.builders.git.settings import authorization, environment
from windlass.builders.git.source import GitError, Place, Source, folder, place, wanted_commit, wanted_ref

T = TypeVar("T")

NEEDED: Final = (2, 37)  # http.curloptResolve
MESSAGE: Final = 10_000
LAST_MOMENT: Final = 253_402_300_799  # the end of the year 9999
TRIES: Final = 50

WANTED: Final = "refs/windlass/wanted"
FACTS: Final = ("%H", "%ct", "%an", "%ae", "%B")
CONFIG: Final = {
    "sha1": "[core]\nrepositoryformatversion = 0\nbare = false\n",
    "sha256": "[core]\nrepositoryformatversion = 1\nbare = false\n[extensions]\nobjectFormat = sha256\n",
}


class Commit(Struct, frozen=True):
    id: str
    message: str
    author_name: str
    author_email: str
    created_at: int
    tag: str = ""


class Git:
    def __init__(
        self,
        *,
        allow_local: bool,
        outbound_allow: Sequence[str],
        home: Path,
        limits: Limits | None = None,
        resolve: Resolve = addresses.resolve,
    ) -> None:
        """`home` is a folder for us alone; nothing stays in it but the keys of ssh servers."""
        self._allow_local = allow_local
        self._reach = Reach(outbound_allow, loopback=allow_local)
        self._home = home.absolute()
        self._limits = limits or Limits()
        self._resolve = resolve
        self._usable = False

    async def fetch(self, source: Source, into: Path, progress: Progress = silent) -> Commit:
        """The files of one commit, in a folder that is made anew; it is gone again unless this succeeds."""
        below = folder(source.root_path)

        async def deed(remote: Remote) -> Commit:
            async with _fresh(into):
                commit = (await _taken(remote, source, into, progress))[0]
                await _check_out(remote, commit, into, progress)
                if not (into / below).is_dir():
                    raise GitError(f"root_path: there is no folder {below} in commit {commit.id[:12]}.")
            return commit

        return await self._at(source, deed)

    async def commits(self, source: Source, most: int = 20) -> list[Commit]:
        """The newest commits of a branch, newest first."""

        async def deed(remote: Remote) -> list[Commit]:
            async with self._scratch() as copy:
                return await _taken(remote, source, copy, silent, most)

        return await self._at(source, deed)

    async def head(self, source: Source) -> tuple[str, str]:
        """Name and newest commit of the branch, or of the repository's default branch."""
        ref = wanted_ref(source)

        async def deed(remote: Remote) -> tuple[str, str]:
            answer = await remote.ask("ls-remote", "--symref", "--", remote.url, ref)
            return _head_in(answer, ref) or _no_head(remote.url, source)

        return await self._at(source, deed)

    async def _at(self, source: Source, deed: Callable[[Remote], Awaitable[T]]) -> T:
        """Does it with the repository, in time, and fails in our own words."""
        where = place(source.url)
        wanted_ref(source)
        wanted_commit(source)
        with _translated(self._limits):
            async with asyncio.timeout(self._limits.seconds):
                await self._ready()
                try:
                    return await deed(await self._remote(where, source.token))
                except Redirected:
                    if (other := where.with_suffix()) is None:
                        raise
                    return await deed(await self._remote(other, source.token))

    async def _ready(self) -> None:
        """There is a git, and it can be pinned to an address."""
        if self._usable:
            return
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        nowhere = Remote("", environment(None, (), self._home), self._home, self._limits)
        try:
            answer = await nowhere.ask("version")
        except FileNotFoundError as error:
            raise GitError("git is not installed on the machine that runs Windlass.") from error
        found = re.search(r"(\d+)\.(\d+)", answer)
        if not found or (int(found[1]), int(found[2])) < NEEDED:
            raise GitError("The git of the machine that runs Windlass is too old: it must be 2.37 or newer.")
        self._usable = True

    async def _remote(self, where: Place, token: str | None) -> Remote:
        pinned = await self._judged(where)
        header = authorization(token, str(where.host)) if token and where.scheme in ("http", "https") else ""
        given = environment(where, pinned, self._home, header)
        hidden = (token, token.partition(":")[2], header.rpartition(" ")[2]) if token else ()
        return Remote(where.url, given, self._home, self._limits, hidden, bool(header))

    async def _judged(self, where: Place) -> Sequence[Address]:
        """The addresses of the host, after every one was found fit to be called."""
        if where.scheme == "file":
            if not self._allow_local:
                raise GitError("Repositories on the machine itself (file://) are not allowed here.")
            return ()
        found = await self._addresses(where)
        if not all(map(self._reach.admits, found)):
            raise GitError(
                f"{where.host} has no public address. "
                "Whoever runs Windlass can allow its network with the setting outbound_allow."
            )
        if where.scheme == "http" and not all(map(self._reach.names, found)):
            raise GitError("http:// shows the code and any token to everyone on the way: use https://.")
        return found

    async def _addresses(self, where: Place) -> Sequence[Address]:
        if not isinstance(where.host, str):
            return [where.host]
        with suppress(OSError):
            if found := await self._resolve(where.host, where.port):
                return found
        raise GitError(f"There is no machine named {where.host}.")

    @asynccontextmanager
    async def _scratch(self) -> AsyncIterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="commits-", dir=self._home))
        try:
            yield folder
        finally:
            await _aside(_gone, folder)


async def _taken(
    remote: Remote, source: Source, copy: Path, progress: Progress, most: int = 1
) -> list[Commit]:
    """Brings commits into the store of a copy; their files are still to be checked out."""
    _, tags = await group.together(_receive(remote, source, copy, progress, most), _tags(remote))
    words = ("log", "-z", "--encoding=UTF-8", f"--max-count={most}", f"--format={'%x00'.join(FACTS)}")
    answer = await remote.ask(*words, WANTED, "--", copy=copy)
    if not (found := _read_facts(answer, tags)):
        raise GitError("What was asked for is not a commit.")
    return found


async def _receive(remote: Remote, source: Source, copy: Path, progress: Progress, most: int) -> None:
    commit = wanted_commit(source)
    _lay_out(copy / ".git", "sha256" if len(commit or "") == 64 else "sha1")
    if commit is None:
        await _pull(remote, copy, wanted_ref(source), progress, f"--depth={most}")
    elif len(commit) not in (40, 64):
        await _search(remote, source, copy, commit, progress)
    else:
        try:
            await _pull(remote, copy, commit, progress, f"--depth={most}")
        except NotByName:
            await _search(remote, source, copy, commit, progress)


async def _search(remote: Remote, source: Source, copy: Path, commit: str, progress: Progress) -> None:
    """A commit known by its first digits, or on a server that gives none by name: look on the branch."""
    progress("The server cannot be asked for this commit alone; fetching the whole branch.")
    await _pull(remote, copy, wanted_ref(source), progress)
    try:
        found = await remote.ask("rev-parse", "--verify", f"{commit}^{{commit}}", copy=copy)
    except GitError as error:
        branch = source.branch or "the default branch"
        raise GitError(
            f"There is no commit {commit}, or more than one, on {branch} of {remote.url}."
        ) from error
    await remote.run("update-ref", WANTED, found.strip(), copy=copy)


async def _pull(remote: Remote, copy: Path, ref: str, progress: Progress, *depth: str) -> None:
    fixed = ("--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    words = ("fetch", *fixed, *depth, "--", remote.url, f"+{ref}:{WANTED}")
    await remote.run(*words, copy=copy, progress=progress, watched=copy / ".git" / "objects")


async def _tags(remote: Remote) -> dict[str, str]:
    """Tag by commit. Good to know; a server that will not tell is no reason to fail."""
    tags: dict[str, str] = {}
    with suppress(GitError):
        for line in (await remote.ask("ls-remote", "--tags", "--", remote.url)).splitlines():
            commit, _, ref = line.partition("\t")
            tags.setdefault(commit, printable(ref.removeprefix("refs/tags/").removesuffix("^{}")))
    return tags


async def _check_out(remote: Remote, commit: Commit, copy: Path, progress: Progress) -> None:
    listing = Listing(remote.limits)
    listed = ("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit.id)
    await remote.run(*listed, copy=copy, take=listing.feed)
    await remote.run("checkout", "--quiet", "--force", "--detach", commit.id, copy=copy, watched=copy)
    await _aside(shutil.rmtree, copy / ".git")
    remote.limits.check(*await _aside(measured, copy))
    if link := await _aside(leaving, copy, listing.links):
        raise GitError(f"{link} is a symbolic link that leaves the repository.")
    for path in listing.submodules:
        progress(f"The submodule {path} is not fetched.")
    if _uses_lfs(copy / ".gitattributes"):
        progress("Files in Git LFS are not fetched; in their place is what the commit holds, a pointer.")


def _lay_out(store: Path, names: str) -> None:
    """An empty repository, see gitrepository-layout(5); `git init` would take as long as a small fetch."""
    for each in ("objects", "refs", "info"):
        (store / each).mkdir(parents=True)
    (store / "HEAD").write_text("ref: refs/heads/none\n")
    (store / "config").write_text(CONFIG[names])
    (store / "info" / "attributes").write_text("* -filter\n")  # stands above every .gitattributes


def _uses_lfs(attributes: Path) -> bool:
    if attributes.is_symlink() or not attributes.is_file():
        return False
    with attributes.open("rb") as lines:
        return b"filter=lfs" in lines.read(64 * 1024)


def _head_in(answer: str, ref: str) -> tuple[str, str] | None:
    name = ref
    for line in answer.splitlines():
        left, _, right = line.partition("\t")
        if right == ref and not left.startswith("ref: "):
            return printable(name.removeprefix("refs/heads/")), left
        if right == ref:
            name = left.removeprefix("ref: ")
    return None


def _no_head(url: str, source: Source) -> tuple[str, str]:
    if source.branch:
        raise GitError(f"There is no branch {source.branch} in {url}.")
    raise GitError(f"{url} has no commits yet, or no default branch.")


def _read_facts(answer: str, tags: Mapping[str, str]) -> list[Commit]:
    fields = iter(answer.split("\0"))
    # One iterator, taken from as often as a commit has facts.
    return [_commit(facts, tags) for facts in zip(*[fields] * len(FACTS), strict=False)]


def _commit(facts: tuple[str, ...], tags: Mapping[str, str]) -> Commit:
    name, moment, author, email, message = facts
    return Commit(
        id=name,
        message="".join(sign for sign in message[:MESSAGE] if sign.isprintable() or sign in "\n\t").strip(),
        author_name=printable(author),
        author_email=printable(email),
        created_at=min(max(int(moment or 0), 0), LAST_MOMENT) * 1000,
        tag=tags.get(name, ""),
    )


@asynccontextmanager
async def _fresh(folder: Path) -> AsyncIterator[None]:
    await _aside(_gone, folder)
    await _aside(partial(folder.mkdir, mode=0o700, parents=True))
    try:
        yield
    except BaseException:
        await _aside(_gone, folder)
        raise


def _gone(folder: Path) -> None:
    """Also while something that was told to stop still writes a last file."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.02)


async def _aside(deed: Callable[..., T], *given: object) -> T:
    """Off the event loop; once begun it is finished, also when nobody waits for it any more."""
    return await asyncio.shield(asyncio.to_thread(deed, *given))


@contextmanager
def _translated(limits: Limits) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise limits.too_slow() from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GitError("The disk of the machine that runs Windlass is full.") from error
        raise GitError(
            "The machine that runs Windlass could not write the copy of the repository."
        ) from error
