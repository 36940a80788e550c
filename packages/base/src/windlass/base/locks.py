"""Provides locks by name. A lock exists only while a task holds it or waits for it."""

from __future__ import annotations

from asyncio import Lock
from weakref import WeakValueDictionary


class Locks:
    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def __getitem__(self, name: str) -> Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = Lock()
        return lock
