"""An HTTPS connection of a client. TLS is below it: the transport encrypts and decrypts.

A TLS connection cannot be passed to another process, because its keys are in the memory of the library. In a
handover, this process goes on encrypting, and the successor answers: the decrypted bytes go through a pair of
Unix sockets. The successor ends the connection with its next answer.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from windlass.routers.builtin import pages
from windlass.routers.builtin.certificates import covers
from windlass.routers.builtin.client import ClientConnection
from windlass.routers.builtin.client_socket import LOST
from windlass.routers.builtin.pipes import Pipe, PipeEnd
from windlass.routers.builtin.shared_state import ClientWait, GiveAway, SecureOrigin, SharedState
from windlass.routers.builtin.table import Paths


class TlsClient(ClientConnection):
    __slots__ = ("_covered", "_names", "is_last")

    scheme = b"https"
    is_secure = True

    def __init__(
        self,
        shared_state: SharedState,
        find_paths: Callable[[bytes], Paths | None],
        port: int,
        names: Sequence[str],
        address: str,
        *,
        is_relayed: bool = False,
    ) -> None:
        """`names`: the names of the certificate that the client has seen. `address`: the client's address.
        `is_relayed`: whether another process encrypts and decrypts."""
        super().__init__(shared_state, find_paths, port)
        self._address = address.encode()
        self._names = tuple(names)
        self._covered = b""
        """The last host for which the certificate was found to be valid."""
        self.is_last = is_relayed

    def eof_received(self) -> bool:
        stays_open = super().eof_received()
        return stays_open and bool(self.transport.can_write_eof())  # TLS closes both directions

    def _hang_up(self) -> None:
        if self.transport.can_write_eof():
            super()._hang_up()
        else:
            self._part()
            self.transport.close()  # which reads on until the client has closed, too

    # Requests

    def _route(self, method: bytes, target: bytes, body: bytes) -> None:
        host = self._fields.host
        if host != self._covered:
            if not covers(self._names, host.decode()):
                self.close = self._fields.close or self.is_last
                self.head_only = method == b"HEAD"
                self._say_unrouted(pages.misdirected(host.decode()), method, target)
                return
            self._covered = host
        super()._route(method, target, body)

    # Handing over

    def leave(self) -> None:
        """Called at the beginning of a handover. Later requests are answered by the successor."""
        self._hand_over()

    def _client_wait(self) -> ClientWait:
        wait = super()._client_wait()
        return replace(wait, secure=SecureOrigin(wait.address, self._names))

    def _give_away(self, give_away: GiveAway) -> None:
        if self.transport.can_write_eof():
            super()._give_away(give_away)  # a connection whose TLS is in an earlier process
            return
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        give_away(self._port, theirs.detach(), self._client_wait())
        self._phase = LOST
        end = PipeEnd(self.transport, paused=self._paused, blocked=self._blocked)
        self.transport.set_protocol(end)
        self._shared.do(self._relay(end, ours))

    async def _relay(self, pipe_end: PipeEnd, own_socket: socket.socket) -> None:
        """Passes decrypted bytes between the client and the successor until one of them closes."""
        shared = self._shared
        transport, other = await shared.loop.create_unix_connection(PipeEnd, sock=own_socket)
        if pipe_end.lost:
            shared.connections.remove(self)
            transport.abort()
            return
        shared.successor.active += 1
        Pipe(shared, shared.successor, pipe_end, other, _do_nothing, self)


def _do_nothing() -> None:
    pass
