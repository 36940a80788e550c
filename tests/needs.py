"""Programs and rights that tests need: without one, a test is skipped, and the reason says how to get it.

@needs("npm")
def test_a_project_is_installed(): ...
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

INSTALLED_BY: Final = {
    "chromium": "apt-get install chromium",
    "curl": "apt-get install curl",
    "docker-registry": "apt-get install docker-registry",
    "nginx": "apt-get install nginx-light",
    "gitea": "bash .ci/gitea",
    "h2spec": "bash .ci/h2spec",
    "node": "apt-get install nodejs",
    "npm": "apt-get install npm",
    "openssl": "apt-get install openssl",
    "pasta": "apt-get install passt",
    "pebble": "bash .ci/pebble",
    "php": "apt-get install php-cli",
    "promtool": "bash .ci/promtool",
    "ssh": "apt-get install openssh-client",
    "systemd-analyze": "apt-get install systemd",
}
_ORDINARY: Final = (sys.executable, "-I", str(Path(__file__).parent / "hostile" / "ordinary.py"))


def needs(*programs: str) -> pytest.MarkDecorator:
    lacking = [program for program in programs if not shutil.which(program)]
    return pytest.mark.skipif(bool(lacking), reason=" ".join(map(reason_without, lacking)))


def program(name: str) -> str:
    """Returns the path of a program, for a fixture; skips the test without it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(reason_without(name))
    return path


def reason_without(name: str) -> str:
    return f"{name} is not installed: {INSTALLED_BY[name]}"


@functools.cache
def _ordinary_works() -> bool:
    return subprocess.run([*_ORDINARY, "true"], capture_output=True, check=False).returncode == 0


def ordinary_user() -> tuple[str, ...]:
    """Returns the start of a command that root runs as an ordinary user; skips the test where it cannot."""
    if not _ordinary_works():
        pytest.skip("no program can be run as another user: not in a chroot, and with the program `mount`")
    return _ORDINARY


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: run the tests as root")
