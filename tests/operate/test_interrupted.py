"""A restore that is killed has not happened; asked for again, it happens."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.marks import nightly
from tests.operate.installations import again, contents, stopped
from windlass.config import Settings
from windlass.operate.backup import backup

pytestmark = pytest.mark.slow


def restoring(settings: Settings, file: Path) -> subprocess.Popen[bytes]:
    words = ["restore", str(file), "--force", "--data-dir", settings.data_dir]
    environment = os.environ | {"WINDLASS_DATABASE_URL": settings.database_url}
    return subprocess.Popen(
        [sys.executable, "-m", "windlass", *words], env=environment, stderr=subprocess.PIPE
    )


def kill_in_the_middle(process: subprocess.Popen[bytes], settings: Settings, after: float) -> int:
    """Once it has begun: what it unpacks lies beside what is there."""
    beside = Path(settings.data_dir) / "logs.restored"
    while not beside.exists() and process.poll() is None:
        time.sleep(0)
    time.sleep(after)
    process.kill()
    process.communicate()
    return process.returncode


@pytest.mark.parametrize("after", [0, *nightly(0.005)])
async def test_a_killed_restore_leaves_the_database_completely_old_or_completely_new(
    database_url, tmp_path, after
):
    settings, file = await stopped(tmp_path / "data", database_url), tmp_path / "all.zip"
    async with again(settings) as world:
        for _ in range(200):
            await world.project()
    await backup(settings, file)
    new = await contents(settings)
    async with again(settings) as world:
        await world.project(name="made since")
    old = await contents(settings)
    killed = kill_in_the_middle(restoring(settings, file), settings, after)
    assert (killed, await contents(settings)) in ((-9, old), (-9, new), (0, new))
    with restoring(settings, file) as repeated:
        assert repeated.wait() == 0, repeated.communicate()
    assert await contents(settings) == new
    assert not list(Path(settings.data_dir).glob("logs.*"))
