"""Reads files of a commit in bounded processes, for requests and for builds alike: both count as calls of
their organization."""

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
    """Reads the files of a build. Raises a BuildError if they need too much time or memory."""
    # The process that reads gets neither what belongs to this one, nor a secret.
    sent = replace(order, paused=nullcontext, cache_secret="")
    try:
        return await calls.run(order.org, function, sent, *more)
    except OutOfBounds as error:
        raise BuildError(str(error)) from error
