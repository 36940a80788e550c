"""A small process that starts programs and build steps, each in its cell within milliseconds.

For each request, the launcher forks a process as a child of the server (CLONE_PARENT), so that the server can
wait for it. The launcher keeps no state and ends with the server. At its end, it can leave a process behind
that runs the function `main` of a module; the server has chosen the module.

A request is JSON in an in-memory file, which is sent together with other descriptors. The descriptors of a
program are: the request; a pipe on which `go` arrives, or which closes if the program must not run; the
program's output; a pipe for answers; the program's input, if the request has one; and optionally the pidfd of
a process whose cell the program joins. The descriptors of a build step are: the request, its standard output,
and its standard error.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn, NotRequired, TypedDict

from windlass.base.isolation import calls, cell_entry, namespace_holder, network, step
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.network import CellNetwork
from windlass.base.oom_score import raise_own_score
from windlass.base.priority import lower_priority

GO_MESSAGE: Final = b"go\n"
PROGRAM_REQUEST: Final = b"!"
STEP_REQUEST: Final = b"s"
"""The first bytes of a request, which identify the kind of program to start."""
NEVER_STARTED: Final = 125
_MAX_FDS: Final = 6


class LaunchRequest(TypedDict):
    command: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    marks: Mapping[str, str]
    """The environment variables by which the engine recognizes processes of its installation."""
    cell: Cell | None
    waits: bool
    """Whether the program waits for `go`."""
    has_input: bool
    """Whether the program reads from a descriptor of the request instead of /dev/null."""
    has_terminal: bool
    """Whether this input is a terminal, which becomes the program's controlling terminal."""
    holder_file: NotRequired[str]
    """The file of a namespace holder (namespace_holder.py). Set to start a holder instead of a command."""
    module: NotRequired[Sequence[str]]
    """A module and the arguments of its `main`. Set to run the module instead of a command. It runs without a
    cell and ends with the server."""
    groups: Sequence[str]
    """The control groups that a module enters. Programs are moved into theirs before they are executed."""


class LaunchAnswer(TypedDict, total=False):
    first: int
    """The pid of the cell's first process."""
    pid: int
    ready: bool
    """Whether the process waits for `go`."""
    error: str
    number: int


def main(number: int, oom_score: str, *after: str) -> NoReturn:
    """Serves requests until the server ends.

    `oom_score`: the OOM score of all started processes; the launcher keeps the server's score. `after`: a
    module and the arguments of its `main`, which runs after the server has ended.
    """
    os.umask(0o022)  # services must be able to enter the folders that are created for them
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most, most)
    )  # the trunk passes descriptors; programs get less
    calls.prctl(calls.PR_SET_DUMPABLE, 0)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # the launcher ends together with the server
    server = os.getppid()
    # Moves the channel to a low number: its number in the server may exceed 1,024, which steps do not close.
    channel = socket.socket(fileno=os.dup(number))
    os.close(number)
    gc.disable()  # forked children are short-lived, and share more memory without garbage collection
    gc.freeze()
    while True:
        word, descriptors = _receive_request(channel)
        if not word:
            _exit_after_fork(after)
        child = calls.fork_sibling()
        if not child:
            serve = _serve_step if word == STEP_REQUEST else _serve
            serve(descriptors, server, int(oom_score))
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(ConnectionError):  # the server was killed; the next receive will find that out
            channel.send(str(child).encode())


def _receive_request(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Receives a request and its descriptors. Returns an empty request if the server has ended."""
    try:
        word, ancillary, _, _ = channel.recvmsg(16, socket.CMSG_SPACE(4 * _MAX_FDS), socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:  # the server ended before it read the last answer
        return b"", []
    return word, _passed_descriptors(ancillary)


def _exit_after_fork(exit_program: Sequence[str]) -> NoReturn:
    """Exits. First forks the process that stays behind.

    The server may wait for the launcher to exit, but must not wait for the process that stays behind.
    """
    if not exit_program or os.fork():
        os._exit(0)

    def stay() -> None:
        _reset_signals()
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for stream in range(3):  # otherwise this process would keep the server's log open
            os.dup2(null, stream)
        importlib.import_module(exit_program[0]).main(*exit_program[1:])

    calls.run_to_exit(stay, lambda error: None, 1)


def _passed_descriptors(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    raw = b"".join(data for level, kind, data in ancillary if kind == socket.SCM_RIGHTS)
    return [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw), 4)]


def _serve(descriptors: Sequence[int], server: int, oom_score: int) -> NoReturn:
    file, go, output, answer, *more = descriptors

    def start() -> None:
        raise_own_score(oom_score)
        _reset_signals()
        with open(file, "rb") as sent:  # noqa: PTH123 (a descriptor)
            request: LaunchRequest = json.loads(sent.read())
        if "module" in request:
            _run_module(request["module"], request["groups"], answer, server)
            return
        input, process = (more[0], more[1:]) if request["has_input"] else (None, more)
        _start(request, go, ProgramStreams(input, output), answer, process)

    def report(error: BaseException) -> None:
        _send_report(answer, {"error": f"{error}", "number": getattr(error, "errno", None) or 0})

    calls.run_to_exit(start, report, 1)


def _serve_step(descriptors: Sequence[int], server: int, oom_score: int) -> NoReturn:
    file, output, errors = descriptors

    def start() -> None:
        raise_own_score(oom_score)
        _reset_signals()
        with open(file, "rb") as sent:  # noqa: PTH123 (a descriptor)
            request: step.StepRequest = json.loads(sent.read())
        lower_priority()
        step.run(request, output, errors, server)

    calls.run_to_exit(start, lambda error: os.write(errors, f"ERROR: {error}\n".encode()), 1)


def _run_module(module: Sequence[str], groups: Sequence[str], answer: int, server: int) -> None:
    lower_priority()
    step.end_with(server)
    # Before it enters the groups, in which a program of the service may leave it little processor time.
    _send_report(answer, {"pid": os.getpid()})
    cell_entry.enter_groups(groups)
    importlib.import_module(module[0]).main(*module[1:])
    os._exit(0)


def _reset_signals() -> None:
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)


class ProgramStreams(NamedTuple):
    """The descriptors for a program's standard streams."""

    input: int | None
    output: int


def _start(
    request: LaunchRequest, go: int, streams: ProgramStreams, answer: int, process: Sequence[int]
) -> None:
    cell = request["cell"]
    if "holder_file" in request:
        assert cell is not None
        _run_holder(request["holder_file"], cell["network"], go, answer)
    lower_priority()
    if process and cell:
        cell_entry.join(cell, process[0])
    elif cell:
        cell_entry.enter(cell)
    first = None
    if cell and cell["processes"]:
        if not process:
            first = _start_first_process(cell, request["marks"], answer)
        child = calls.fork_sibling()
        if child:
            _send_report(answer, {"pid": child})
            os._exit(0)
    else:
        _send_report(answer, {"pid": os.getpid()})
    _run_program(request, go, streams, answer, first)


def _start_first_process(cell: Cell, marks: Mapping[str, str], answer: int) -> int:
    """Starts the first process of a cell and waits until it is ready.

    Returns a pipe. The first process exits unless `GO_MESSAGE` is written to the pipe just before the program
    runs.
    """
    hear, tell = os.pipe2(os.O_CLOEXEC)
    ready, done = os.pipe2(os.O_CLOEXEC)
    child = calls.fork_sibling()
    if not child:
        os.close(tell)

        def stay() -> None:
            cell_entry.make_first(cell)
            os.close(done)
            if os.read(hear, len(GO_MESSAGE)) == GO_MESSAGE:
                cell_entry.sleep(marks)

        calls.run_to_exit(stay, lambda error: os.write(done, f"{error}".encode()), 1)
    os.close(hear)
    os.close(done)
    _send_report(answer, {"first": child})
    received = os.read(ready, 4096)
    os.close(ready)
    if received:
        raise OSError(received.decode())
    return tell


def _run_program(
    request: LaunchRequest, go: int, streams: ProgramStreams, answer: int, first: int | None
) -> NoReturn:
    cell_entry.confine(request["cell"])
    input = streams.input
    if input is None:
        input = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    if request["waits"]:
        _send_report(answer, {"ready": True})
        if os.read(go, len(GO_MESSAGE)) != GO_MESSAGE:
            os._exit(NEVER_STARTED)
    if first is not None:
        os.write(first, GO_MESSAGE)
    for ours, theirs in ((input, 0), (streams.output, 1), (streams.output, 2)):
        os.dup2(ours, theirs)
    if request["has_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    error = cell_entry.execute_program(request["command"], request["folder"], request["environment"])
    _send_report(answer, {"error": f"{error.strerror}", "number": error.errno or 0})
    cell_entry.give_up(request["command"], error)


def _run_holder(file: str, cell_network: CellNetwork, go: int, answer: int) -> NoReturn:
    calls.prctl(calls.PR_SET_DUMPABLE, 1)  # other processes join its namespaces through its files in /proc
    routes = network.enter(cell_network) if cell_network["kind"] != "exit" else None
    os.setsid()
    _send_report(answer, {"pid": os.getpid(), "ready": True})
    if os.read(go, len(GO_MESSAGE)) != GO_MESSAGE:
        os._exit(NEVER_STARTED)
    namespace_holder.hold(file, cell_network, routes)


def _send_report(answer: int, report: LaunchAnswer) -> None:
    os.write(answer, json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
