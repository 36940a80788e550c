"""Explains errors that an operator can fix, with the remedy. Other errors are bugs, and keep their
traceback."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import apsw

from windlass.base.errors import Unavailable
from windlass.config import Settings
from windlass.control.background.place_lease import OwnerAlive
from windlass.gateway.api_sockets import PortInUse
from windlass.install.key import WrongKey
from windlass.install.ownership import DatabaseMismatch
from windlass.operate.port_holder import find_lost_gateway, holder_of
from windlass.routers.router import RouteError
from windlass.store.migrate import Changed
from windlass.store.sqlite import InUse, TooOld
from windlass.terminal.command_errors import CommandRefused


class OperatorError(Exception):
    """An error with a message for operators. Its cause is the original error."""


@contextmanager
def explain_errors(*apart_from: type[Exception]) -> Iterator[None]:
    """Converts errors that have an explanation into `OperatorError`, except errors of the types
    `apart_from`."""
    try:
        yield
    except Exception as error:  # `explain` decides which errors have an explanation
        if isinstance(error, apart_from) or (text := explain(error)) is None:
            raise
        raise OperatorError(text) from error


# Errors whose message is already written for operators
_OPERATOR_ERRORS = (
    CommandRefused,
    DatabaseMismatch,
    OwnerAlive,
    WrongKey,
    Changed,
    TooOld,
    InUse,
    Unavailable,
)


def explain(error: Exception) -> str | None:
    match error:
        case _ if isinstance(error, _OPERATOR_ERRORS):
            return str(error)
        case RouteError():
            return f"services could not be reached from outside: {error}"
        case apsw.NotADBError() | apsw.CorruptError():
            return f"the database is damaged ({error}): restore a backup with `windlass restore FILE --force`"
        case apsw.FullError():
            return "the disk is full: free disk space, then repeat"
        case apsw.Error():
            return f"the database cannot be used: {error}"
        case OSError():
            return _of_the_system(error)
        case _ if type(error).__module__.partition(".")[0] == "asyncpg":
            return f"the database cannot be used: {error}"
        case _:
            return None


_ADVICE: Mapping[int, str] = {
    errno.EACCES: "you are not allowed to: change its permissions, or run as the user who owns it",
    errno.EPERM: "you are not allowed to: change its permissions, or run as the user who owns it",
    errno.ENOSPC: "the disk is full: free disk space, then repeat",
    errno.EDQUOT: "your share of the disk is used up: free disk space, then repeat",
    errno.EROFS: "the disk is read-only: mount it writable (is it damaged? see `dmesg`), or choose another",
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "what should be a folder is a file: choose another place",
    errno.EEXIST: "what should be a folder is a file: choose another place",
    errno.EISDIR: "what should be a file is a folder: choose another name",
}


def _of_the_system(error: OSError) -> str | None:
    reason = _ADVICE.get(error.errno or 0)
    place = error.filename2 or error.filename
    return f"{place}: {reason}" if place and reason else reason


_LISTENING: Mapping[int, str] = {
    errno.EADDRINUSE: (
        "another program listens there already: stop it, or choose another port with --port (WINDLASS_PORT)"
    ),
    errno.EACCES: "ports below 1024 belong to root: choose another with --port, and put a proxy in front "
    "of it",
    errno.EADDRNOTAVAIL: "this machine has no such address: choose another with --host (WINDLASS_HOST)",
}


def cannot_listen(settings: Settings, error: OSError | PortInUse) -> CommandRefused:
    where = f"cannot listen on {settings.host}, port {settings.port}"
    if isinstance(error, PortInUse):
        return CommandRefused(f"{where}: stop the server that runs here already, process {error.process}")
    if error.errno == errno.EADDRINUSE and (gateway := find_lost_gateway(settings.port, settings)):
        return CommandRefused(
            f"mount the disk of {settings.data_dir}, and start again: the gateway of an earlier server, "
            f"process {gateway}, has port {settings.port}, and its files are not there. Where they are lost "
            f"for good, end it with `kill {gateway}`"
        )
    reason = _LISTENING.get(error.errno or 0, f"{error.strerror or error}: see --host and --port")
    holder = holder_of(settings.port, settings) if error.errno == errno.EADDRINUSE else ""
    return CommandRefused(f"{where}: {reason}" + (f". It is {holder}" if holder else ""))
