"""A lock of a file holds between processes, and ends with its holder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from windlass.base import filelock

HOLDER = """
import sys, time
from pathlib import Path
from windlass.base import filelock
with filelock.holding(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_a_file_lock_held_by_another_process_is_released_when_that_process_is_killed(path):
    with holder(path) as process:
        assert filelock.try_hold(path) is None
        process.kill()
        process.wait()
        fd = filelock.try_hold(path)
    assert fd is not None
    os.close(fd)


def test_a_lock_that_was_refused_leaves_no_file_open(path):
    with holder(path):
        before = sorted(Path("/proc/self/fd").iterdir())
        assert filelock.try_hold(path) is None
        assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_lock_is_free_again_after_an_error(path):
    with pytest.raises(ZeroDivisionError), filelock.holding(path):
        raise ZeroDivisionError
    fd = filelock.try_hold(path)
    assert fd is not None
    os.close(fd)


def test_shared_locks_exclude_only_exclusive_ones(path):
    one, two, three = (filelock.open_lock_file(path) for _ in range(3))
    assert filelock.try_lock(one, shared=True)
    assert filelock.try_lock(two, shared=True)
    assert not filelock.try_lock(three)
    filelock.release(one)
    filelock.release(two)
    assert filelock.try_lock(three)
    for fd in (one, two, three):
        os.close(fd)


def test_an_open_lock_file_is_recognized_as_removed_or_replaced(path):
    fd = filelock.open_lock_file(path)
    assert filelock.is_at(fd, path)
    path.unlink()
    assert not filelock.is_at(fd, path)
    os.close(filelock.open_lock_file(path))
    assert not filelock.is_at(fd, path)
    os.close(fd)


def test_a_wait_for_a_lock_ends_with_the_number_of_the_process_that_keeps_it(path):
    with holder(path) as process:
        with pytest.raises(filelock.LockTimeout) as kept, filelock.holding(path, timeout=0.05):
            raise AssertionError("the lock was held")
        assert kept.value.holder == process.pid
    with filelock.holding(path, timeout=0.05):
        pass
