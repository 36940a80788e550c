"""Waits until the instances of a new generation are ready to get requests.

All engines share the wait. In addition, this module reads from the cluster why instances do not start, so
that the reason is shown at once: an image, a quota, no room on a node, a volume.
"""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.engines.engine import Note, NotReady
from windlass.engines.rollout.readiness import ReadinessWait
from windlass.engines.workload import Workload
from windlass.kubernetes import names
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.events import read_events
from windlass.kubernetes.generations import Generations
from windlass.kubernetes.instances import app_status, has_ended
from windlass.kubernetes.probing import Probing
from windlass.kubernetes.reasons import controller_reason, event_reason, is_certain, pending_reason

_LOOK_INTERVAL: Final = 0.2
_CERTAIN_AFTER: Final = 1.0
"""Seconds for which a certain reason must last, because a new Secret or quota may come a moment later."""
_EVENTS_AFTER: Final = 1.5
_EVENTS_INTERVAL: Final = 2.0


class GenerationReadiness:
    def __init__(
        self,
        probing: Probing,
        api: ClusterApi,
        cache: ClusterCache,
        generations: Generations,
        workload: Workload,
        count: int,
        note_reason: Note,
    ) -> None:
        self._probing, self._api, self._cache, self._generations = probing, api, cache, generations
        self._workload, self._count, self._note = workload, count, note_reason
        self._noted = ""

    async def run(self) -> None:
        """Waits until all instances are ready. Raises NotReady."""
        if not self._count:
            return
        wait = ReadinessWait(self._probing, self._probing.clock, self._workload, self._count, self._note)
        waiting = asyncio.ensure_future(wait.run())
        looking = asyncio.ensure_future(self._look())
        try:
            await asyncio.wait([waiting, looking], return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                looking.result()  # raises
            await self._finish(waiting)
        finally:
            for task in (waiting, looking):
                task.cancel()
            await asyncio.gather(waiting, looking, return_exceptions=True)

    async def _finish(self, waiting: asyncio.Future[None]) -> None:
        try:
            await waiting
        except NotReady as failure:
            if "never started" in str(failure) and (reason := await self._reason(with_events=True)):
                raise NotReady(f"{reason}. {self._workload.name} was not started") from failure
            raise

    async def _look(self) -> None:
        """Reports why instances do not start. Raises NotReady for a reason that waiting does not change."""
        loop = asyncio.get_running_loop()
        began = since = loop.time()
        next_events, last = began + _EVENTS_AFTER, ""
        while True:
            await asyncio.sleep(_LOOK_INTERVAL)
            now = loop.time()
            with_events = now >= next_events
            if with_events:
                next_events = now + _EVENTS_INTERVAL
            reason = await self._reason(with_events=with_events)
            if not reason and not with_events:
                continue
            if reason != last:
                last, since = reason, now
            if not reason:
                continue
            if reason != self._noted:
                self._noted = reason
                await self._note(reason)
            if is_certain(reason) and now - since >= _CERTAIN_AFTER:
                raise NotReady(f"{reason}. {self._workload.name} was not started")

    async def _reason(self, *, with_events: bool) -> str:
        """Returns why an instance does not start; empty if all have started, or no obstacle is known."""
        service, generation = self._workload.service, self._workload.generation
        pods = [
            pod
            for pod in self._generations.pods(service, generation)
            if not pod.label(names.INDEX) and not has_ended(pod)
        ]
        for pod in pods:
            status = app_status(pod)
            has_begun = status is not None and status.state.running is not None
            if not has_begun and (reason := pending_reason(pod)):
                return reason
        is_short = len(pods) < self._count
        if is_short and (reason := controller_reason(self._generations.of(service, generation))):
            return reason
        if not with_events:
            return ""
        hindered = [
            pod for pod in pods if (status := app_status(pod)) is None or status.state.running is None
        ]
        named = [(pod.metadata.namespace, pod.metadata.name) for pod in hindered]
        if is_short:
            named += [
                (each.metadata.namespace, each.metadata.name)
                for each in self._generations.of(service, generation)
            ]
        if hindered:
            named += [
                (claim.metadata.namespace, claim.metadata.name)
                for claim in self._cache.claims.of(service)
                if claim.status.phase == "Pending"
            ]
        for namespace, name in named:
            if reason := event_reason(await read_events(self._api, namespace, name)):
                return reason
        return ""
