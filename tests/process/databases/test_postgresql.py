"""Further promises of PostgreSQL."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.databases.servers import database, fallen

pytestmark = pytest.mark.slow

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root: this is about not being it")
WITHOUT_NAMESPACES = (sys.executable, "-I", str(Path(__file__).with_name("without_namespaces.py")))

WITHOUT_SHARED_MEMORY = (
    *("unshare", "-m", "sh", "-e", "-c"),
    'mount --bind "$0" /mnt; mount -t tmpfs none /dev/shm; mkdir -p "$0"; mount --bind /mnt "$0";'
    'mount -o remount,ro none /dev/shm; exec "$@"',
)
"""Runs a program that can make no files in /dev/shm, except in a folder there: the next word."""


def test_the_user_and_the_database_have_the_given_names():
    with database("postgresql", new=True) as db:
        db.started()
        assert db.ask("SELECT current_user, current_database(), usesuper FROM pg_user") == ["me|shop|t"]


def test_a_later_requested_postgresql_user_and_database_are_created():
    with database("postgresql") as db:
        db.stop(db.started())
        db.started(POSTGRES_USER="you-2", POSTGRES_DB="other")
        assert db.ready(POSTGRES_USER="you-2", POSTGRES_DB="other") is None
        assert "does not exist" in (db.ready(POSTGRES_DB="third") or "")


def test_shared_buffers_of_postgresql_follow_the_memory_limit():
    with database("postgresql") as db:
        db.started(WINDLASS_MEMORY="100")
        assert db.ask("SHOW shared_buffers") == ["25MB"]


def test_a_reused_process_id_of_a_dead_server_is_no_hindrance():
    with database("postgresql") as db:
        fallen(db.started())
        left = db.data / "postmaster.pid"
        number, _, rest = left.read_text().partition("\n") if left.exists() else ("", "", "")
        left.write_text(f"{os.getpid()}\n{rest}")
        db.started()
        assert number != str(os.getpid())


@pytest.mark.parametrize("forgets", [True, False])
def test_a_killed_postgresql_starts_while_another_program_is_attached_to_its_memory(forgets):
    """Without the removal of this memory, PostgreSQL refuses to start."""
    with database("postgresql") as db:
        server = db.started()
        left = db.data / "postmaster.pid"
        lines = left.read_text().splitlines()
        _, segment = map(int, lines[6].split())
        libc = ctypes.CDLL(None)
        libc.shmat.restype = ctypes.c_void_p
        attached = libc.shmat(segment, None, 0)
        assert attached != ctypes.c_void_p(-1).value
        try:
            os.kill(int(lines[0]), signal.SIGKILL)
            server.wait()
            if forgets:
                db.started()
            else:
                left.unlink()
                assert db.start().wait() != 0
                assert "pre-existing shared memory block" in db.log
        finally:
            libc.shmdt(ctypes.c_void_p(attached))


def test_postgresql_data_of_another_major_version_is_refused_unchanged_with_advice():
    with database("postgresql", "16") as older, database("postgresql", "18") as newer:
        older.stop(older.started())
        volume = str(older.folder / "volume")
        assert newer.start(WINDLASS_VOLUME_DATA=volume).wait() == 1
        assert all(word in newer.log for word in ("16", "18", "pg_dump"))
        older.started()


@pytest.mark.parametrize("volume", [True, False])
def test_postgresql_data_is_in_the_volume_even_if_pgdata_is_set(volume):
    with database("postgresql", new=True) as db:
        elsewhere = db.folder / "elsewhere"
        db.started(PGDATA=str(elsewhere), **({} if volume else {"WINDLASS_VOLUME_DATA": ""}))
        assert elsewhere.exists() is not volume
        assert db.data.exists() is volume


def test_a_data_folder_that_others_may_enter_is_closed_again():
    """PostgreSQL refuses to start on one, as after `chmod -R a+rX` of the data directory."""
    with database("postgresql") as db:
        db.stop(db.started())
        subprocess.run(["chmod", "-R", "a+rX", db.data], check=True)
        assert stat.S_IMODE(db.data.stat().st_mode) == 0o755
        db.started()
        assert stat.S_IMODE(db.data.stat().st_mode) == 0o700


@ROOT
def test_as_root_the_server_runs_unprivileged_and_its_data_stays_private():
    with database("postgresql", new=True) as db:
        db.started()
        assert stat.S_IMODE(db.data.stat().st_mode) == 0o700
        assert (db.data / "PG_VERSION").stat().st_uid == 0
        children = {capabilities(int(pid)) for pid in servers_of(db)}
        assert children == {0}
        assert capabilities(os.getpid())


@ROOT
def test_without_user_namespaces_postgresql_runs_as_an_ordinary_user():
    with database("postgresql", new=True) as db:
        Path(db.folder).chmod(0o711)
        db.stop(db.started(*WITHOUT_NAMESPACES))
        assert (db.data / "PG_VERSION").stat().st_uid != 0
        db.started()  # and with them, what was given away is taken back
        assert (db.data / "PG_VERSION").stat().st_uid == 0


@ROOT
def test_postgresql_that_could_run_only_as_root_is_reported_with_a_way_out():
    with database("postgresql", new=True) as db:
        closed = db.folder / "closed"
        volume = closed / "closed, too"
        volume.mkdir(parents=True)
        closed.chmod(0o700)
        volume.chmod(0o700)
        assert db.start(*WITHOUT_NAMESPACES, WINDLASS_VOLUME_DATA=f"{volume}/data").wait() == 1
        [command] = [line.partition("chmod o+x ")[2] for line in db.log.splitlines() if "chmod o+x " in line]
        subprocess.run(["chmod", "o+x", *shlex.split(command)], check=True)
        db.started(*WITHOUT_NAMESPACES, WINDLASS_VOLUME_DATA=f"{volume}/data")


def servers_of(db) -> list[str]:
    return [(db.data / "postmaster.pid").read_text().splitlines()[0]]


def capabilities(pid: int) -> int:
    facts = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(facts["CapEff"], 16)


@ROOT
@pytest.mark.parametrize("has_memory", [True, False])
def test_postgresql_keeps_shared_memory_in_files_where_the_cell_has_none(has_memory):
    """As where only Landlock isolates services. The control is a cell that has shared memory."""
    with database("postgresql", new=True) as db:
        db.started(*(() if has_memory else (*WITHOUT_SHARED_MEMORY, str(db.folder))))
        assert db.ask("SHOW dynamic_shared_memory_type") == ["posix" if has_memory else "mmap"]
        assert db.ask("SELECT setting FROM pg_file_settings WHERE name = 'dynamic_shared_memory_type'") == [
            "posix" if has_memory else "mmap"
        ]
