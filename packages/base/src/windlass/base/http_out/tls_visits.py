"""Begins TLS connections at allowed addresses, to see which certificate a server shows for a name."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address

from windlass.base.addresses import Reach
from windlass.base.http_out.answers import AddressRefused, NoAnswer, TlsFailure, explain_errno


class TlsVisits:
    def __init__(self, allowed: Sequence[str] = ()) -> None:
        """Calls public addresses and the networks in `allowed`."""
        self._reach = Reach(allowed)

    async def certificate(
        self, address: str, port: int, name: str, protocol: str, *, seconds: float = 5.0
    ) -> bytes:
        """Returns the certificate (DER) that a server shows for a name. It is not verified, and nothing is
        sent after the handshake. `protocol` is the one that is offered by ALPN.

        Raises AddressRefused, TlsFailure, or NoAnswer if no server answers in time.
        """
        at = ip_address(address)
        if not self._reach.admits(at):
            raise AddressRefused(f"{at} is not a public address.")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the caller compares the certificate with the expected one
        context.set_alpn_protocols([protocol])
        shown = f"[{at}]:{port}" if at.version == 6 else f"{at}:{port}"
        connection = socket.socket(socket.AF_INET6 if at.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            async with asyncio.timeout(seconds):
                # The address was checked, and is connected to as it is: no name is resolved.
                await asyncio.get_running_loop().sock_connect(connection, (str(at), port))
                return await _shown_certificate(connection, context, name)
        except TimeoutError as error:
            raise NoAnswer(f"{shown} did not answer within {seconds:g} seconds.") from error
        except ssl.SSLError as error:
            raise TlsFailure(
                f"{shown} ends the TLS handshake ({error.reason or 'without a reason'})."
            ) from error
        except OSError as error:
            raise NoAnswer(f"{shown} {explain_errno(error)}.") from error
        finally:
            connection.close()


async def _shown_certificate(connection: socket.socket, context: ssl.SSLContext, name: str) -> bytes:
    _, writer = await asyncio.open_connection(sock=connection, ssl=context, server_hostname=name)
    try:
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found or b""
    finally:
        writer.transport.abort()
