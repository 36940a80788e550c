"""Counts TCP connections that programs have closed, and that the kernel has not finished yet.

The kernel counts them for the whole machine, whatever network they are in. Above `net.ipv4.tcp_max_orphans`,
it resets each connection that any program closes, so that answers of the gateway would be cut off.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

_CLOSED: Final = frozenset({b"04", b"05", b"09", b"0B"})
"""FIN_WAIT1, LAST_ACK and CLOSING: the other side has not confirmed everything. FIN_WAIT2: it has not closed,
and the program has asked the kernel to wait for that longer than usual (TCP_LINGER2)."""
_STATE, _TIMER, _INODE = 3, 5, 9
"""Columns of /proc/net/tcp."""
_BRIEF: Final = b"03:"
"""The timer of connections of which the kernel keeps no more than a note. Some are in FIN_WAIT2, and do not
count."""


def most() -> int:
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/ipv4/tcp_max_orphans").read_text())
    return 1 << 62


def present() -> int:
    """Returns how many there are on this machine."""
    with suppress(OSError, ValueError, IndexError):
        words = Path("/proc/net/sockstat").read_text().partition("TCP:")[2].split()
        return int(words[words.index("orphan") + 1])
    return 0


def in_network_of(process: int) -> int:
    """Returns how many there are in the network of a process. Slow, where there are many connections."""
    count = 0
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{process}/net/{table}", "rb") as file:  # noqa: PTH123
            for line in file:
                words = line.split(None, _INODE + 1)
                is_closed = len(words) > _INODE and words[_STATE] in _CLOSED and words[_INODE] == b"0"
                count += is_closed and not words[_TIMER].startswith(_BRIEF)
    return count
