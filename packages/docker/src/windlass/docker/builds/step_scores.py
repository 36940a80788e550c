"""Raises the OOM scores of BuildKit's build steps.

A step inherits the OOM score of the engine, which is usually low (-500) to protect the engine: a step that
exhausts the machine's memory would survive while services are killed. The engine has no setting for the score
of steps, so the score of each step process is raised while it runs. Child processes inherit the raised score.
If this process has CAP_SYS_RESOURCE (root usually has), steps cannot lower the score again.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base.oom_score import STEPS_SCORE, set_oom_score
from windlass.base.subprocesses import in_thread

SCAN_INTERVAL: Final = 0.2
"""Seconds between two scans of this machine's processes."""
MAX_SCANS: Final = 25
"""Number of scans in which a process is checked: the first process of a step enters its control group only
some time after its start."""
_STEP_PATTERN: Final = re.compile(rb"/buildkit/[a-z0-9]+$", re.MULTILINE)
"""Matches the control group path of a step."""


@asynccontextmanager
async def raised_scores(host: str) -> AsyncIterator[None]:
    """Raises the scores of build steps during the block. Only works for root on the engine's machine."""
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
        looks = await in_thread(_raise_new_scores, looks)
        await asyncio.sleep(SCAN_INTERVAL)


def _raise_new_scores(looks: Mapping[str, int]) -> dict[str, int]:
    """Raises the scores of recently started step processes. Returns the number of checks of each process."""
    present = {each.name: looks.get(each.name, 0) + 1 for each in Path("/proc").glob("[0-9]*")}
    for process, count in present.items():
        if count > MAX_SCANS:
            continue
        with suppress(OSError):
            if _STEP_PATTERN.search(Path(f"/proc/{process}/cgroup").read_bytes()):
                set_oom_score(STEPS_SCORE, process)
    return present
