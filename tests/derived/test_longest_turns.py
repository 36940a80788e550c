"""No operation occupies the event loop for seconds, in an organization that is filled to its limits.

While a turn of the event loop lasts, the server answers nobody. Each operation is called once, and so is the
work that follows. The worst are in the report of the run; `pytest -s` shows them, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.derived.filled import change_a_variable, filled
from tests.derived.operations import OPERATIONS
from tests.derived.stage import Stage
from tests.turns import timed_turns
from windlass.core.declare.operations import Operation
from windlass.families import registry

MAX_SECONDS = 2.0
"""The longest turn that is taken. Far above what is meant, so that no noise of the machine is a failure."""
SHOWN = 10
REFUSED_PART = 0.15
"""The part of the operations that may be refused, because their subject is gone or has another state."""


@pytest.fixture
def anyio_backend():
    """The loop of asyncio, whose turns can be measured."""
    return "asyncio", {"use_uvloop": False}


async def test_the_processor_time_of_a_turn_is_measured_and_a_wait_is_not():
    async def work(seconds: float) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    with timed_turns() as times:
        await times.begin("work")
        await asyncio.create_task(work(0.2))
        await times.begin("wait")
        await asyncio.create_task(asyncio.to_thread(time.sleep, 0.2))
        asyncio.get_running_loop().call_soon(time.sleep, 0.2)
        await times.begin("")
    assert times.longest["work"] >= 0.2 > times.longest["wait"]
    assert [work for _, work in times.worst(1)] == ["work"]


@pytest.mark.nightly
@pytest.mark.timeout(3000)
async def test_no_operation_occupies_the_event_loop_for_seconds_in_a_full_organization(record_property):
    async with filled("") as stage:
        with timed_turns() as times:
            refused = await _call_all(stage, times.begin)
    worst = "\n".join(f"{seconds:6.3f} s: {work}" for seconds, work in times.worst(SHOWN))
    record_property("The longest turns of the event loop, in seconds of the processor", worst)
    print(worst, f"{len(refused)} of {len(OPERATIONS)} operations were refused:", *refused, sep="\n")
    assert len(refused) <= REFUSED_PART * len(OPERATIONS)
    assert {work: seconds for seconds, work in times.worst(SHOWN) if seconds > MAX_SECONDS} == {}


async def _call_all(stage: Stage, begin: Callable[[str], Awaitable[None]]) -> list[str]:
    """Calls each operation. Returns those that were refused."""
    refused: list[str] = []
    for number, operation in enumerate(sorted(OPERATIONS, key=_order)):
        name = f"{operation.method} {operation.path}"
        await begin(f"what comes before {name}")
        subject = await stage.plot.subject_here(operation)
        if operation.writes:  # nothing is known from what was read before
            await change_a_variable(stage, f"value {number}")
        await begin(name)
        query = "page_size=1000" if operation.paged else subject.query
        answer = await stage.ask(subject, stage.plot.tenant.admin, query=query)
        if answer.status >= 400:
            refused.append(f"{name}: {answer.status} {answer.message}")
        await begin(f"the work that follows {name}")
        if operation.writes:
            await stage.world.settle()
    await begin("")
    return refused


def _order(operation: Operation) -> tuple[bool, bool, bool, int]:
    """Reads come first. What removes something comes last, and levels above after those below. A lock refuses
    deployments until it is removed, so it is made just before the first removal, which is its own."""
    removes = operation.method == "DELETE" or operation.path.endswith(("/uninstall", "/delete"))
    locks = operation.path.endswith("/lock")
    return operation.writes, removes, locks != removes, -_depth(operation) if removes else 0


def _depth(operation: Operation) -> int:
    depth, family = 0, operation.parent if operation.method == "DELETE" else operation.family
    while family is not None:
        depth, family = depth + 1, registry().parents(family)[0]
    return depth
