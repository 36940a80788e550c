"""Fetches the demo repository that is bundled with Windlass, and all other repositories from their servers.

The demo's URL does not exist on the network. It is replaced by a local folder to which the repository is
written. Only this folder is exempt from the rules for local addresses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from windlass import demo
from windlass.base import subprocesses
from windlass.sources.git import Git, GitCommit, GitSource
from windlass.sources.git.remote import Progress, silent


class BundledRepositories:
    def __init__(self, others: Git, home: Path) -> None:
        """`home`: a folder that belongs to this object alone."""
        self._others = others
        self._repository = home.absolute() / "demo.git"
        self._local = Git(allow_local=True, outbound_allow=(), home=home / "git")

    async def fetch(self, source: GitSource, into: Path, progress: Progress = silent) -> GitCommit:
        git, near = await self._find(source)
        return await git.fetch(near, into, progress)

    @asynccontextmanager
    async def fetching(self, source: GitSource, into: Path, name: str) -> AsyncIterator[GitCommit]:
        git, near = await self._find(source)
        async with git.fetching(near, into, name) as commit:
            yield commit

    async def discard(self, name: str) -> None:
        for git in (self._others, self._local):
            await git.discard(name)

    async def stop(self) -> None:
        for git in (self._others, self._local):
            await git.stop()

    async def commits(self, source: GitSource, most: int = 20) -> list[GitCommit]:
        git, near = await self._find(source)
        return await git.commits(near, most)

    async def head(self, source: GitSource) -> tuple[str, str]:
        git, near = await self._find(source)
        return await git.head(near)

    async def branches(self, source: GitSource) -> list[str]:
        git, near = await self._find(source)
        return await git.branches(near)

    async def changed_paths(self, source: GitSource, before: str, after: str) -> list[str]:
        git, near = await self._find(source)
        return await git.changed_paths(near, before, after)

    async def sweep(self) -> None:
        await self._others.sweep()
        await self._local.sweep()

    async def _find(self, source: GitSource) -> tuple[Git, GitSource]:
        if source.url != demo.URL:
            return self._others, source
        # written at each use, because a new version of Windlass brings a new commit
        folder = await subprocesses.in_thread(demo.repository, self._repository)
        return self._local, replace(source, url=f"file://{folder}", token=None)
