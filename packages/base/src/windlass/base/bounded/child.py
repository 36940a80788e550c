"""A process that forks one child for each call, so that a call starts within milliseconds.

It has loaded what calls need. Each child is a child of the server, which learns how it ends and
may kill it. This process keeps no state and ends with the server.

A request is a pickle in a memory file; the reply of a child goes into a pipe, as a pickle. Both come from
this package: untrusted files are read in between, and are never unpickled.
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
from windlass.base.oom_score import STEPS, raise_own_score

LARGEST_REPLY: Final = 16 << 20
_NICENESS: Final = 5
"""A call gets a third of the processor time of the server, where both want it."""


class CallRequest(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    path: Sequence[str]
    """Folders of programs of this machine."""
    memory: int
    """Bytes of address space."""
    seconds: int
    """Seconds of processor time."""


class CallReply(NamedTuple):
    result: Any = None
    error: BaseException | None = None


def main(number: int) -> NoReturn:
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # it ends with the server
    calls.prctl(calls.PR_SET_DUMPABLE, 0)
    server = os.getppid()
    resolve_name(sys.argv[3])()
    gc.collect()
    gc.freeze()  # children share these objects, and need not look through them
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
    raise_own_score(STEPS)
    calls.prctl(calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        return
    with os.fdopen(request, "rb") as file:
        call: CallRequest = pickle.loads(file.read())  # noqa: S301 (this package has written it)
    os.environ["PATH"] = os.pathsep.join(call.path)  # noqa: TID251 (it starts without an environment)
    resource.setrlimit(resource.RLIMIT_AS, (call.memory, call.memory))
    resource.setrlimit(resource.RLIMIT_CPU, (call.seconds, call.seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        reply = _encode(CallReply(call.function(*call.arguments)))
        if len(reply) > LARGEST_REPLY:
            raise MemoryError
    except MemoryError:
        reply = pickle.dumps(CallReply(error=MemoryError()))
    except Exception as error:  # noqa: BLE001 (the caller gets it)
        reply = _encode(CallReply(error=error))
    with os.fdopen(output, "wb") as pipe:
        pipe.write(reply)
    os._exit(0)


def _encode(reply: CallReply) -> bytes:
    written = pickle.dumps(reply)
    if reply.error is not None:
        try:
            pickle.loads(written)  # noqa: S301 (just written)
        except TypeError:  # its class takes other arguments than it keeps
            return pickle.dumps(CallReply(error=RuntimeError(repr(reply.error))))
    return written


def _report(error: BaseException) -> None:
    os.write(2, f"A call in a process of its own failed: {error!r}\n".encode())
