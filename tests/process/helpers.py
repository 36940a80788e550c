"""Helpers shared by the tests of the engine of processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from tests.engines.stations import wanted
from windlass.engines.workload import Artifact
from windlass.process.records import InstanceKey

SERVICE = wanted(Artifact(kind="native", ref="")).service


KEY = InstanceKey(SERVICE, 1, 0)


def answer_of(deed: Callable[..., None], *given: Any) -> Any:
    """Returns the message that a function sends from a process of its own."""
    processes = multiprocessing.get_context("forkserver")
    ours, theirs = processes.Pipe()
    living = processes.Process(target=deed, args=(*given, theirs))
    living.start()
    theirs.close()
    answer = ours.recv()
    living.join()
    living.close()
    ours.close()
    return answer
