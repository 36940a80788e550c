"""Repeats a measurement of processes if one of them ended during it: a child that started after the
processes were listed may hold its resources by now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeVar

from windlass.base.living_thread import is_alive

MOST_LOOKS: Final = 10

Pids = TypeVar("Pids", bound=Collection[int])


def looks(find: Callable[[], Pids]) -> Iterator[Pids]:
    """Yields processes to be looked at; again, while one of them has ended since they were found."""
    for _ in range(MOST_LOOKS):
        pids = find()
        yield pids
        if all(map(is_alive, pids)):
            return
