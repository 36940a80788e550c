"""All files in messages of Unix sockets are seen, or it is known that some are not, whatever the program does
with its sockets meanwhile."""

from __future__ import annotations

import array
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextlib import nullcontext as does_not_raise
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from windlass.base import disk_reserve, message_files, process_memory
from windlass.base.message_files import UnseenFiles, files_in_messages

SIZE = 1 << 20
MOST = 253
PASS_CREDENTIALS, PASS_LABEL, PEEK_OFFSET, PASS_PROCESS = 16, 34, 42, 76


@pytest.fixture
def holders() -> Iterator[list[int]]:
    made: list[int] = []
    yield made
    for pid in made:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.fixture
def hold(holders: list[int]) -> Callable[[Callable[[], object]], list[int]]:
    """Makes a process that keeps what a function returns."""

    def hold(make: Callable[[], object]) -> list[int]:
        hear, tell = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                kept = make()  # noqa: F841 (open until the end)
                os.write(tell, b"+")
                while True:
                    signal.pause()
            finally:
                os._exit(1)
        holders.append(pid)
        assert os.read(hear, 1) == b"+"
        os.close(hear)
        os.close(tell)
        return holders

    return hold


def large_file() -> int:
    file = os.memfd_create("x")
    os.write(file, bytes(SIZE))
    return file


def send(receiver_options: tuple[int, ...] = (), count: int = 1, messages: int = 1) -> Any:
    """Sends messages of so many files, the last of which is large, and closes all files."""
    ends = socket.socketpair()
    for option in receiver_options:
        ends[1].setsockopt(socket.SOL_SOCKET, option, 1)
    small, large = os.open(os.devnull, os.O_RDONLY), large_file()
    for _ in range(messages):
        socket.send_fds(ends[0], [b"x"], [*[small] * (count - 1), large])
    os.close(small)
    os.close(large)
    return ends


def send_without_text() -> Any:
    """The kernel shows such a message once."""
    ends, file = socket.socketpair(type=socket.SOCK_DGRAM), large_file()
    socket.send_fds(ends[0], [b""], [file])
    os.close(file)
    ends[1].recv(1, socket.MSG_PEEK)
    return ends


def send_out_of_band() -> Any:
    ends, file = socket.socketpair(), large_file()
    files = array.array("i", [file])
    ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)], socket.MSG_OOB)
    os.close(file)
    return ends


def send_before_it_is_accepted() -> Any:
    listens, connects, file = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), large_file()
    listens.bind("")
    listens.listen()
    connects.connect(listens.getsockname())
    socket.send_fds(connects, [b"x"], [file])
    os.close(file)
    return listens, connects


def sizes(pids: list[int]) -> list[int]:
    return [facts.st_size for facts in files_in_messages(pids)]


def open_descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.mark.parametrize("make", [send_without_text, send_out_of_band, send_before_it_is_accepted])
def test_a_file_that_cannot_be_read_from_a_socket_message_is_reported_as_hidden(hold, make, tmp_path):
    pids = hold(make)
    with pytest.raises(UnseenFiles):
        sizes(pids)
    assert disk_reserve.unlinked(lambda: pids, tmp_path).is_hidden
    with pytest.raises(process_memory.HiddenFiles):
        process_memory.used_by(lambda: dict.fromkeys(pids, 0))


@pytest.mark.parametrize("make", [send_without_text, send_out_of_band])
def test_without_the_kernels_count_of_file_references_a_hidden_file_would_be_missed(
    hold, make, monkeypatch, tmp_path
):
    monkeypatch.setattr(message_files, "_count_own", lambda file: 0)
    pids = hold(make)
    assert SIZE not in sizes(pids)
    assert not disk_reserve.unlinked(lambda: pids, tmp_path).is_hidden


@pytest.mark.parametrize("options", [(), (PASS_CREDENTIALS,), (PASS_CREDENTIALS, PASS_LABEL, PASS_PROCESS)])
def test_all_files_in_a_socket_message_are_found_beside_other_control_messages(hold, options):
    assert sizes(hold(lambda: send(options, MOST)))[-1] == SIZE


def test_truncated_control_messages_are_reported_as_hidden_files(hold, monkeypatch):
    """As all were, where only the descriptors themselves had room."""
    monkeypatch.setattr(message_files, "_CONTROL_BUFFER_BYTES", socket.CMSG_SPACE(MOST * 4))
    assert SIZE in sizes(hold(lambda: send((), MOST)))
    with pytest.raises(UnseenFiles):
        sizes(hold(lambda: send((PASS_CREDENTIALS,), MOST)))


def test_every_descriptor_that_comes_with_a_message_is_closed(hold):
    pids = hold(lambda: send((PASS_CREDENTIALS, PASS_PROCESS), messages=9))
    before = open_descriptors()
    assert sizes(pids) == [SIZE] * 9
    assert open_descriptors() == before


def test_without_the_check_for_process_descriptors_each_message_leaks_one(hold, monkeypatch):
    monkeypatch.setattr(message_files, "_SCM_PIDFD", 1 << 20)
    pids = hold(lambda: send((PASS_CREDENTIALS, PASS_PROCESS), messages=9))
    before = open_descriptors()
    assert sizes(pids) == [SIZE] * 9
    assert open_descriptors() == before + 9


class Anywhere(int):
    """A position that is always the expected one."""

    def __add__(self, other: int) -> Anywhere:
        return self

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


@pytest.fixture
def moved(monkeypatch):
    """A program that sets its position back all the time: deterministic, where one beside us would be late
    at times."""
    real = message_files._peek_offset

    def position(sock: socket.socket) -> int:
        sock.setsockopt(socket.SOL_SOCKET, PEEK_OFFSET, -1)
        return real(sock)

    monkeypatch.setattr(message_files, "_peek_offset", position)
    return position


@pytest.mark.usefixtures("moved")
def test_a_program_that_moves_the_peek_offset_is_treated_as_hiding_files(hold, tmp_path):
    pids = hold(lambda: send(messages=3))
    with pytest.raises(UnseenFiles):
        sizes(pids)
    assert disk_reserve.unlinked(lambda: pids, tmp_path).is_hidden


@pytest.mark.parametrize("most", [10_000, 1 << 60])
def test_without_the_check_of_the_peek_offset_the_first_message_would_be_read_forever(
    hold, moved, monkeypatch, most
):
    """As long as there was no limit of messages."""
    monkeypatch.setattr(message_files, "_peek_offset", lambda sock: Anywhere(moved(sock)))
    monkeypatch.setattr(message_files, "_MAX_MESSAGES", most)
    facts = files_in_messages(hold(lambda: send(messages=3)))
    assert len([*islice(facts, 20_000)]) == (most if most == 10_000 else 20_000)


@pytest.mark.parametrize(("disturbed", "expected"), [(0, does_not_raise()), (1, pytest.raises(UnseenFiles))])
def test_a_program_that_reads_its_messages_meanwhile_is_not_reported_as_hiding_files(
    hold, monkeypatch, disturbed, expected
):
    """Unless it reads during one attempt more than are made."""
    real, attempts = message_files._peek_message, iter(range(message_files._MAX_FAILED_ATTEMPTS + disturbed))

    @contextmanager
    def peek(sock: socket.socket) -> Iterator[tuple[int, list[int]]]:
        with real(sock) as found:
            if next(attempts, None) is not None:
                read_one(sock)
            yield found

    monkeypatch.setattr(message_files, "_peek_message", peek)
    monkeypatch.setattr(message_files, "_RETRY_PAUSE", 0)
    pids = hold(lambda: send(messages=message_files._MAX_FAILED_ATTEMPTS + 2))
    with expected:
        assert SIZE in sizes(pids)


def read_one(sock: socket.socket) -> None:
    _, files, _, _ = socket.recv_fds(sock, 1, 1)
    os.close(files[0])
