"""Handles changes in the cluster: assigns indexes to new Pods, reads their output, and sends notices."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from windlass.engines.engine import EngineError, Missed, Notice, ignore_lost_lines
from windlass.engines.workload import Phase
from windlass.kubernetes import names
from windlass.kubernetes.api import ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.documents import KubeObject, Pod
from windlass.kubernetes.generations import Generations
from windlass.kubernetes.instances import has_ended, instance, is_leaving, number
from windlass.kubernetes.output_readers import OutputReaders

_ALL: Final = -1
"""Stands for all generations of a service."""


class ChangeNotices:
    """Gets the changes of watches. Ignores them before `start`."""

    def __init__(self) -> None:
        self._generations: Generations | None = None
        self._readers: OutputReaders | None = None
        self._notice: Notice = lambda service: None
        self._missed: Missed = ignore_lost_lines
        self._seen: dict[str, tuple[Phase, int, bool]] = {}
        """Phase, restarts and readiness by uid, as of the last notice."""
        self._busy: Counter[tuple[str, int]] = Counter()
        """Number of calls in progress by generation, whose effects need no notice."""
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, generations: Generations, readers: OutputReaders, notice: Notice, missed: Missed) -> None:
        self._generations, self._readers = generations, readers
        self._notice, self._missed = notice, missed

    async def stop(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def own_effects(self, service: str, generation: int | None) -> Iterator[None]:
        """Sends no notices of a generation meanwhile, or of all generations."""
        key = service, _ALL if generation is None else generation
        self._busy[key] += 1
        try:
            yield
        finally:
            self._busy[key] -= 1
            if not self._busy[key]:
                del self._busy[key]

    def recovered(self) -> None:
        """Notes that the API server is back."""
        self._missed()

    def pod_changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if self._generations is None or self._readers is None:
            return
        if not isinstance(after, Pod):
            if isinstance(before, Pod):
                self._seen.pop(before.metadata.uid, None)
                self._readers.note(before, None)
                self._tell(before.label(names.SERVICE), number(before.label(names.GENERATION)))
            return
        index = self._generations.index(after)
        if index is not None:
            self._note_change(after, index, self._readers)
        elif not is_leaving(after) and not has_ended(after):
            service, generation = after.label(names.SERVICE), number(after.label(names.GENERATION))
            self._spawn(self._number(service, generation, self._generations))

    def controller_changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        """Notes Pods that have got their index."""
        if after is None or self._generations is None or self._readers is None:
            return
        service, generation = after.label(names.SERVICE), number(after.label(names.GENERATION))
        for pod in self._generations.pods(service, generation):
            if (index := self._generations.index(pod)) is not None:
                self._note_change(pod, index, self._readers)

    def _note_change(self, pod: Pod, index: int, readers: OutputReaders) -> None:
        readers.note(pod, index)
        seen = instance(pod, index)
        if seen is None:
            return
        state = seen.phase, seen.restarts, seen.is_ready
        known = self._seen.get(pod.metadata.uid)
        if state == known:
            return
        self._seen[pod.metadata.uid] = state
        if known is not None and state[1] > known[1]:
            self._spawn(readers.explain_restart(pod, index))
        self._tell(seen.service, seen.generation)

    def _tell(self, service: str, generation: int) -> None:
        if (service, generation) not in self._busy and (service, _ALL) not in self._busy:
            self._notice(service)

    async def _number(self, service: str, generation: int, generations: Generations) -> None:
        with suppress(EngineError, ClusterUnavailable, ClusterRefusal):
            await generations.give_indexes(service, generation)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
