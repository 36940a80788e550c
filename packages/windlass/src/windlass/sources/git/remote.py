"""Runs git commands for one repository, each in a process group of its own and within the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from windlass.base import subprocesses
from windlass.sources.git.limits import Limits, measure
from windlass.sources.git.messages import GitOutput, explain
from windlass.sources.git.settings import environment
from windlass.sources.git.source import GitError

MAX_OUTPUT_BYTES: Final = 8 * 1024**2  # for git commands whose output is read
CHECK_INTERVAL: Final = 0.1

Take = Callable[[bytes], Any]
Progress = Callable[[str], None]


def silent(line: str) -> None:
    pass


class Remote(Struct, frozen=True):
    """A repository with a checked address, and the environment that pins git to this address."""

    url: str
    environment: Mapping[str, str]
    home: Path
    limits: Limits
    hidden: tuple[str, ...] = ()
    """Texts that are removed from all output, such as the token in each of its forms."""
    has_token: bool = False

    async def ask(self, *words: str, copy: Path | None = None) -> str:
        answer = bytearray()

        def take(piece: bytes) -> None:
            answer.extend(piece)
            if len(answer) > MAX_OUTPUT_BYTES:
                raise GitError(
                    f"Check the address of the repository: {self.url} sends a larger answer than Windlass "
                    f"reads."
                )

        await self.run(*words, copy=copy, receive_data=take)
        return answer.decode(errors="replace")

    async def run(
        self,
        *words: str,
        copy: Path | None = None,
        receive_data: Take = len,
        progress: Progress = silent,
        watched: Path | None = None,
    ) -> None:
        output = GitOutput(progress, (*self.hidden, str(copy or self.home)))
        async with subprocesses.running(
            ["git", *words], cwd=copy or self.home, env=self._variables(copy)
        ) as process:
            self.limits.confine(process)
            await subprocesses.run_together(
                subprocesses.pump(process.stdout, receive_data),
                subprocesses.pump(process.stderr, output.feed),
                process.wait(),
                guard=self._watch(watched) if watched else None,
            )
            code = process.returncode
        if code:
            if watched:  # the kernel may have stopped git because a file was too large
                self.limits.check(*await asyncio.to_thread(measure, watched))
            raise explain(output.complaint(), self.url, has_token=self.has_token)

    def _variables(self, copy: Path | None) -> Mapping[str, str]:
        if copy is None:
            return self.environment
        return {**self.environment, "GIT_DIR": str(copy / ".git"), "GIT_WORK_TREE": str(copy)}

    async def _watch(self, root: Path) -> None:
        """Raises GitError when the folder exceeds a limit. Measuring takes at most a fifth of the time."""
        loop = asyncio.get_running_loop()
        pause = CHECK_INTERVAL
        while True:
            await asyncio.sleep(pause)
            began = loop.time()
            self.limits.check(*await asyncio.to_thread(measure, root))
            pause = max(CHECK_INTERVAL, 4 * (loop.time() - began))


def without_repository(home: Path, limits: Limits) -> Remote:
    """Returns a remote for git commands that need no server."""
    return Remote("", environment(None, (), home), home, limits)
