"""Listeners to nudges, which are change notifications of the store. A lost nudge is harmless, because
listeners also poll."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from windlass.store import MAY_HAVE_MISSED, Store


class Nudges:
    """Sets the asyncio events of this process that wait for nudges. Each nudge has a topic."""

    def __init__(self, store: Store) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        store.listen(self._wake)

    def expect(self, topic: str, event: asyncio.Event | None = None) -> asyncio.Event:
        """Returns an event that is set at each nudge with this topic: the given event, or a new one."""
        event = event or asyncio.Event()
        self._waiting[topic].add(event)
        return event

    def forget(self, topic: str, event: asyncio.Event) -> None:
        self._waiting[topic].discard(event)
        if not self._waiting[topic]:
            del self._waiting[topic]

    def _wake(self, topic: str) -> None:
        for event in self._waiting.get(topic, ()):
            event.set()
        if topic == MAY_HAVE_MISSED:
            for event in {event for events in self._waiting.values() for event in events}:
                event.set()
