"""The side of the launcher that asks: it is there from the first request on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple

from windlass.base.isolation.launcher import GO, Answer, Request

SOURCE: Final = str(Path(__file__).parents[3])
"""Where the package lies: the launcher has no other folders to import from."""
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from windlass.base.isolation.{0} import main; "
    "main(int(sys.argv[2]))"
)


class Begun(NamedTuple):
    """Children of this process."""

    pid: int
    first: int | None
    """The first process of its cell, where it has processes of its own."""
    waiting: int
    """A pipe: the program runs once `go` is called, and never if the pipe is closed before."""
    answer: BufferedReader
    """Ends when it has become the program, or could not."""


def program(module: str, number: int) -> list[str]:
    """A module of this package as a program of its own, with nothing but the standard library."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(module), SOURCE, str(number)]


class Launcher:
    """One thread at a time may use it."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, request: Request, output: int, process: int | None = None) -> Begun:
        """`process`: whose cell it is to join. Raises an OSError if nothing was begun."""
        ours, theirs = os.pipe()
        hear, tell = os.pipe()
        sent = _sent(request)
        try:
            given = [sent, ours, output, tell, *([] if process is None else [process])]
            made = self._ask(given)
        except BaseException:
            os.close(hear)
            os.close(theirs)
            raise
        finally:
            for each in (ours, tell, sent):
                os.close(each)
        lines = open(hear, "rb")  # noqa: PTH123, SIM115 (a descriptor, which outlives this function)
        answer = _heard(lines)
        pid, first = answer.get("pid"), answer.get("first")
        if made != pid:
            os.waitpid(made, 0)
        begun = Begun(pid or 0, first, theirs, lines)
        if pid is None or "error" in answer:
            end(begun)
            close(begun)
            raise OSError(answer.get("number", 0), answer.get("error", "it ended at once"))
        return begun

    def close(self) -> None:
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.wait()
            self._channel = self._process = None

    def _ask(self, given: list[int]) -> int:
        """The process that does it, which may not be the one that stays."""
        for _ in range(2):
            channel = self._open()
            with suppress(BrokenPipeError, ConnectionError):
                socket.send_fds(channel, [b"!"], given)
                if answer := channel.recv(64):
                    return int(answer)
            self.close()  # somebody has ended it
        raise OSError("the launcher of programs does not stay: look at the memory of this machine")

    def _open(self) -> socket.socket:
        if self._channel is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    program("launcher", theirs.fileno()),
                    pass_fds=(theirs.fileno(),),
                    cwd="/",
                    env={},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._channel = ours
        return self._channel


def go(begun: Begun) -> None:
    """Returns when it is the program that runs."""
    with suppress(BrokenPipeError):  # killed already; whoever watches will see
        os.write(begun.waiting, GO)
    begun.answer.read()


def end(begun: Begun) -> None:
    """Before it has run. The first process of a cell can only be buried when everybody else in it is."""
    children = [each for each in (begun.pid, begun.first) if each]
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in children:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def close(begun: Begun) -> None:
    os.close(begun.waiting)
    begun.answer.close()


def _sent(request: Request) -> int:
    """In no file and no argument: it holds secrets."""
    file = os.memfd_create("request", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as written:
        written.write(json.dumps(request).encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _heard(lines: BufferedReader) -> Answer:
    """Until it is ready to become the program, or has ended."""
    answer: Answer = {}
    for line in lines:
        answer.update(json.loads(line))
        # They come from two processes, in any order.
        if "pid" in answer and ("ready" in answer or "error" in answer):
            break
    return answer
