"""The launcher leaves its process behind at whatever moment its server is killed."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from pathlib import Path

import pytest

from windlass.base.isolation import launcher_client
from windlass.base.isolation.launcher import PROGRAM_REQUEST

LEAVES = """
def main(path):
    open(path, "w").close()
"""


@pytest.mark.parametrize(
    "is_answered", [False, True], ids=["before the answer", "before it reads the answer"]
)
def test_a_process_started_by_the_launcher_keeps_running_if_the_server_is_killed_during_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answered: bool
):
    (tmp_path / "left_behind.py").write_text(LEAVES)
    monkeypatch.setattr(launcher_client, "PACKAGE_FOLDERS", (*launcher_client.PACKAGE_FOLDERS, str(tmp_path)))
    mark = tmp_path / "mark"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, Path(os.devnull).open("r+b") as null:
        if is_answered:
            started = start(theirs, mark)
        socket.send_fds(ours, [PROGRAM_REQUEST], [null.fileno()] * 4)
        if is_answered:
            wait_for_answer(ours)
            ours.close()
        else:
            ours.close()
            started = start(theirs, mark)
    assert started.wait(20) == 0
    until = time.monotonic() + 20
    while not mark.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert mark.exists()


def start(channel: socket.socket, mark: Path) -> subprocess.Popen[bytes]:
    command = launcher_client.program("launcher", channel.fileno(), "0", "left_behind", str(mark))
    return subprocess.Popen(command, pass_fds=(channel.fileno(),))


def wait_for_answer(channel: socket.socket) -> None:
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    assert waiting.poll(20_000)
