"""A witness of which instances live: each keeps a connection, which the kernel closes with its process."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


def address_of_machine() -> str:
    """Returns the address with which this machine would send packets; that of its loopback if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked, suppress(OSError):
        asked.connect(("203.0.113.1", 9))  # nothing is sent
        return str(asked.getsockname()[0])
    return "127.0.0.1"


MACHINE = address_of_machine()
"""The witness listens there, so that instances in networks of their own reach it; see `network_allow`."""
CALLS = """
import os, socket, sys, time
name = os.environ["WINDLASS_INSTANCE"]
held = socket.create_connection(("{host}", {port}))
held.sendall(name.encode() + b"\\n")
held.recv(1)
"""
"""The first lines of the program of an instance: it goes on once the witness has recorded it."""
_PATIENCE = 10.0


class Witness:
    """Listens on a port and not in a folder, because an instance sees no folder but its own."""

    def __init__(self) -> None:
        self.twins: set[str] = set()
        """Names under which two instances were alive at once."""
        self._alive: dict[str, socket.socket] = {}
        self._listening = socket.create_server((MACHINE, 0), backlog=512)
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()
        for caller in self._alive.values():
            caller.close()

    def _listen(self) -> None:
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return  # closed
            with suppress(OSError):  # killed while it called
                self._note(caller)

    def _note(self, caller: socket.socket) -> None:
        caller.settimeout(_PATIENCE)
        with caller.makefile("rb") as said:
            name = said.readline().decode().strip()
        if not name:
            caller.close()
            return
        before = self._alive.get(name)
        if before is not None:
            if _lives(before):
                self.twins.add(name)
            before.close()
        self._alive[name] = caller
        caller.sendall(b"!")


def _lives(caller: socket.socket) -> bool:
    """An instance that ended before another began has closed its connection before the other opened one."""
    caller.setblocking(False)
    try:
        return bool(caller.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False
