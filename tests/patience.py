"""A test that waits for ever is a failing test: a pytest plugin.

pytest-timeout raises into whatever runs at that moment, and if that is the event loop, it shrugs and goes on.
So a coroutine gets a limit of its own, somewhat below, which also lets its fixtures clean up. If even that
does not end it, because a thread of it waits for ever, its process ends: xdist names the test, and goes on.
"""

import asyncio
import faulthandler
import functools
import hashlib
import inspect
import itertools
import os
import signal
from collections import defaultdict
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

GRACE = 60
"""Seconds past its limit after which the process of a test ends."""
ONE_BROWSER = ("tests/browser/",)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    end_process_later(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    end_process_later(item)  # once more: pytest has cancelled it if the test has failed


def end_process_later(item):
    if limit := limit_of(item):
        told = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(limit + GRACE, exit=True, file=told)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    limit = limit_of(pyfuncitem)
    if limit and inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = limited(pyfuncitem.obj, limit * 0.8)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    """The alarm of pytest-timeout waits while a report is made: there it would end the whole process, and
    on a loaded machine it did: xdist then tells of a crashed worker, without a failing test."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        return (yield)
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left, 1))


def pytest_xdist_auto_num_workers():
    """Two for each processor: tests wait for databases and leases longer than they compute."""
    return 2 * len(os.sched_getaffinity(0))


def pytest_collection_modifyitems(config, items):
    """Puts modules with long tests first, so that no process is left alone with one at the end. The others
    come in a mixed order: neighbours wait for the same things, so that the processors would be idle at one
    time and overloaded at another."""
    usual = float(config.getini("timeout") or 0)
    modules = defaultdict(list)
    for item in items:
        modules[together(item.nodeid)].append(item)
    longest = {name: of for name, of in modules.items() if max(map(limit_of, of)) > usual}
    first = sorted(longest.values(), key=lambda of: max(map(limit_of, of)), reverse=True)
    others = [item for name in sorted(modules.keys() - longest.keys(), key=mixed) for item in modules[name]]
    items[:] = dealt(first, others, getattr(config, "workerinput", {}).get("workercount", 1))


def together(test):
    """The module of a test, or its folder: what all of these tests share is made in one process only."""
    return next((folder for folder in ONE_BROWSER if test.startswith(folder)), test.partition("::")[0])


def dealt(longest, others, workers):
    """Deals the tests to n processes, each of which gets as many as xdist gives it: first whole modules of
    long tests, then its part of the others."""
    shares: list[list[Any]] = [[] for _ in range(workers)]
    for module in longest:
        min(shares, key=len).extend(module)
    left, rest = len(others) + sum(map(len, longest)), iter(others)
    for number, share in enumerate(shares):
        share.extend(itertools.islice(rest, max(0, left // (workers - number) - len(share))))
        left -= len(share)
    return [item for share in shares for item in share]


def mixed(module):
    """The same order in every process, which the seeds of `hash` are not."""
    return hashlib.md5(module.encode(), usedforsecurity=False).digest()


def limit_of(item):
    """Seconds, as pytest-timeout was told; 0 is no limit."""
    marker = item.get_closest_marker("timeout")
    said = marker.args[0] if marker else item.config.getoption("timeout", None)
    return float(said if said is not None else item.config.getini("timeout") or 0)


def limited(test, seconds):
    @functools.wraps(test)
    async def in_time(*arguments, **named):
        async with asyncio.timeout(seconds):
            return await test(*arguments, **named)

    return in_time
