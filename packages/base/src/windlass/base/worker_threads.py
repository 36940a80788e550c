"""Sizes the thread pool for blocking calls, such as disk access, so that no organization can occupy it alone.

Each kind of work limits the threads that one organization uses at a time: deployments, repository reads and
archive checks. Python's default pool size depends on the number of processors only. It is six on a small
machine, which is less than the sum of these limits.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

OF_A_DEPLOYMENT: Final = 4
"""The number of threads for each concurrent deployment. A deployment uses one thread for its work and one to
watch its size; deployments with and without a build are limited separately."""
_FOR_OTHERS: Final = 32
"""The number of threads for repository reads, archive checks, and short calls of requests and engines."""


def worker_threads(deployments: int) -> int:
    """Returns the pool size for this many concurrent deployments."""
    return deployments * OF_A_DEPLOYMENT + _FOR_OTHERS


def use_worker_threads(deployments: int) -> None:
    """Sets the size of the thread pool in which this event loop runs blocking calls."""
    threads = ThreadPoolExecutor(worker_threads(deployments), "windlass-work")
    asyncio.get_running_loop().set_default_executor(threads)
