"""A server has a larger share of the processor than other sessions of the machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.hostile.test_server_memory import SERVE, SLEEP, running
from tests.needs import needs_root

AUTOGROUP = Path("/proc/self/autogroup")


@needs_root
@pytest.mark.skipif(not AUTOGROUP.exists(), reason="needs a kernel with autogroup")
@pytest.mark.parametrize(("command", "share"), [(SERVE, "nice -15"), (SLEEP, "nice 0")])
def test_the_session_of_a_server_has_a_larger_processor_share(command, share):
    """A program that does nothing about it has the same as any other."""
    leads = f"import os; os.setsid(); os.execv({command[0]!r}, {[*command]!r})"
    with running("as it is", (sys.executable, "-c", leads)) as pid:
        assert share in Path(f"/proc/{pid}/autogroup").read_text()
