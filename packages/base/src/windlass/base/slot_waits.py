"""Marks background work that only waits, such as a build for its turn, or a deployment until programs are
healthy or have ended.

The worker reads the marks: worker slots of waiting work do not count against other organizations and
environments.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final

waiting: Final[ContextVar[Callable[[], AbstractContextManager[None]]]] = ContextVar(
    "waiting", default=nullcontext
)
"""Returns a context manager that marks a block of the current work as waiting. Blocks may be nested."""
