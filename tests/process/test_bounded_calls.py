"""Calls that read untrusted files end by themselves, end with their caller, and do not hold up others."""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from pathlib import Path

import pytest

from tests.process.builds.test_native_runs import until
from windlass.base.bounded import BoundedCalls, CallLimits, OutOfBounds
from windlass.builders.detecting import bounded_detection

ENDLESS = range(10**14)
"""To sum it up takes hours."""


@pytest.fixture
def calls() -> BoundedCalls:
    return bounded_detection(CallLimits(memory=256, seconds=600))


def running_calls() -> set[int]:
    """The processes of calls that run now."""
    return processes_of_calls(os.getpid())


def processes_of_calls(server: int) -> set[int]:
    """The processes of calls of a server, and the one that forks them."""
    return {int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_of_calls(int(path.name), server)}


def _is_of_calls(pid: int, server: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    leads_session = int(words[3]) == pid
    return int(words[1]) == server and leads_session and b"bounded.child" in command


async def test_a_bounded_call_returns_the_result_or_raises_the_error_of_its_function(calls):
    assert await calls.run("org", sorted, [2, 1]) == [1, 2]
    with pytest.raises(ValueError, match="invalid literal"):
        await calls.run("org", int, "one")


async def test_bounded_calls_have_the_highest_oom_score(calls):
    assert await calls.run("org", Path.read_text, Path("/proc/self/oom_score_adj")) == "800\n"


async def test_a_call_ends_after_its_processor_time():
    with pytest.raises(OutOfBounds, match="more than 1 seconds of processor time"):
        await bounded_detection(CallLimits(seconds=1)).run("org", sum, ENDLESS)


async def test_a_call_that_needs_too_much_memory_ends(calls):
    with pytest.raises(OutOfBounds, match="more than 256 MiB"):
        await calls.run("org", bytes, 1 << 30)
    assert len(await calls.run("org", bytes, 1 << 10)) == 1 << 10


async def test_a_call_that_crashes_is_reported_as_over_its_limits(calls):
    with pytest.raises(OutOfBounds, match=r"^Make the project files smaller"):
        await calls.run("org", os.abort)


async def test_warnings_about_untrusted_code_do_not_block_a_bounded_call(calls):
    assert await asyncio.wait_for(calls.run("org", warnings.warn, "x" * (1 << 20)), 30) is None


async def test_a_bounded_call_is_killed_when_its_caller_is_cancelled(calls):
    await calls.run("org", len, [])
    before = running_calls()
    call = asyncio.create_task(calls.run("org", sum, ENDLESS))
    await until(lambda: running_calls() > before)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert running_calls() == before


SERVER = """
import asyncio
from windlass.builders.detecting import bounded_detection
asyncio.run(bounded_detection().run("org", sum, range(10**14)))
"""


async def test_a_killed_server_leaves_no_helper_processes_of_bounded_calls():
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER)
    await until(lambda: len(processes_of_calls(server.pid)) == 2)
    left = processes_of_calls(server.pid)
    server.kill()
    await server.wait()
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))


async def test_endless_calls_delay_only_their_own_organization(calls):
    endless = [asyncio.create_task(calls.run("mallory", sum, ENDLESS)) for _ in range(12)]
    await asyncio.sleep(0)
    own = asyncio.create_task(calls.run("mallory", len, []))
    assert await calls.run("ada", len, [1]) == 1
    assert not own.done(), "the wall is the limit of one organization"
    for call in (*endless, own):
        call.cancel()
    await asyncio.gather(*endless, own, return_exceptions=True)


async def test_without_a_limit_per_organization_its_calls_would_block_all_others():
    calls = bounded_detection(CallLimits(of_one=2, most=2))
    endless = [asyncio.create_task(calls.run("mallory", sum, ENDLESS)) for _ in range(2)]
    await until(lambda: len(running_calls()) >= 3)
    other = asyncio.create_task(calls.run("ada", len, [1]))
    await asyncio.sleep(0.3)
    assert not other.done()
    for call in endless:
        call.cancel()
    assert await other == 1
    await asyncio.gather(*endless, return_exceptions=True)
