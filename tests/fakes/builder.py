"""Builders and repositories for tests: nothing is fetched or built, everything is remembered."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from windlass.base.subprocesses import in_thread
from windlass.builders.builder import BuildError, Order, Say
from windlass.builders.usage import BuildUsage
from windlass.engines.workload import Artifact
from windlass.sources.git import GitCommit, GitError, GitSource

FILES_OF_EXAMPLES = {
    "Dockerfile": "FROM scratch\n",
    "values.yaml": "",
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
}
"""The files that the examples of questions about files name."""


class FakeRepositories:
    def __init__(self) -> None:
        self.newest = hashlib.sha1(b"first", usedforsecurity=False).hexdigest()
        """The commit at the head of every branch."""
        self.broken = ""
        """If set, no repository can be read, for this reason."""
        self.fetched: list[GitSource] = []
        self.changes: dict[str, list[str]] = {}
        """The paths that commits change, by commit."""
        self.history: list[GitCommit] = []
        """The commits of every branch, the newest first; empty for one commit, the newest."""
        self.files: dict[str, str] = {}
        """The files of every commit."""

    def push(self, what: str, *paths: str) -> str:
        """Makes a new commit, which changes these files."""
        self.newest = hashlib.sha1(what.encode(), usedforsecurity=False).hexdigest()
        self.changes[self.newest] = [*paths]
        return self.newest

    async def head(self, source: GitSource) -> tuple[str, str]:
        self._answer()
        return source.branch or "main", self.newest

    async def branches(self, source: GitSource) -> list[str]:
        self._answer()
        return ["main", "next"]

    async def commits(self, source: GitSource, limit: int = 20) -> list[GitCommit]:
        self._answer()
        return self.history[:limit] or [_commit(source.commit or self.newest)]

    async def fetch(self, source: GitSource, into: Path) -> GitCommit:
        self._answer()
        self.fetched.append(source)
        await in_thread(_write_files, into, self.files)
        return _commit((source.commit or self.newest).ljust(40, "0"))

    @asynccontextmanager
    async def fetching(
        self, source: GitSource, into: Path, name: str, progress: object = None
    ) -> AsyncIterator[GitCommit]:
        yield await self.fetch(source, into)

    async def discard(self, name: str) -> None:
        return None

    async def stop(self) -> None:
        return None

    async def changed_paths(self, source: GitSource, before: str, after: str) -> list[str]:
        self._answer()
        if after not in self.changes:
            raise GitError(f"Choose another commit: there is no {before[:12]}.")
        return self.changes[after]

    async def sweep(self) -> None:
        return None

    def _answer(self) -> None:
        if self.broken:
            raise GitError(self.broken)


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def _commit(id: str) -> GitCommit:
    return GitCommit(id, f"Change {id[:7]}", "Ada", "ada@example.com", 1_790_000_000_000)


class FakeBuilder:
    def __init__(self, makes: Literal["native", "image"] = "native") -> None:
        self.makes = makes
        self.built: list[Order] = []
        self.kept: dict[tuple[str, str], Artifact] = {}
        self.place = "fake"
        """The folder of what it builds from now on."""
        self.lines: tuple[str, ...] = ()
        """Further lines of each build."""
        self.broken = ""
        """If set, nothing can be built, for this reason."""
        self.gate: asyncio.Event | None = None
        """If set, building waits for it."""
        self.used = BuildUsage()
        """What each build uses."""
        self.turn: asyncio.Event | None = None
        """If set, building waits for builds of others until then."""
        self.names: dict[str, Any] = {"command": ("run",)}
        """Fields of all artifacts: what the repository says of its processes."""
        self.pruned: list[str] = []
        """The services that were pruned, in order."""

    async def stop(self) -> None:
        return None

    async def find(self, service: str, key: str) -> Artifact | None:
        return self.kept.get((service, key))

    async def build(self, order: Order, say: Say) -> Artifact:
        self.built.append(order)
        for line in (f"Building {order.commit[:12]}", *self.lines):
            say(line)
        if self.used.is_known:
            order.usage.add_cpu(self.used.cpu_ms or 0)
            order.usage.note_memory(self.used.peak_memory or 0)
        if self.turn is not None:
            with order.paused():
                await self.turn.wait()
        if self.gate is not None:
            await self.gate.wait()
        if self.broken:
            raise BuildError(self.broken)
        artifact = Artifact(kind=self.makes, ref=f"{self.place}/{order.key}", key=order.key, **self.names)
        self.kept[order.service, order.key] = artifact
        return artifact

    async def discard(self, service: str) -> None:
        self._keep(lambda key: key[0] != service)

    async def prune(self, service: str, keep: Collection[str]) -> None:
        self.pruned.append(service)
        self._keep(lambda key: key[0] != service or key[1] in keep)

    async def services(self) -> Collection[str]:
        return {service for service, _ in self.kept}

    async def sweep(self, erase: Collection[str]) -> None:
        self._keep(lambda key: key[0] not in erase)

    async def set_aside(self, service: str, into: Path) -> None:
        """It keeps no files."""

    async def put_back(self, service: str, out: Path) -> None:
        """It keeps no files."""

    def _keep(self, is_kept: Callable[[tuple[str, str]], bool]) -> None:
        for key in [key for key in self.kept if not is_kept(key)]:
            del self.kept[key]


class FakeServers:
    def obstacle(self, type: str) -> str:
        return ""

    async def artifact(self, type: str, version: str, service: str) -> Artifact:
        return Artifact(kind="native", ref="fake", key=f"{type}-{version}", command=(type.lower(),))

    def ready(self, type: str) -> tuple[str, ...]:
        return ("ready", type.lower())

    async def discard(self, service: str) -> None:
        return None

    async def services(self) -> Collection[str]:
        return ()

    async def sweep(self, erase: Collection[str]) -> None:
        return None

    async def set_aside(self, service: str, into: Path) -> None:
        """It keeps no files."""

    async def put_back(self, service: str, out: Path) -> None:
        """It keeps no files."""
