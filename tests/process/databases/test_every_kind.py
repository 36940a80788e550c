"""Promises of every kind of database that is started without containers."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from tests.marks import either, nightly
from tests.process.databases.servers import KINDS, command_lines, database, fallen

pytestmark = pytest.mark.slow

EVERY = pytest.mark.parametrize("name", list(KINDS))
FIRST, *OTHERS = KINDS
SHARED = pytest.mark.parametrize("name", [FIRST, *nightly(*OTHERS)])
"""For promises that the launchers keep with the same code."""


@EVERY
def test_a_restart_keeps_the_data(name):
    with database(name, new=True) as db:
        first = db.started()
        db.put("anchor")
        assert db.stop(first) == 0
        second = db.started()
        db.put("rope")
        assert db.get() == ["anchor", "rope"]
        assert db.stop(second) == 0


@pytest.mark.skipif("mysql" not in KINDS, reason="there is no MySQL or MariaDB")
def test_a_mysql_database_stores_the_letters_of_all_languages():
    with database("mysql", new=True) as db:
        db.started()
        stored = "CREATE TABLE words (word VARCHAR(9)); INSERT INTO words VALUES ('锚🪢')"
        assert db.ask(f"SET NAMES utf8mb4; {stored}; SELECT HEX(word) FROM words") == ["E9949AF09FAAA2"]


@EVERY
def test_only_the_present_password_opens_the_database(name):
    with database(name) as db:
        first = db.started()
        db.put("anchor")
        assert "secret" not in (db.ready(**{db.kind.password: "wrong"}) or "")
        assert db.ready(**{db.kind.password: "wrong"}) is not None
        db.stop(first)
        old, db.password = db.password, 'n€w and "longer"\''
        db.started()
        assert db.get() == ["anchor"]
        assert db.ready(**{db.kind.password: old}) is not None


@EVERY
@pytest.mark.nightly
def test_a_database_whose_server_is_in_another_folder_now_starts_with_its_data(name):
    with database(name) as db:
        db.stop(db.started())
        server = Path(db.artifact.environment["WINDLASS_SERVER"]).name
        former = f"/opt/former/{server}"
        process = db.started(WINDLASS_SERVER=former)
        db.put("anchor")
        assert db.stop(process) == 0
        refused = db.start(WINDLASS_SERVER=former, WINDLASS_SERVER_VERSION="1.0")
        assert refused.wait() == 1
        assert db.log.splitlines()[-1].startswith(
            f"windlass: install version 1 of the database server {server}"
        )


@SHARED
def test_a_stopping_database_does_not_wait_for_clients_and_loses_no_data(name):
    with database(name) as db:
        process = db.started()
        db.put("anchor")
        with db.waiting() as client:
            assert db.stop(process) == 0
            client.kill()
        db.started()
        assert db.get() == ["anchor"]


@SHARED
def test_a_killed_database_restarts_with_all_acknowledged_data(name):
    with database(name) as db:
        for word in ("anchor", "rope"):
            process = db.started()
            db.put(word)
            fallen(process)
        db.started()
        assert db.get() == ["anchor", "rope"]


@SHARED
def test_a_start_works_after_a_kill_during_the_creation_of_the_data_folder(name):
    with database(name, new=True) as db:
        before = time.monotonic()
        db.stop(db.started())
        whole = time.monotonic() - before
        (db.data).rename(db.folder / "other")
        for turn in range(either(4, 12)):
            process = db.start()
            time.sleep(random.uniform(0, whole))
            fallen(process, alone=turn % 2 == 0)
        db.started()
        db.put("anchor")
        assert db.get() == ["anchor"]


@SHARED
def test_one_of_two_servers_on_the_same_data_serves_and_the_other_waits(name):
    with database(name) as db:
        first = db.started()
        db.put("anchor")
        second = db.start()
        while "waiting for it" not in db.log:
            assert second.poll() is None
            time.sleep(0.02)
        db.put("rope")
        db.stop(first)
        while db.ready() is not None:
            assert second.poll() is None, db.log
            time.sleep(0.02)
        assert db.get() == ["anchor", "rope"]


@EVERY
@pytest.mark.nightly
def test_no_list_of_processes_shows_a_password(name):
    with database(name, new=True) as db:
        seen: set[bytes] = set()
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                seen.update(words for _, words in command_lines())

        watching = threading.Thread(target=watch)
        watching.start()
        db.password = "unmistakable-0d1f"
        try:
            db.stop(db.started())
            db.password = "unmistakable-77ab"
            db.started()
        finally:
            done.set()
            watching.join()
        ours = [words for words in seen if str(db.folder).encode() in words or b"windlass.launch" in words]
        assert ours
        assert not [words for words in seen if b"unmistakable" in words]


@EVERY
def test_a_database_listens_only_on_loopback(name):
    with database(name) as db:
        db.started()
        assert listening(db.port) == {"0100007F"}


def listening(port: int) -> set[str]:
    """Addresses, as the kernel writes them, on which anybody listens on this port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with Path(table).open() as lines:
            for line in list(lines)[1:]:
                _, local, _, state, *_ = line.split()
                address, _, number = local.rpartition(":")
                if int(number, 16) == port and state == "0A":
                    found.add(address)
    return found


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"PORT": "none"}, "PORT"),
        ({"WINDLASS_MEMORY": "much"}, "WINDLASS_MEMORY"),
        ({"WINDLASS_VOLUME_DATA": ""}, "WINDLASS_VOLUME_DATA"),
        ({"WINDLASS_SERVER": "/nowhere/server"}, "/nowhere/server"),
        ({"{password}": "", "MYSQL_ROOT_PASSWORD": ""}, "{password}"),
    ],
)
@EVERY
def test_an_unusable_setting_is_reported_in_one_line(name, changed, named):
    with database(name, new=True) as db:
        own = db.kind.password if name != "mysql" else "MYSQL_ROOT_PASSWORD"
        told = {key.format(password=db.kind.password): value for key, value in changed.items()}
        assert db.start(**told).wait() == 1
        [line] = db.log.splitlines()
        assert line.startswith("windlass: ")
        assert named.format(password=own) in line
