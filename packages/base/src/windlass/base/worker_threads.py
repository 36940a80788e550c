"""The threads in which the server waits for the disk: enough that no organization takes all of them.

What one organization may have in threads at a time is bounded where it begins: deployments, reads of
repositories, checks of archives. The usual number of Python depends on the processors alone, six on a small
machine, and is less than the sum of these bounds.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

OF_A_DEPLOYMENT: Final = 4
"""Threads of a deployment: one for its work and one that watches its size, for deployments with and
without a build."""
_FOR_OTHERS: Final = 32
"""Reads, checks, and short looks of requests and of the engine."""


def worker_threads(deployments: int) -> int:
    """Returns the number of threads for this many concurrent deployments."""
    return deployments * OF_A_DEPLOYMENT + _FOR_OTHERS


def use_worker_threads(deployments: int) -> None:
    """Sets the number of threads in which this event loop runs blocking calls."""
    threads = ThreadPoolExecutor(worker_threads(deployments), "windlass-work")
    asyncio.get_running_loop().set_default_executor(threads)
