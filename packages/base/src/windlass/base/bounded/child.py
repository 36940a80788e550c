"""The call server: a process that forks a child for each call, so that a call starts within milliseconds.

It imports the code of all calls once. It forks each child as a child of the Windlass server, which can thus
wait for the child and kill it. The call server has no other state and ends with the Windlass server.

A request is a pickle in an in-memory file, and a reply is a pickle in a pipe. Only this package writes them;
untrusted files are read in between and are never unpickled.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple, NoReturn

from windlass.base.isolation import calls
from windlass.base.oom_score import STEPS_SCORE, raise_own_score

MAX_REPLY_BYTES: Final = 16 << 20
_NICENESS: Final = 5
"""The niceness of calls, which gives a call a third of the server's processor time if both are busy."""


class CallRequest(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    path: Sequence[str]
    """The folders with programs of this machine, as in PATH."""
    memory: int
    """The maximum address space, in bytes."""
    seconds: int
    """The maximum processor time, in seconds."""


class CallReply(NamedTuple):
    result: Any = None
    error: BaseException | None = None


def main(number: int) -> NoReturn:
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # the call server ends together with the Windlass server
    calls.prctl(calls.PR_SET_DUMPABLE, 0)
    server = os.getppid()
    resolve_name(sys.argv[3])()
    gc.collect()
    gc.freeze()  # excludes these objects from garbage collection in the children
    channel = socket.socket(fileno=number)
    while True:
        word, descriptors, _, _ = socket.recv_fds(channel, 16, 3)
        if not word:
            os._exit(0)
        child = calls.fork_sibling()
        if not child:
            channel.close()
            calls.run_to_exit(partial(_serve, descriptors, server), _report, 1)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(child).encode())


def _serve(descriptors: list[int], server: int) -> None:
    request, output, errors = descriptors
    os.dup2(errors, 2)
    os.close(errors)
    os.setsid()
    with suppress(OSError):  # a service manager may forbid it
        os.nice(_NICENESS)
    raise_own_score(STEPS_SCORE)
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        return
    with os.fdopen(request, "rb") as file:
        call: CallRequest = pickle.loads(file.read())  # noqa: S301 (written by this package)
    os.environ["PATH"] = os.pathsep.join(call.path)  # noqa: TID251 (this process has no other environment)
    resource.setrlimit(resource.RLIMIT_AS, (call.memory, call.memory))
    resource.setrlimit(resource.RLIMIT_CPU, (call.seconds, call.seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        reply = _encode(CallReply(call.function(*call.arguments)))
        if len(reply) > MAX_REPLY_BYTES:
            raise MemoryError
    except MemoryError:
        reply = pickle.dumps(CallReply(error=MemoryError()))
    except Exception as error:  # noqa: BLE001 (returned to the caller)
        reply = _encode(CallReply(error=error))
    with os.fdopen(output, "wb") as pipe:
        pipe.write(reply)
    os._exit(0)


def _encode(reply: CallReply) -> bytes:
    written = pickle.dumps(reply)
    if reply.error is not None:
        try:
            pickle.loads(written)  # noqa: S301 (just written)
        except TypeError:  # the constructor of its class takes other arguments than `args`
            return pickle.dumps(CallReply(error=RuntimeError(repr(reply.error))))
    return written


def _report(error: BaseException) -> None:
    os.write(2, f"A call in a process of its own failed: {error!r}\n".encode())
