"""Waits of background work for other work, such as a build that waits for its turn.

The worker counts them: the slots of work that waits do not keep other organizations waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final

waiting: Final[ContextVar[Callable[[], AbstractContextManager[None]]]] = ContextVar(
    "waiting", default=nullcontext
)
"""Marks a block of the present work in which it waits for other work."""
