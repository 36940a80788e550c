"""Reports this program's state to systemd: see sd_notify(3). The protocol is simple and needs no library."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

_FIRST_DESCRIPTOR: Final = 3
"""The number of the first passed descriptor, SD_LISTEN_FDS_START."""


class PassedSocket(Struct, frozen=True):
    """A listening socket that systemd opened and passed to this program: see sd_listen_fds(3)."""

    name: str
    """The FileDescriptorName of the systemd unit."""
    file: int


class SystemdNotifier(Struct, frozen=True):
    """The settings that systemd passed to this program. The defaults are for a program without systemd."""

    address: str = ""
    """The path of systemd's notification socket; empty if systemd expects no notifications."""
    watchdog: float = 0.0
    """The seconds without a watchdog notification after which systemd ends this program; 0 for never."""
    sockets: Sequence[PassedSocket] = ()

    def tell(self, *states: str) -> None:
        """Sends states to systemd, such as READY=1. Ignores errors."""
        if not self.address:
            return
        name = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
            sender.setblocking(False)
            sender.sendto("\n".join(states).encode(), name)

    async def keep_alive(self) -> None:
        """Sends watchdog notifications as long as the event loop runs."""
        while self.watchdog:
            self.tell("WATCHDOG=1")
            await asyncio.sleep(self.watchdog / 3)


NOTIFY_VARIABLES: Final = (
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
)
"""The variables to remove from the environment, so that child processes do not use them."""


def notifier_of(variables: Mapping[str, str]) -> SystemdNotifier:
    """Reads the notifier from this process's environment. Makes the passed sockets non-inheritable."""
    own = str(os.getpid())
    micros, count = variables.get("WATCHDOG_USEC", ""), variables.get("LISTEN_FDS", "")
    is_watched = micros.isdecimal() and variables.get("WATCHDOG_PID", own) == own
    has_sockets = count.isdecimal() and variables.get("LISTEN_PID") == own
    names = variables.get("LISTEN_FDNAMES", "").split(":")
    sockets = [
        PassedSocket(names[at] if at < len(names) else "", _FIRST_DESCRIPTOR + at)
        for at in range(int(count) if has_sockets else 0)
    ]
    for passed in sockets:
        os.set_inheritable(passed.file, False)
    return SystemdNotifier(
        variables.get("NOTIFY_SOCKET", ""), int(micros) / 1_000_000 if is_watched else 0.0, sockets
    )
