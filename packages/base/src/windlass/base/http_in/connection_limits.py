"""Limits the connections of a public port by the files that its process may open.

A connection to the API is one file; one to the gateway is two, with the connection to an instance. Four files
are counted for each, in the server as in the gateway: the others are for engines, builds, git, logs and the
database, and for connections that a gateway hands over.
"""

from __future__ import annotations

import resource
from typing import Final

from windlass.base.log import log

_log = log("files")
_DUTIES: Final = 4


def connections_within(files: int, wanted: int) -> int:
    """Returns how many clients a port may have, in a process that may open so many files."""
    return max(1, min(wanted, files // _DUTIES))


def allow_connections(wanted: int) -> int:
    """Raises the limit of open files as far as needed, and returns how many clients a port may have."""
    files = raise_limit(_DUTIES * wanted)
    allowed = connections_within(files, wanted)
    if allowed < wanted // 2:
        _log.warning(
            "raise the hard limit of open files (ulimit -Hn, LimitNOFILE): it allows fewer connections "
            "than a port could have",
            extra={"connections": allowed, "files": files, "wanted": wanted},
        )
    return allowed


def useful_files(wanted: int) -> int:
    """Returns how many files this process may open, limited to the number that this many clients need."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _DUTIES * wanted if hard == resource.RLIM_INFINITY else min(hard, _DUTIES * wanted)


def raise_limit(wanted: int) -> int:
    """Raises the soft limit of open files to as many as wanted, if the machine allows it, and returns it.

    The usual limit of 1024 exists for programs that use select(), which this one does not; engines give
    instances their own limits.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if most <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError) as error:  # a sandbox may forbid even that; the server works all the same
        _log.warning("the limit of open files cannot be raised", extra={"limit": soft, "reason": str(error)})
        return soft
    return most
