"""The HTTPS port of a router: accepts connections, chooses their certificates, and starts TLS.

A connection is accepted, and its first message is read without removing it from the socket (MSG_PEEK). A
client that asks for a name without a certificate gets the alert `unrecognized_name` before any cryptography.
Connections until the end of their handshake are counted apart from other connections, with limits of their
own. One handshake begins in each iteration of the event loop, so that other requests wait 0.3 ms at most for
each.

A connection from an address in the setting `proxy_protocol_from` has to begin with a header of the PROXY
protocol. It is removed from the socket before the ClientHello is read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from windlass.base.http_in.connections import Admission, ConnectionTable, network_of
from windlass.base.log import log
from windlass.routers.builtin import pages
from windlass.routers.builtin.certificates import CertificateTable
from windlass.routers.builtin.client_hello import (
    HANDSHAKE_RECORD,
    MAX_HELLO_BYTES,
    ClientHello,
    Incomplete,
    NotTls,
    read_hello,
)
from windlass.routers.builtin.proxy_header import IncompleteHeader, NoHeader, ProxyHeader, read_proxy_header
from windlass.routers.builtin.shared_state import SharedState
from windlass.routers.builtin.tls_contexts import (
    ACME_PROTOCOL,
    HTTP_2_PROTOCOL,
    HTTP_PROTOCOL,
    make_context,
)
from windlass.routers.builtin.tls_layer import TlsLayer

_log = log("router")
_MAX_ACCEPTS_PER_TURN: Final = 16
"""Maximum number of connections that are accepted in one turn of the event loop."""
_ACCEPT_PAUSE: Final = 1.0
"""Seconds until the next attempt to accept connections, after accepting has failed."""
_FIRST_LOOK: Final = 4096
"""Bytes that are looked at first. A usual ClientHello is shorter."""
_HANDSHAKE_FAILURE, _DECODE_ERROR, _PROTOCOL_VERSION, _INTERNAL_ERROR = 40, 50, 70, 80
_UNRECOGNIZED_NAME, _NO_APPLICATION_PROTOCOL = 112, 120
_MAX_COUNTED_NAMES: Final = 100
"""Maximum number of refused names that are counted at a time."""
_LOGGED_NAMES: Final = 5
_MAX_CACHED_CONTEXTS: Final = 1024
"""Number of certificates whose contexts are kept in memory. One takes 18 KiB, and a millisecond to make."""
_MAX_CONTEXT_BYTES: Final = 64 * 1024 * 1024
"""Memory of all contexts. One with thousands of names takes a megabyte."""
_CONTEXT_BYTES: Final = 18 * 1024
_USUAL_CHAIN_BYTES: Final = 8 * 1024
_BYTES_PER_CHAIN_BYTE: Final = 16
"""Memory for each further byte of a chain of certificates."""
MakeClient = Callable[[Sequence[str], str, bool], asyncio.Protocol]
"""Creates the protocol of a connection after its handshake, from the names of its certificate, the client's
address, and whether it speaks HTTP/2."""


class TlsContexts:
    """The contexts of the certificates that were used last."""

    def __init__(
        self,
        certificates: CertificateTable,
        limit: int = _MAX_CACHED_CONTEXTS,
        protocols: Sequence[str] = (HTTP_PROTOCOL,),
    ) -> None:
        self._certificates, self._protocols = certificates, tuple(protocols)
        self._most = limit
        self._held: OrderedDict[str, tuple[str, ssl.SSLContext, int]] = OrderedDict()
        """Contexts by the id of the certificate, each with the hash of the certificate, and its size."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def of(self, id: str) -> ssl.SSLContext:
        """Raises LookupError, OSError or ValueError if the certificate cannot be read."""
        digest = self._certificates.facts(id).digest
        found = self._held.get(id)
        if found is None or found[0] != digest:
            certificate = self._certificates.read(id)
            found = (
                digest,
                make_context(certificate, *self._protocols),
                _context_bytes(len(certificate.chain)),
            )
        self._drop(id)
        self._held[id] = found
        self._bytes += found[2]
        while len(self._held) > self._most or (self._bytes > _MAX_CONTEXT_BYTES and len(self._held) > 1):
            self._drop(next(iter(self._held)))
        return found[1]

    def _drop(self, id: str) -> None:
        if dropped := self._held.pop(id, None):
            self._bytes -= dropped[2]


def _context_bytes(chain: int) -> int:
    """Returns about how much memory a context takes, by the size of its chain of certificates."""
    return _CONTEXT_BYTES + _BYTES_PER_CHAIN_BYTE * max(0, chain - _USUAL_CHAIN_BYTES)


class HttpsPort:
    def __init__(
        self, shared_state: SharedState, listening_socket: socket.socket, make_client: MakeClient
    ) -> None:
        self.shared = shared_state
        self.listening = listening_socket
        self.make_client = make_client
        self.choose_protocols()
        self.greetings = ConnectionTable(
            "gateway, TLS handshakes", shared_state.bounds, shared_state.connections.trusts, self._log_names
        )
        """The connections whose handshake is not complete."""
        self.greetings.limit = shared_state.bounds.handshakes
        self.greetings.start()
        self._refused_names: Counter[str] = Counter()
        self._log_at = 0.0
        self._waiting: asyncio.TimerHandle | None = None
        self._accept_soon()

    def choose_protocols(self) -> None:
        """Offers HTTP/2 to clients that connect from now on, or no longer."""
        offered = (HTTP_2_PROTOCOL, HTTP_PROTOCOL) if self.shared.offers_http2 else (HTTP_PROTOCOL,)
        self.protocols = frozenset(protocol.encode() for protocol in offered)
        self.contexts = TlsContexts(self.shared.certificates, protocols=offered)

    def close(self) -> None:
        """Stops accepting connections. Handshakes under way go on."""
        if self._waiting is not None:
            self._waiting.cancel()
        if self.listening.fileno() >= 0:
            self.shared.loop.remove_reader(self.listening.fileno())
            self.listening.close()

    def stop(self) -> None:
        self.close()
        self.greetings.stop()
        for greeting in list(self.greetings.members):
            greeting.abort()

    def _accept_soon(self) -> None:
        self._waiting = None
        self.shared.loop.add_reader(self.listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_MAX_ACCEPTS_PER_TURN):
            try:
                connection, address = self.listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # for example, the limit of open files is reached
                _log.warning("no HTTPS connection can be accepted", extra={"reason": str(error)})
                self.shared.loop.remove_reader(self.listening.fileno())
                self._waiting = self.shared.loop.call_later(_ACCEPT_PAUSE, self._accept_soon)
                return
            connection.setblocking(False)
            Greeting(self, connection, str(address[0])).begin()

    # Refusals

    def refuse_name(self, name: str) -> None:
        self.greetings.refuse("no certificate for the name")
        if name in self._refused_names or len(self._refused_names) < _MAX_COUNTED_NAMES:
            self._refused_names[name] += 1

    def _log_names(self, now: float) -> None:
        if self._refused_names and now >= self._log_at:
            self._log_at = now + self.shared.bounds.log_seconds
            names = self._refused_names.most_common(_LOGGED_NAMES)
            text = ", ".join(f"{name or '(none)'}: {times}" for name, times in names)
            _log.warning("HTTPS clients asked for names without a certificate", extra={"names": text})
            self._refused_names.clear()


class Greeting:
    """A connection until the end of its TLS handshake."""

    __slots__ = (
        "_address",
        "_awaits_header",
        "_connection",
        "_has_low_water_mark",
        "_is_chosen",
        "_is_watched",
        "_port",
        "_seen",
        "_shared",
        "_since",
        "_task",
        "_tls",
        "network",
    )

    def __init__(self, port: HttpsPort, connection: socket.socket, address: str) -> None:
        self._port, self._connection = port, connection
        self._shared = port.shared
        self._address = address
        self.network = network_of(address)
        self._awaits_header = self._shared.sends_header(address)
        self._since = self._shared.loop.time()
        self._seen = 0
        """Number of bytes at the last look at the first message."""
        self._is_watched = self._has_low_water_mark = False
        self._is_chosen = False
        """Whether the certificate is chosen, and the handshake waits for its turn or has begun."""
        self._tls: TlsLayer | None = None
        """Set when the handshake has begun."""
        self._task: asyncio.Task[None] | None = None

    # In the connection table

    def waits_since(self) -> float | None:
        return self._since

    def age(self, now: float) -> None:
        if now - self._since > self._shared.bounds.handshake_seconds:
            self._port.greetings.refuse("the handshake took too long")
            self.abort()
        elif not (self._is_chosen or self._is_watched or self._connection.fileno() < 0):
            self._peek_hello()

    def abort(self) -> None:
        if self._tls is not None:
            self._port.greetings.remove(self)
            self._tls.abort()
        else:
            self._close()

    def begin(self) -> None:
        if self._is_admitted():
            self._watch(1)

    def _is_admitted(self) -> bool:
        """Returns whether there is room for this connection. Closes it otherwise."""
        if not self._shared.stopping and self._port.greetings.admit(self) is Admission.FREE:
            return True
        self._close()
        return False

    # The first message

    def _peek_hello(self) -> None:
        """Reads the ClientHello, or the header before it, without removing it from the socket."""
        try:
            data = self._connection.recv(
                _FIRST_LOOK if self._seen < _FIRST_LOOK else MAX_HELLO_BYTES, socket.MSG_PEEK
            )
        except (BlockingIOError, InterruptedError):
            self._watch(1)
            return
        except OSError:
            self._close()
            return
        try:
            if self._awaits_header:
                self._take_header(read_proxy_header(data))
                return
            hello = read_hello(data)
        except NoHeader:
            self._port.greetings.refuse("no valid PROXY header")
            self._close()
        except (Incomplete, IncompleteHeader) as incomplete:
            if not data:
                self._close()
            elif len(data) == self._seen:
                # Nothing new, although the socket is readable: the client has closed it, or memory is short.
                self._unwatch()
            else:
                self._seen = len(data) if incomplete.size <= _FIRST_LOOK else max(len(data), _FIRST_LOOK)
                self._watch(incomplete.size)
        except NotTls:
            self._refuse_other_protocol(data)
        else:
            self._unwatch()
            self._is_chosen = True
            self._choose_certificate(hello)

    def _take_header(self, header: ProxyHeader) -> None:
        """Removes the header from the socket, and looks at what follows."""
        self._connection.recv(header.size)
        self._awaits_header = False
        self._seen = 0
        if self._has_low_water_mark:
            self._has_low_water_mark = False
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        if header.address:
            self._port.greetings.remove(self)
            self._address, self.network = header.address, network_of(header.address)
            if not self._is_admitted():
                return
        self._peek_hello()

    def _watch(self, size: int) -> None:
        """Looks again when this number of bytes has arrived."""
        if size > 1:
            self._has_low_water_mark = True
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        if not self._is_watched:
            self._is_watched = True
            self._shared.loop.add_reader(self._connection.fileno(), self._peek_hello)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._shared.loop.remove_reader(self._connection.fileno())

    def _choose_certificate(self, hello: ClientHello) -> None:
        """Chooses the certificate, or refuses the client."""
        certificates = self._shared.certificates
        if ACME_PROTOCOL.encode() in hello.protocols:
            challenge = certificates.challenge_certificate(hello.name)
            if challenge is None:
                self._port.refuse_name(hello.name)
                self._send_alert(_UNRECOGNIZED_NAME)
            else:
                self._begin_later(lambda: make_context(challenge, ACME_PROTOCOL), lambda _: Parting())
            return
        id = certificates.find(hello.name)
        if id is None:
            self._port.refuse_name(hello.name)
            self._send_alert(_UNRECOGNIZED_NAME)
        elif hello.is_outdated:
            self._port.greetings.refuse("an outdated version of TLS")
            self._send_alert(_PROTOCOL_VERSION)
        elif hello.protocols and self._port.protocols.isdisjoint(hello.protocols):
            self._port.greetings.refuse("no common protocol")
            self._send_alert(_NO_APPLICATION_PROTOCOL)
        elif hello.is_costly:
            self._port.greetings.refuse("a costly key exchange")
            self._send_alert(_HANDSHAKE_FAILURE)
        else:
            names = certificates.facts(id).names
            make = self._port.make_client
            self._begin_later(
                lambda: self._port.contexts.of(id),
                lambda protocol: make(names, self._address, protocol == HTTP_2_PROTOCOL),
            )

    def _refuse_other_protocol(self, data: bytes) -> None:
        self._unwatch()
        self._port.greetings.refuse("no TLS")
        if data[:1].isalpha():
            self._send_last(pages.only_https().rendered(b"", head_only=False, closes_connection=True))
        elif data[0] == HANDSHAKE_RECORD:
            self._send_alert(_DECODE_ERROR)
        else:
            self._close()

    def _send_alert(self, description: int) -> None:
        """Sends a fatal alert, and closes the connection."""
        self._send_last(bytes((21, 3, 3, 0, 2, 2, description)))

    def _send_last(self, answer: bytes) -> None:
        with suppress(OSError):
            # Closing a socket with unread bytes would reset the connection before the client reads.
            self._connection.recv(MAX_HELLO_BYTES)
            self._connection.send(answer)
            self._connection.shutdown(socket.SHUT_WR)
        self._close()

    def _close(self) -> None:
        self._port.greetings.remove(self)
        if self._connection.fileno() >= 0:
            self._unwatch()
            self._connection.close()

    # The handshake

    def _begin_later(
        self, create_context: Callable[[], ssl.SSLContext], client: Callable[[str], asyncio.Protocol]
    ) -> None:
        self._shared.connections.turns.wait(lambda: self._begin_handshake(create_context, client))

    def _begin_handshake(
        self, create_context: Callable[[], ssl.SSLContext], client: Callable[[str], asyncio.Protocol]
    ) -> None:
        if self._connection.fileno() < 0:
            return  # it was closed while it waited for its turn
        try:
            shared = self._shared
            tls = TlsLayer(shared.loop, create_context(), client, self._end_handshake, shared.bounds)
        except (LookupError, OSError, ValueError) as error:
            _log.error("a certificate cannot be served", extra={"reason": str(error)})
            self._send_alert(_INTERNAL_ERROR)
            return
        if self._has_low_water_mark:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._tls = tls
        self._task = self._shared.loop.create_task(self._connect(tls))

    async def _connect(self, tls: TlsLayer) -> None:
        """Gives the connection to the event loop, which reads the ClientHello again. `age` checks the time
        limit of the handshake."""
        try:
            await self._shared.loop.connect_accepted_socket(lambda: tls, self._connection)
        except OSError:
            self._close()

    def _end_handshake(self, failure: str) -> None:
        self._port.greetings.remove(self)
        if failure:
            self._port.greetings.refuse(failure)


class Parting(asyncio.Protocol):
    """Closes a connection after its handshake: a tls-alpn-01 challenge has no requests."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
