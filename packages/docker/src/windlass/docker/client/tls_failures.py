"""Explains failures of TLS connections to a Docker engine, with remedies."""

from __future__ import annotations

import ssl
from typing import Final

TLS_PORT: Final = 2376


def tls_reason(error: Exception, address: str, port: int) -> str:
    """Returns the remedy for a failed TLS connection."""
    inner = _ssl_error(error)
    if isinstance(inner, ssl.SSLCertVerificationError):
        return _why_untrusted(inner, address)
    text = str(inner or error)
    if any(word in text for word in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")):
        return (
            f"use its TLS port: at port {port} it speaks no TLS "
            f"(dockerd --tlsverify -H tcp://0.0.0.0:{TLS_PORT})"
        )
    if inner and "alert" in text.lower():
        return (
            "send a certificate that it accepts as engine_certificate: signed by the authority that dockerd "
            "knows as --tlscacert, valid now, and for client authentication"
        )
    if isinstance(error, PermissionError) or "Permission denied" in text:
        return (
            f"ask the operator of this server to allow {address} (WINDLASS_OUTBOUND_ALLOW): only the "
            "operator decides which hosts may run services"
        )
    if isinstance(error, TimeoutError) or "timeout" in type(error).__name__.lower():
        return "check the address, and that no firewall keeps this server out: there was no answer in time"
    if "refused" in text.lower() or "Connect call failed" in text:
        return f"check the port, and that dockerd listens there: nothing answers at port {port}"
    return f"check that dockerd runs there: the connection ended ({text or type(error).__name__})"


def _why_untrusted(error: ssl.SSLCertVerificationError, address: str) -> str:
    why = error.verify_message
    if "mismatch" in why or "match" in why:
        return (
            f"give dockerd a certificate that names {address} (subjectAltName = IP:{address}): its "
            "certificate is for another name or address"
        )
    if "expired" in why or "not yet valid" in why:
        return f"renew the certificate of dockerd: {why}"
    return (
        "send the authority that signed its certificate as engine_ca_certificate: the one given did not sign "
        f"it ({why})"
    )


def _ssl_error(error: BaseException | None) -> ssl.SSLError | None:
    """Returns the TLS error that caused an HTTP client error; None if there is none."""
    while error is not None:
        # aiohttp wraps TLS errors in its own classes, which are subclasses of SSLError, too.
        inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
        if inner is None and isinstance(error, ssl.SSLError):
            return error
        error = inner or error.__cause__
    return None
