"""Makes the TLS contexts of certificates: TLS 1.2 and 1.3 with the ciphers of Mozilla's profile
*intermediate*."""

from __future__ import annotations

import os
import ssl
from typing import Final

from windlass.routers.router import Certificate

HTTP_PROTOCOL: Final = "http/1.1"
HTTP_2_PROTOCOL: Final = "h2"
ACME_PROTOCOL: Final = "acme-tls/1"
"""The protocol of tls-alpn-01 challenges (RFC 8737)."""
_CIPHERS: Final = ":".join(
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-CHACHA20-POLY1305",
    )
)
"""Ciphers of TLS 1.2. Those of the profile with a classic Diffie-Hellman exchange are left out: they cost the
server much more than the client."""
_SESSION_TICKETS: Final = 1
"""Number of tickets that a client of TLS 1.3 gets to resume its session. OpenSSL would give two, and most
clients use none."""


def make_context(certificate: Certificate, *protocols: str) -> ssl.SSLContext:
    """Makes the context of a server with this certificate. `protocols`: those that it speaks, the best one
    first; HTTP/1.1 by default. Raises ssl.SSLError (an OSError) or ValueError if
    OpenSSL does not accept the certificate or its key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE  # clients know which cipher their hardware has
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(protocols or (HTTP_PROTOCOL,))
    context.num_tickets = _SESSION_TICKETS
    _load(context, certificate.chain + b"\n" + certificate.key)
    return context


def _load(context: ssl.SSLContext, content: bytes) -> None:
    """Loads a certificate and its key. The library reads them only from a file: this one is in memory, so
    that the key is never on the disk."""
    file = os.memfd_create("certificate", os.MFD_CLOEXEC)
    with os.fdopen(file, "wb", buffering=0) as stream:
        view = memoryview(content)
        while view:
            view = view[stream.write(view) :]
        # The password is not used: without one, OpenSSL would ask for that of an encrypted key on a terminal.
        context.load_cert_chain(f"/proc/self/fd/{file}", password=b"-")
