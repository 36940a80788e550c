"""Orders are read in a process of its own."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from windlass.builders.builder import Order
from windlass.builders.detecting import bounded_detection, read_order


async def test_the_process_that_parses_a_build_order_receives_no_secret():
    lock = asyncio.Lock()  # cannot be sent

    @contextmanager
    def paused():
        assert not lock.locked()
        yield

    order = Order(
        service="s1",
        org="acme",
        name="shop",
        deployment="d1",
        key="k1",
        commit="c" * 40,
        source=Path("/nowhere"),
        cache_secret="secret",
        paused=paused,
    )
    read = await read_order(bounded_detection(), replace, order)
    assert (read.service, read.cache_secret) == ("s1", "")
