"""Tracks background work that waits: for other work, such as a build for its turn, or for programs to
become ready.

The worker gives the slots of waiting work to other organizations and environments.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final

waiting: Final[ContextVar[Callable[[], AbstractContextManager[None]]]] = ContextVar(
    "waiting", default=nullcontext
)
"""Marks a block in which the current work only waits. Blocks are not nested."""
