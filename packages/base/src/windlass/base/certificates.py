"""Reads and checks certificates, and makes requests for them. Keys and certificates are PEM texts."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from msgspec import Struct

from windlass.base.acme.signing import new_private_key, to_base64url
from windlass.base.clock import SECOND, instant
from windlass.base.lazy import lazy_module
from windlass.base.rsa_keys import is_usable

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.x509 import oid
else:  # 8 MB and 35 ms, unneeded by many installations
    x509 = lazy_module("cryptography.x509")
    oid = lazy_module("cryptography.x509.oid")
    hashes = lazy_module("cryptography.hazmat.primitives.hashes")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")
    ec = lazy_module("cryptography.hazmat.primitives.asymmetric.ec")
    rsa = lazy_module("cryptography.hazmat.primitives.asymmetric.rsa")

MAX_CERTIFICATES: Final = 10
_RSA_BITS: Final = range(2048, 3072 + 1)
"""Lengths of RSA keys. A handshake with a longer one takes so long that a few hundred in a second would stop
the gateway for all services."""
_ACME_IDENTIFIER: Final = "1.3.6.1.5.5.7.1.31"
"""The extension with the digest of the answer to a challenge by TLS (RFC 8737)."""
_OCTET_STRING: Final = b"\x04\x20"
"""The type and length of a digest of 32 bytes in DER."""


class BadCertificate(ValueError):
    """The certificate cannot be served. The message says what to do."""


class ReadCertificate(Struct, frozen=True):
    chain: str
    """The certificates in PEM, in normal form."""
    key: bytes
    """The private key in PEM, in normal form."""
    names: tuple[str, ...]
    fingerprint: str
    since: int
    expires: int


def read_certificate(chain: str, key: bytes) -> ReadCertificate:
    """Reads a chain with its private key, and checks that they belong together. Raises BadCertificate."""
    certificates = _read_chain(chain)
    leaf = certificates[0]
    private = _read_key(key)
    encodings = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if leaf.public_key().public_bytes(*encodings) != private.public_key().public_bytes(*encodings):
        raise BadCertificate("send the private key of the first certificate: this one is of another")
    for above, below in zip(certificates[1:], certificates, strict=False):
        try:
            below.verify_directly_issued_by(above)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
            raise BadCertificate(
                "put the certificates in order: each has to be signed by the one that follows it"
            ) from error
    return ReadCertificate(
        "".join(
            certificate.public_bytes(serialization.Encoding.PEM).decode() for certificate in certificates
        ),
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        _names_of(leaf),
        leaf.fingerprint(hashes.SHA256()).hex(),
        instant(leaf.not_valid_before_utc),
        instant(leaf.not_valid_after_utc),
    )


def _read_chain(chain: str) -> Sequence[x509.Certificate]:
    try:
        certificates = x509.load_pem_x509_certificates(chain.encode())
    except ValueError as error:
        raise BadCertificate(
            "send certificates in PEM, which begin with -----BEGIN CERTIFICATE-----"
        ) from error
    if len(certificates) > MAX_CERTIFICATES:
        raise BadCertificate(f"send the chain alone: at most {MAX_CERTIFICATES} certificates")
    return certificates


def _read_key(key: bytes) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    try:
        private = serialization.load_pem_private_key(key, None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadCertificate("send the private key in PEM, without a password") from error
    if isinstance(private, rsa.RSAPrivateKey) and private.key_size in _RSA_BITS:
        if not is_usable(private):
            raise BadCertificate("make another key: the numbers of this one do not belong together")
        return private
    if isinstance(private, ec.EllipticCurvePrivateKey) and isinstance(
        private.curve, ec.SECP256R1 | ec.SECP384R1
    ):
        return private
    raise BadCertificate(
        "use a key that browsers know and that is quick to sign with, such as ECDSA P-256 or RSA 2048: RSA "
        f"of {_RSA_BITS[0]} to {_RSA_BITS[-1]} bits, or the curves P-256 and P-384"
    )


def covers(names: Collection[str], name: str) -> bool:
    """Returns whether a certificate with these names is valid for a name, which may begin with `*.`."""
    return name in names or f"*.{name.partition('.')[2]}" in names


def certificate_request(name: str, key: bytes) -> str:
    """Returns a request (CSR) for a certificate with one name, in Base64url."""
    subject = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, name)] if len(name) <= 64 else [])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(_read_key(key), hashes.SHA256())
    )
    return to_base64url(request.public_bytes(serialization.Encoding.DER))


def challenge_certificate(name: str, answer: bytes, now: int) -> tuple[str, bytes]:
    """Returns a self-signed certificate with its key, as tls-alpn-01 wants it: its digest of the answer
    proves who made it."""
    key = _read_key(pem := new_private_key())
    digest = hashlib.sha256(answer).digest()
    subject = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, "ACME challenge")])
    identifier = x509.ObjectIdentifier(_ACME_IDENTIFIER)
    moment = datetime.fromtimestamp(now / SECOND, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - timedelta(days=1))
        .not_valid_after(moment + timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.UnrecognizedExtension(identifier, _OCTET_STRING + digest), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), pem


def renewal_id(chain: str) -> str:
    """Returns the id under which an authority tells when to renew a certificate (RFC 9773); empty if the
    certificate has none."""
    leaf = _read_chain(chain)[0]
    try:
        issuer = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    except x509.ExtensionNotFound:
        return ""
    if issuer is None:
        return ""
    number = leaf.serial_number
    serial = number.to_bytes(number.bit_length() // 8 + 1, "big")
    return f"{to_base64url(issuer)}.{to_base64url(serial)}"


def fingerprint_of(chain: str) -> str:
    """Returns the SHA-256 of the first certificate, in hexadecimal."""
    return _read_chain(chain)[0].fingerprint(hashes.SHA256()).hex()


def trusting(file: str) -> ssl.SSLContext:
    """Returns a TLS context that trusts the authorities of the system and of a PEM file."""
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=file)
    return context


def _names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(name.lower() for name in names.get_values_for_type(x509.DNSName))
