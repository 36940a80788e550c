"""Sends requests to the launcher, and starts the launcher at the first request."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import windlass
from windlass.base.cleanup import on_failure
from windlass.base.isolation.launcher import (
    GO_MESSAGE,
    PROGRAM_REQUEST,
    STEP_REQUEST,
    LaunchAnswer,
    LaunchRequest,
)
from windlass.base.isolation.step import StepRequest

PACKAGE_FOLDERS: Final = tuple(str(Path(portion).parent) for portion in windlass.__path__)
"""The folders of all Windlass packages. The launcher imports only from them and from the standard library."""
_PROGRAM: Final = (
    "import sys; sys.path[:0] = sys.argv[1].split(':'); from windlass.base.isolation.{0} import main; "
    "main(int(sys.argv[2]), *sys.argv[3:])"
)


PHASE_TIMEOUT: Final = 30.0
"""The time limit for one phase of a start, in seconds. Processes of a cell can stop a program that joins the
cell, and all other starts wait meanwhile."""


class LaunchAnswers:
    """The answers that a new process sends over a pipe. The pipe closes when the program is executed, or when
    its execution fails."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._rest, self._over = pipe, b"", False
        os.set_blocking(pipe, False)

    def next(self, until: float) -> LaunchAnswer | None:
        """Returns the next answer, or None after the last one. Raises a TimeoutError at the time `until`."""
        while b"\n" not in self._rest and not self._over:
            waiting = select.poll()
            waiting.register(self._pipe, select.POLLIN)
            if not waiting.poll(max(0.0, until - time.monotonic()) * 1000):
                raise TimeoutError(errno.ETIMEDOUT, "it did not start in time")
            piece = os.read(self._pipe, 4096)
            self._rest, self._over = self._rest + piece, not piece
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line) if line else None

    def close(self) -> None:
        os.close(self._pipe)


class StartedProgram(NamedTuple):
    """A started program, which may still wait for `go`. Its processes are children of this process."""

    pid: int
    first: int | None
    """The pid of the cell's first process, if the cell has a pid namespace."""
    go_pipe: int
    """The pipe to which `go` writes. The program runs after that, or never if the pipe is closed before."""
    answers: LaunchAnswers


def program(module: str, number: int, *more: str) -> list[str]:
    """Returns the command that runs a module of this package with the standard library only."""
    return [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _PROGRAM.format(module),
        ":".join(PACKAGE_FOLDERS),
        str(number),
        *more,
    ]


class Launcher:
    """Starts programs through the launcher. Not thread-safe."""

    def __init__(self, oom_score: int, exit_program: Sequence[str] = ()) -> None:
        """Receives the settings of the launcher process.

        `oom_score`: the OOM score of all started processes; see `base/oom_score.py`. `exit_program`: a module
        and the arguments of its `main`, which runs after this server has ended.
        """
        self._oom_score, self._after = oom_score, exit_program
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start_program(
        self, request: LaunchRequest, output: int, process: int | None = None, input: int | None = None
    ) -> StartedProgram:
        """Starts a program, which waits for `go` if the request demands it. May raise an OSError.

        `process`: the pidfd of a process whose cell the program joins. Then this returns as soon as the pid
        is known, because other programs of the cell can stop the new process from then on.
        """
        ours, theirs = os.pipe()
        hear, tell = os.pipe()
        sent = _write_request(request)
        try:
            with on_failure(partial(_close_all, hear, theirs)):
                further = [descriptor for descriptor in (input, process) if descriptor is not None]
                descriptors = [sent, ours, output, tell, *further]
                child = self._send_request(PROGRAM_REQUEST, descriptors)
        finally:
            _close_all(ours, tell, sent)
        answers = LaunchAnswers(hear)
        answer, failure = _read_answers(answers, ready=request["waits"] and process is None)
        pid, first = answer.get("pid"), answer.get("first")
        started = StartedProgram(pid or (child if failure else 0), first, theirs, answers)
        if child != started.pid:
            os.waitpid(child, 0)
        if failure is None and pid is not None and "error" not in answer:
            return started
        end(started)
        close(started)
        raise failure or OSError(answer.get("number", 0), answer.get("error", "it ended at once"))

    def start_step(self, request: StepRequest, output: int, errors: int) -> int:
        """Starts a build step as a child of this process and returns its pid. May raise an OSError.

        The kernel kills the step when the thread that sent the first request ends.
        """
        sent = _write_request(request)
        try:
            return self._send_request(STEP_REQUEST, [sent, output, errors])
        finally:
            os.close(sent)

    def close(self) -> None:
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.wait()
            self._channel = self._process = None

    def _send_request(self, request_kind: bytes, descriptors: list[int]) -> int:
        """Sends a request. Returns the pid of the process that handles it; the program may get another
        pid."""
        for _ in range(2):
            channel = self.open()
            with suppress(BrokenPipeError, ConnectionError, TimeoutError):
                socket.send_fds(channel, [request_kind], descriptors)
                if answer := channel.recv(64):
                    return int(answer)
            self._kill()  # the launcher was killed, or hangs
        raise OSError(
            "the launcher of programs was killed twice, or hangs: free memory on this machine, and try again"
        )

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self.close()

    def open(self) -> socket.socket:
        if self._channel is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.settimeout(PHASE_TIMEOUT)
            with theirs:
                self._process = subprocess.Popen(
                    program("launcher", theirs.fileno(), str(self._oom_score), *self._after),
                    pass_fds=(theirs.fileno(),),
                    cwd="/",
                    env={},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._channel = ours
        return self._channel


def release(program: StartedProgram) -> None:
    """Lets a program run. Does not wait until it is executed."""
    with suppress(BrokenPipeError):  # the process was killed; its watcher will notice
        os.write(program.go_pipe, GO_MESSAGE)


def go(program: StartedProgram) -> None:
    """Lets a program run. Returns when the program has been executed. May raise a TimeoutError."""
    release(program)
    until = time.monotonic() + PHASE_TIMEOUT
    while program.answers.next(until) is not None:
        continue


def reported_failure(program: StartedProgram) -> OSError | None:
    """Returns why a program was never executed, if it has ended and reported a reason."""
    with suppress(TimeoutError):
        while answer := program.answers.next(0.0):
            if "error" in answer:
                return OSError(answer.get("number", 0), answer["error"])
    return None


def end(program: StartedProgram) -> None:
    """Kills a program before it has run. Reaps the first process of its cell last, as the kernel requires."""
    children = [pid for pid in (program.pid, program.first) if pid]
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in children:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def close(program: StartedProgram) -> None:
    os.close(program.go_pipe)
    program.answers.close()


def _close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _write_request(request: LaunchRequest | StepRequest) -> int:
    """Writes a request to memory, not to a file or an argument, because it contains secrets."""
    file = os.memfd_create("request", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(file), "wb") as written:
        written.write(json.dumps(request).encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _read_answers(answers: LaunchAnswers, *, ready: bool) -> tuple[LaunchAnswer, TimeoutError | None]:
    """Reads answers until the pid is known and, if wanted, the process is ready; or until it has ended."""
    answer: LaunchAnswer = {}
    until = time.monotonic() + PHASE_TIMEOUT
    try:
        while piece := answers.next(until):
            answer.update(piece)
            # Two processes send answers, in any order.
            if "pid" in answer and (not ready or "ready" in answer or "error" in answer):
                break
    except TimeoutError as error:
        return answer, error
    return answer, None
