"""Fetches the demo repository that is bundled with Windlass, the repositories to which applications are
pushed, and all other repositories from their servers.

The demo's URL does not exist on the network. It is replaced by a local folder to which the repository is
written. Only this folder and those of pushed repositories are exempt from the rules for local addresses.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from windlass import demo
from windlass.base import subprocesses
from windlass.sources.git import Git, GitCommit, GitError, GitSource
from windlass.sources.git.remote import Progress, silent
from windlass.sources.push import PushedRepositories


class BundledRepositories:
    def __init__(
        self, remote_git: Git, home: Path, pushed_repositories: PushedRepositories | None = None
    ) -> None:
        """`home`: a folder that belongs to this object alone."""
        self._others = remote_git
        self._pushed = pushed_repositories
        self._repository = home.absolute() / "demo.git"
        self._local = Git(allow_local=True, outbound_allow=(), home=home / "git")

    async def fetch(self, source: GitSource, destination: Path, progress: Progress = silent) -> GitCommit:
        git, near = await self._find(source)
        with _named(source, near):
            return await git.fetch(near, destination, progress)

    @asynccontextmanager
    async def fetching(
        self, source: GitSource, destination: Path, name: str, progress: Progress = silent
    ) -> AsyncIterator[GitCommit]:
        git, near = await self._find(source)
        with _named(source, near):
            async with git.fetching(near, destination, name, progress) as commit:
                yield commit

    async def discard(self, name: str) -> None:
        for git in (self._others, self._local):
            await git.discard(name)

    async def stop(self) -> None:
        for git in (self._others, self._local):
            await git.stop()

    async def commits(self, source: GitSource, limit: int = 20) -> list[GitCommit]:
        git, near = await self._find(source)
        with _named(source, near):
            return await git.commits(near, limit)

    async def head(self, source: GitSource) -> tuple[str, str]:
        git, near = await self._find(source)
        with _named(source, near):
            return await git.head(near)

    async def branches(self, source: GitSource) -> list[str]:
        git, near = await self._find(source)
        with _named(source, near):
            return await git.branches(near)

    async def changed_paths(self, source: GitSource, old_commit: str, new_commit: str) -> list[str]:
        git, near = await self._find(source)
        with _named(source, near):
            return await git.changed_paths(near, old_commit, new_commit)

    async def sweep(self) -> None:
        await self._others.sweep()
        await self._local.sweep()

    async def _find(self, source: GitSource) -> tuple[Git, GitSource]:
        if source.pushed and self._pushed is not None:
            if not self._pushed.exists(source.pushed):
                raise GitError(f"Push a commit first, with `{_push(source)}`: nothing was pushed here yet.")
            url = f"file://{quote(str(self._pushed.path(source.pushed)))}"
            return self._local, replace(source, url=url, token=None, pushed="")
        if source.url != demo.URL:
            return self._others, source
        # written at each use, because a new version of Windlass brings a new commit
        folder = await subprocesses.in_thread(demo.repository, self._repository)
        return self._local, replace(source, url=f"file://{folder}", token=None)


_ABSENT_PATTERN: Final = re.compile(r"there is no branch |has no commits yet")
"""Matches what the repository of an application says whose pushes were all refused."""


def _push(source: GitSource) -> str:
    return f"git push {source.url} {source.branch or 'HEAD'}"


@contextmanager
def _named(source: GitSource, near: GitSource) -> Iterator[None]:
    """Replaces the local address in failures by the address that users know."""
    try:
        yield
    except GitError as error:
        if near.url == source.url:
            raise
        if source.pushed and _ABSENT_PATTERN.search(str(error)):
            raise GitError(
                f"Push a commit first, with `{_push(source)}`: this branch has no commit that was accepted."
            ) from error
        raise type(error)(str(error).replace(near.url, source.url)) from error
