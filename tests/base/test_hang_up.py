"""SIGHUP does nothing to Windlass but a line in its log."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from windlass.base.sighup import handle_hang_ups


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
async def test_sighup_is_logged_and_ignored_even_under_nohup(before, caplog):
    former = signal.signal(signal.SIGHUP, before)
    try:
        handle_hang_ups()
        os.kill(os.getpid(), signal.SIGHUP)
        while "SIGHUP does nothing" not in caplog.text:  # noqa: ASYNC110 (a line in a log is no event)
            await asyncio.sleep(0.01)
        assert len(caplog.records) == 1
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, former)
