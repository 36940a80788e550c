"""Reads files of a commit in subprocesses with resource limits, for requests and builds. Both are counted as
calls of their organization."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from msgspec.structs import replace

from windlass.base.bounded import BoundedCalls, CallLimits, OutOfBounds
from windlass.builders.builder import BuildError, Order

T = TypeVar("T")


def bounded_detection(limits: CallLimits = CallLimits()) -> BoundedCalls:  # noqa: B008 (frozen)
    return BoundedCalls(limits, "windlass.builders.folder_recipe:load_readers")


async def read_order(calls: BoundedCalls, function: Callable[..., T], order: Order, *more: object) -> T:
    """Reads the files of a build in a subprocess. Raises BuildError if a resource limit is exceeded."""
    # The subprocess gets no secret, and no object that only works in this process.
    sent = replace(order, paused=nullcontext, cache_secret="")
    return await read_files(calls, order.org, function, sent, *more)


async def read_files(calls: BoundedCalls, org: str, function: Callable[..., T], *arguments: object) -> T:
    """Reads files in a subprocess. Raises BuildError if a resource limit is exceeded."""
    try:
        return await calls.run(org, function, *arguments)
    except OutOfBounds as error:
        raise BuildError(str(error)) from error
