"""Limits the connections of a public port by the number of files that its process may open.

A connection to the API needs one file. A connection to the gateway needs two, including the connection to an
instance. The limit assumes four files for each connection, in the server and in the gateway. The rest is for
engines, builds, git, logs, the database, and connections that a gateway hands over.
"""

from __future__ import annotations

import resource
from typing import Final

from windlass.base.log import log

_log = log("files")
_FILES_PER_CLIENT: Final = 4


def connections_within(files: int, clients: int) -> int:
    """Returns the maximum number of clients of a port in a process that may open `files` files."""
    return max(1, min(clients, files // _FILES_PER_CLIENT))


def allow_connections(clients: int) -> int:
    """Raises the limit of open files as far as needed. Returns the maximum number of clients of a port."""
    files = raise_limit(_FILES_PER_CLIENT * clients)
    allowed = connections_within(files, clients)
    if allowed < clients // 2:
        _log.warning(
            "raise the hard limit of open files (ulimit -Hn, LimitNOFILE): it allows fewer connections "
            "than a port could have",
            extra={"connections": allowed, "files": files, "wanted": clients},
        )
    return allowed


def useful_files(clients: int) -> int:
    """Returns how many files this process may open, but at most the number that `clients` clients need."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        _FILES_PER_CLIENT * clients
        if hard == resource.RLIM_INFINITY
        else min(hard, _FILES_PER_CLIENT * clients)
    )


def raise_limit(files: int) -> int:
    """Raises the soft limit of open files to `files`, as far as the hard limit allows. Returns the limit.

    The default of 1024 exists for programs that use select(), which Windlass does not use. Engines set the
    limits of instances themselves.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return files
    most = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if most <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError) as error:  # a sandbox may forbid this; the server works nevertheless
        _log.warning("the limit of open files cannot be raised", extra={"limit": soft, "reason": str(error)})
        return soft
    return most
