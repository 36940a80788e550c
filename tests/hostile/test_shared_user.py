"""Windlass as an ordinary user keeps what the kernel counts for a user apart, as far as the kernel allows."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.needs import needs, needs_root, ordinary_user

OF_USERS = Path(__file__).with_name("what_users_share.py")


@pytest.mark.slow
@needs_root
@needs("pasta")
def test_services_of_an_ordinary_user_leave_the_server_what_it_needs():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        tried = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
        command = [*ordinary_user(), *tried, f"--basetemp={folder}/made", str(OF_USERS)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOME": folder})
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
