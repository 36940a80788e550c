"""Loops of a server go on after a failure that no part of them expects."""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial

import pytest

from tests.world import World
from windlass.base.loops import keep_running


class FailingLoop:
    """Fails at first, and then runs."""

    __name__ = "failing"

    def __init__(self) -> None:
        self.runs = asyncio.Event()
        self.has_failed = False

    async def __call__(self) -> None:
        if not self.has_failed:
            self.has_failed = True
            raise RuntimeError("something that no part expects")
        self.runs.set()
        await asyncio.Event().wait()


async def test_every_background_loop_of_a_server_restarts_after_a_failure(world: World, monkeypatch):
    installation = world.installation
    loops = (
        (installation.worker, "run"), (installation.place_owner, "run"), (installation.routes, "run"),
        (installation, "_note_uses"), (installation, "_note_marks"), (installation, "_note_changes"),
        (installation, "_note_sharing"), (installation, "_release_memory"),
        (installation.ctx.places, "follow_clusters"), (installation.key_rotation, "run"),
        (installation.routes, "watch_sites"),
        (installation.certificates, "run"), (installation.sampler, "run"),
        (installation.disk_meter, "run"),
        (installation.instance_check, "run"), (installation.audit_check, "run"),
        (installation.sleepers, "run"), (installation.sleepers, "run_wakes"),
    )  # fmt: skip
    failing = [FailingLoop() for _ in loops]
    for (owner, name), loop in zip(loops, failing, strict=True):
        monkeypatch.setattr(owner, name, loop)
    for kind in installation.ctx.kinds.values():
        own = [FailingLoop() for _ in kind.loops(installation.ctx)]
        monkeypatch.setattr(kind, "loops", lambda ctx, own=own: own)
        failing += own
    monkeypatch.setattr("windlass.install.installation.keep_running", partial(keep_running, pause=0))
    await installation.start()
    assert len(installation._tasks) == len(failing)
    for loop in failing:
        await loop.runs.wait()


async def test_a_background_loop_that_returns_is_not_restarted(caplog):
    """The control of the test above."""
    runs: list[int] = []

    async def once() -> None:
        runs.append(1)

    await keep_running(once, pause=0)
    assert (runs, caplog.text) == ([1], "")


@pytest.mark.parametrize(
    ("reason", "said", "has_trace"),
    [
        (errno.ENOSPC, "free space on the disk: it is full, and a loop waits", False),
        (errno.EDQUOT, "free space on the disk: it is full, and a loop waits", False),
        (errno.EIO, "a loop failed and begins again", True),
    ],
)
async def test_a_loop_that_meets_a_full_disk_logs_a_remedy(caplog, reason, said, has_trace):
    """The control is any other error: its trace says where it comes from."""
    errors = [OSError(reason, os.strerror(reason))]

    async def loop() -> None:
        if errors:
            raise errors.pop()

    await keep_running(loop, pause=0)
    (record,) = caplog.records
    assert (record.message, record.exc_info is not None) == (said, has_trace)
