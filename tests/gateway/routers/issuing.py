"""Certificates as a certificate authority issues them, and clients that trust this authority only."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from windlass.routers.router import Certificate

_PEM = serialization.Encoding.PEM
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class IssuingAuthority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority of tests")
        made = self._sign(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.pem = made.public_bytes(_PEM)

    def issue(self, *names: str, key: Key | None = None, begins: float = -1, ends: float = 30) -> Certificate:
        """Issues a certificate. `begins` and `ends` are days from now."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        made = self._sign(_named(names[0]), key, alternatives, begins, ends)
        return Certificate(names, made.public_bytes(_PEM) + self.pem, pem_of(key))

    def client(self, protocols: Sequence[str] = ("http/1.1",)) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.pem.decode())
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context

    def _sign(
        self, subject: x509.Name, key: Key, what: x509.ExtensionType, begins: float = -2, ends: float = 90
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=begins))
            .not_valid_after(now + datetime.timedelta(days=ends))
            .add_extension(what, critical=isinstance(what, x509.BasicConstraints))
            .sign(self._key, hashes.SHA256())
        )


def pem_of(key: Key) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


@cache
def issuing_authority() -> IssuingAuthority:
    return IssuingAuthority()


def issue(*names: str, **options: object) -> Certificate:
    return issuing_authority().issue(*names, **options)  # type: ignore[arg-type]


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
