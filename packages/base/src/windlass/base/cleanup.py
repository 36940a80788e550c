"""Undoes work that fails halfway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Calls `undo` if the block raises or is cancelled. The exception reaches the caller."""
    with ExitStack() as stack:
        stack.callback(undo)
        yield
        stack.pop_all()
