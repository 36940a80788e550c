"""OOM scores of build steps of BuildKit.

A step inherits the score of the engine, which is usually one of programs to keep (-500): a step that fills
the memory of the machine would outlive all services. The engine takes no score for steps, so that of each
process of a step is raised while it runs. Its children inherit that. Where this process has CAP_SYS_RESOURCE,
as root usually does, they may not lower it again.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base.oom_score import STEPS, set_oom_score
from windlass.base.subprocesses import in_thread

EVERY: Final = 0.2
"""Seconds between two looks at the processes of this machine."""
LOOKS: Final = 25
"""Number of checks of a process: the first process of a step enters its control group some time after it
begins."""
_STEP: Final = re.compile(rb"/buildkit/[a-z0-9]+$", re.MULTILINE)
"""The end of the control group of a step."""


@asynccontextmanager
async def raised_scores(host: str) -> AsyncIterator[None]:
    """Raises the scores of steps during a build. Only root may do that, on the machine of the engine."""
    if os.geteuid() or not host.startswith("unix:"):
        yield
        return
    raising = asyncio.create_task(_raise_repeatedly())
    try:
        yield
    finally:
        raising.cancel()
        await asyncio.gather(raising, return_exceptions=True)


async def _raise_repeatedly() -> None:
    looks: dict[str, int] = {}
    while True:
        looks = await in_thread(_raise, looks)
        await asyncio.sleep(EVERY)


def _raise(looks: Mapping[str, int]) -> dict[str, int]:
    """Raises the scores of steps among new processes. Returns the looks at each process."""
    present = {each.name: looks.get(each.name, 0) + 1 for each in Path("/proc").glob("[0-9]*")}
    for process, count in present.items():
        if count > LOOKS:
            continue
        with suppress(OSError):
            if _STEP.search(Path(f"/proc/{process}/cgroup").read_bytes()):
                set_oom_score(STEPS, process)
    return present
