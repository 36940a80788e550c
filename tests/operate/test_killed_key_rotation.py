"""A rotation of the sealing key that is killed anywhere goes on, and loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from tests.operate.key_rotations import keys_of_values, killed_at, present, rotated, rows_of, serve_once
from windlass.base.encryption import Encryption
from windlass.config import Settings
from windlass.install.key import add_key, load_keys
from windlass.operate.keys import describe_keys

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("point", "time"),
    [("key added", 1), ("switched", 1), ("resealed", 1), ("resealed", 3), ("resealed", 6), ("completed", 1)],
)
def test_a_rotation_that_is_killed_anywhere_is_completed_by_the_next(settings, point, time):
    former, values = present(settings), asyncio.run(rows_of(settings))[1]
    assert killed_at(settings, point, time)
    new = present(settings)
    assert new != former
    asyncio.run(serve_once(settings))  # an interrupted rotation keeps nothing from being read
    asyncio.run(rotated(settings))
    assert [Encryption(key).fingerprint for key in load_keys(settings)] == [new]
    assert set(asyncio.run(keys_of_values(settings))) == {new}
    assert set(asyncio.run(rows_of(settings))[1]) == set(values)


def test_a_rotation_that_no_point_interrupts_ends_by_itself(settings):
    assert not killed_at(settings, "no such point")
    assert len(load_keys(settings)) == 1


def served(settings: Settings) -> subprocess.Popen[bytes]:
    words = ["serve", "--data-dir", settings.data_dir, "--port", "0", "--gateway-port", "0"]
    environment = os.environ | {"WINDLASS_DATABASE_URL": settings.database_url, "WINDLASS_ENGINE": "process"}
    return subprocess.Popen([sys.executable, "-m", "windlass", *words], env=environment)


@pytest.mark.nightly
async def test_a_server_that_is_killed_during_a_rotation_completes_it_at_its_next_start(settings):
    new = add_key(settings)
    with served(settings) as server:
        while len(await describe_keys(settings)) < 2:  # noqa: ASYNC110 (the server is another process)
            await asyncio.sleep(0)
        server.kill()
    with served(settings) as server:
        while not (await describe_keys(settings))[0].retired_at:  # noqa: ASYNC110 (the same)
            await asyncio.sleep(0.05)
        server.send_signal(signal.SIGTERM)
    assert set(await keys_of_values(settings)) == {new}
    assert server.returncode == 0
