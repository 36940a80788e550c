"""The readers of the output of all Pods."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

from windlass.base.clock import SystemClock
from windlass.base.log import log
from windlass.engines.engine import Sink
from windlass.kubernetes.api import ClusterApi, ClusterUnavailable
from windlass.kubernetes.cache import ClusterCache
from windlass.kubernetes.documents import Pod
from windlass.kubernetes.events import read_events
from windlass.kubernetes.instances import app_status
from windlass.kubernetes.output import (
    MAX_STREAMS,
    OutputLock,
    OutputPositions,
    OutputStreams,
    PodFollower,
)
from windlass.kubernetes.reasons import killed_by_probe, probe_reason

MAX_FOLLOWERS: Final = 10_000
"""Maximum number of Pods of a cluster whose output is read at a time."""
_SILENCE_PATIENCE: Final = 10.0
_EVENT_READS, _EVENT_PAUSE = 6, 0.7
_log = log("engines.kubernetes")


class OutputReaders:
    def __init__(self, api: ClusterApi, cache: ClusterCache, folder: Path) -> None:
        self._api, self._cache = api, cache
        self._positions = OutputPositions(folder / "positions")
        self._turn, self._streams = OutputLock(folder / "reader"), OutputStreams(MAX_STREAMS)
        self._followers: dict[str, PodFollower] = {}
        self._waiting: dict[str, tuple[str, str, int]] = {}
        """Namespace, name and index by uid of Pods that wait for the end of a follower."""
        self._sink: Sink | None = None

    def start(self, sink: Sink) -> None:
        self._sink = sink

    async def stop(self) -> None:
        self._sink = None
        self._waiting.clear()
        await asyncio.gather(*(follower.stop() for follower in [*self._followers.values()]))
        self._followers.clear()
        self._turn.give_back()

    def note(self, pod: Pod, index: int | None) -> None:
        """Notes that a Pod was created, has changed, or is gone. `index`: None for one without an index."""
        uid = pod.metadata.uid
        follower = self._followers.get(uid)
        if follower is not None:
            follower.wake()
            return
        self._waiting.pop(uid, None)
        status = app_status(pod)
        has_begun = status is not None and (
            status.state.running or status.state.terminated or status.last_state.terminated
        )
        if self._sink is None or index is None or not has_begun:
            return
        if len(self._followers) >= MAX_FOLLOWERS:
            if not self._waiting:
                _log.warning("the output of some Pods is not read", extra={"limit": MAX_FOLLOWERS})
            self._waiting[uid] = pod.metadata.namespace, pod.metadata.name, index
            return
        self._follow(pod, index, self._sink)

    def _follow(self, pod: Pod, index: int, sink: Sink) -> None:
        uid = pod.metadata.uid
        follower = PodFollower(
            self._api, pod, index, self._cache.pods.get, self._positions, self._turn, self._streams, sink
        )
        self._followers[uid] = follower
        follower.when_over(partial(self._drop, uid, follower))

    def _drop(self, uid: str, follower: PodFollower) -> None:
        """Forgets a follower that is over, and begins with the Pod that waits longest."""
        if self._followers.get(uid) is follower:
            del self._followers[uid]
        while self._sink is not None and self._waiting and len(self._followers) < MAX_FOLLOWERS:
            waiting = next(iter(self._waiting))
            namespace, name, index = self._waiting.pop(waiting)
            pod = self._cache.pods.get(namespace, name)
            if pod is not None and pod.metadata.uid == waiting:
                self._follow(pod, index, self._sink)

    def forget_others(self) -> None:
        """Removes the positions of Pods that are gone. Needs a complete list of Pods, and to know which of
        them count."""
        if self._cache.pods.is_synced and not self._cache.homes.pending and self._turn.ours:
            self._positions.forget_others({pod.metadata.uid for pod in self._cache.pods.all()})

    async def until_silent(self, pod: Pod) -> None:
        """Waits until the output of an ended Pod was passed on."""
        if follower := self._followers.get(pod.metadata.uid):
            follower.wake()
            await follower.until_silent(_SILENCE_PATIENCE)

    async def explain_restart(self, pod: Pod, index: int) -> None:
        """Adds a line to the output if the node has restarted an instance because it was not alive."""
        follower = self._followers.get(pod.metadata.uid)
        if follower is None or not self._turn.ours:
            return
        for _ in range(_EVENT_READS):  # a node tells events a moment later
            try:
                events = await read_events(self._api, pod.metadata.namespace, pod.metadata.name)
            except ClusterUnavailable:
                return
            if killed_by_probe(events):
                why = probe_reason(events) or "its probe failed"
                text = f"Instance {index} is not alive ({why}): it is restarted"
                follower.say(text, SystemClock().now())
                return
            await asyncio.sleep(_EVENT_PAUSE)
