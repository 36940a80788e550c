"""A connection of a proxy until its header of the PROXY protocol has arrived. The HTTPS port reads the header
by itself, before the ClientHello; see `https_port`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from windlass.base.http_in.connections import Admission, network_of
from windlass.routers.builtin.proxy_header import IncompleteHeader, NoHeader, read_proxy_header
from windlass.routers.builtin.shared_state import SharedState


class ProxiedConnection(asyncio.Protocol):
    """Replaced by the protocol of the client as soon as the client's address is known."""

    __slots__ = ("_begin", "_data", "_shared", "_since", "_transport", "network")

    def __init__(
        self, shared_state: SharedState, transport: Any, address: str, begin: Callable[[str], Any]
    ) -> None:
        """`begin` makes the client's connection begin with its address, and returns its protocol."""
        self._shared, self._transport, self._begin = shared_state, transport, begin
        self._data = b""
        self._since = shared_state.loop.time()
        self.network = network_of(address)
        transport.set_protocol(self)
        if shared_state.stopping or shared_state.connections.admit(self) is not Admission.FREE:
            self.abort()

    # In the connection table

    def waits_since(self) -> float | None:
        return self._since

    def age(self, now: float) -> None:
        if now - self._since > self._shared.bounds.head_seconds:
            self._refuse("no PROXY header in time")

    def abort(self) -> None:
        self._transport.abort()

    # The header

    def data_received(self, data: bytes) -> None:
        self._data += data
        try:
            header = read_proxy_header(self._data)
        except IncompleteHeader:
            return
        except NoHeader:
            self._refuse("no valid PROXY header")
            return
        self._shared.connections.remove(self)
        client = self._begin(header.address)
        rest = self._data[header.size :]
        if rest and not self._transport.is_closing():
            client.data_received(rest)

    def _refuse(self, reason: str) -> None:
        self._shared.connections.refuse(reason)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.connections.remove(self)
