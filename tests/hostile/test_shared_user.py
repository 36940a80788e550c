"""Windlass as an ordinary user keeps what the kernel counts for a user apart, as far as the kernel allows."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.hostile.ordinary import USER
from tests.needs import needs, needs_root, ordinary_user

FOLDERS = ("/etc", "/opt", "/var/lib", "/usr/share", "/dev")
OF_USERS = Path(__file__).with_name("what_users_share.py")


@pytest.fixture
def private():
    """Files that the ordinary user alone may read, in folders that all users may enter."""
    with ExitStack() as stack:
        there = [Path(stack.enter_context(TemporaryDirectory(dir=at))) for at in FOLDERS]
        files = {
            "settings": there[0] / "settings.toml",
            "of a group": there[1] / "log",
            "in the home": there[2] / "secret",
            "named": there[3] / "windlass.toml",
            "among devices": there[4] / "secret",
        }
        for file in files.values():
            file.parent.chmod(0o755)
            file.write_text("secret")
            shutil.chown(file, USER, pwd.getpwnam(USER).pw_gid)
            file.chmod(0o600)
        files["of a group"].chmod(0o040)
        shutil.chown(files["of a group"], "root")
        files["in the home"].chmod(0o644)
        files["socket of a group"] = there[1] / "socket"
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(str(files["socket of a group"]))
        listening.listen(100)
        shutil.chown(files["socket of a group"], group=pwd.getpwnam(USER).pw_gid)
        files["socket of a group"].chmod(0o660)
        yield {**files, "home": there[2]}


@pytest.mark.slow
@needs_root
@needs("pasta")
@pytest.mark.nightly
def test_services_of_an_unprivileged_server_cannot_use_up_its_kernel_limits(private):
    files = json.dumps({name: str(path) for name, path in private.items()})
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        tried = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"]
        command = [*ordinary_user(), *tried, f"--basetemp={folder}/made", str(OF_USERS)]
        known = {**os.environ, "HOME": folder, "PRIVATE_FILES": files}
        done = subprocess.run(command, capture_output=True, text=True, env=known)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
