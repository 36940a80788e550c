"""An SQLite that can lose what it committed is refused, before it has touched anything."""

import subprocess
import sys

import pytest

from windlass.store.sqlite import OLDEST_SAFE, TooOld, check_version

# An apsw can be built against the library of a system: then its own version says nothing.
START = """
import asyncio, sys, apsw
apsw.sqlite_lib_version = lambda: sys.argv[2]
from windlass.config import Settings
from windlass.install.installation import install

async def start():
    installation = await install(Settings(data_dir=sys.argv[1]))
    await installation.stop()

asyncio.run(start())
"""


def refusal_of(*version):
    try:
        check_version(*version)
    except TooOld as refusal:
        return str(refusal)
    return ""


def test_the_installed_sqlite_is_accepted():
    assert refusal_of() == ""


@pytest.mark.parametrize("version", ["3.51.3", "3.51.10", "3.52.0", "4.0.0", "3.51.3.1"])
def test_versions_from_3_51_3_on_are_accepted(version):
    assert refusal_of(version) == ""


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.51.2.9", "3.9.99", "2.99.99"])
def test_an_older_version_is_refused_with_the_version_that_is_needed(version):
    assert version in refusal_of(version)
    assert ".".join(map(str, OLDEST_SAFE)) in refusal_of(version)


@pytest.mark.parametrize(("version", "starts"), [("3.51.2", False), ("3.51.3", True)])
def test_windlass_does_not_start_with_a_too_old_sqlite(version, starts, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", START, tmp_path, version], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is starts, done.stderr
    assert ("TooOld" in done.stderr) is not starts
    assert (tmp_path / "windlass.db").exists() is starts
