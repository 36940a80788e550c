"""Counts TCP orphans: connections that their programs have closed and the kernel has not finished yet.

The kernel counts orphans for the whole machine, across network namespaces. Above `net.ipv4.tcp_max_orphans`,
it resets each connection that a program closes, which would truncate responses of the gateway.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

_ORPHAN_STATES: Final = frozenset({b"04", b"05", b"09", b"0B"})
"""The states of orphans in /proc/net/tcp. In FIN_WAIT1, CLOSING and LAST_ACK, the peer has not acknowledged
everything. In FIN_WAIT2, the peer has not closed, and the program has set a long TCP_LINGER2."""
_STATE, _TIMER, _INODE = 3, 5, 9
"""Columns of /proc/net/tcp."""
_TIME_WAIT_TIMER: Final = b"03:"
"""The timer of connections that the kernel has reduced to a TIME_WAIT entry. These are no orphans."""


def most() -> int:
    """Returns the machine's limit of orphans."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/ipv4/tcp_max_orphans").read_text())
    return 1 << 62


def present() -> int:
    """Returns the number of orphans on this machine."""
    with suppress(OSError, ValueError, IndexError):
        words = Path("/proc/net/sockstat").read_text().partition("TCP:")[2].split()
        return int(words[words.index("orphan") + 1])
    return 0


def in_network_of(process: int) -> int:
    """Returns the number of orphans in a process's network namespace. Slow with many connections."""
    count = 0
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{process}/net/{table}", "rb") as file:  # noqa: PTH123
            for line in file:
                words = line.split(None, _INODE + 1)
                is_closed = len(words) > _INODE and words[_STATE] in _ORPHAN_STATES and words[_INODE] == b"0"
                count += is_closed and not words[_TIMER].startswith(_TIME_WAIT_TIMER)
    return count
