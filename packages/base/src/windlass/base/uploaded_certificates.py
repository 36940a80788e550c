"""Checks certificates that users upload: the chain is complete, the names fit, and browsers take it."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import UnsupportedAlgorithm

from windlass.base.certificates import BadCertificate, ReadCertificate, covers, read_certificate
from windlass.base.clock import stamp
from windlass.base.lazy import lazy_module

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.x509 import oid
else:  # as in `certificates`
    x509 = lazy_module("cryptography.x509")
    oid = lazy_module("cryptography.x509.oid")

MAX_CHAIN_LENGTH: Final = 64 * 1024
"""Maximum size of a chain in characters."""
MAX_KEY_LENGTH: Final = 4096
"""Maximum size of a key in characters."""


def check_upload(chain: str, key: str, name: str, now: int) -> ReadCertificate:
    """Reads a certificate of a user for a name, with its chain and key. Raises BadCertificate."""
    try:
        return _check(chain, key, name, now)
    except BadCertificate:
        raise
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    ) as error:  # what the library raises for certificates that break the rules of X.509
        raise BadCertificate(f"have the certificate made anew: it cannot be read: {error}") from error


def _check(chain: str, key: str, name: str, now: int) -> ReadCertificate:
    if len(chain) > MAX_CHAIN_LENGTH:
        raise BadCertificate("send the chain alone: it has at most 64 KiB")
    if len(key) > MAX_KEY_LENGTH:
        raise BadCertificate("use a smaller key, such as ECDSA P-256 or RSA 2048")
    read = read_certificate(chain, key.encode())
    if not covers(read.names, name):
        names = ", ".join(read.names[:5]) or "no name"
        raise BadCertificate(f"send a certificate for {name}: this one is for {names}")
    if read.expires <= now:
        raise BadCertificate(f"send a certificate that is valid: this one has ended at {stamp(read.expires)}")
    if read.since > now:
        raise BadCertificate(f"wait until {stamp(read.since)}: the certificate is not valid before")
    certificates = x509.load_pem_x509_certificates(read.chain.encode())
    if not _is_for_servers(certificates[0]):
        raise BadCertificate("send a certificate for servers: this one is for other uses only")
    if _lacks_issuer(certificates):
        issuer = certificates[-1].issuer.rfc4514_string()
        raise BadCertificate(f"add the intermediate certificate of {issuer} to the chain: it is missing")
    return read


def issuer_of(chain: str) -> str:
    """Returns who has signed the first certificate of a chain."""
    return x509.load_pem_x509_certificates(chain.encode())[0].issuer.rfc4514_string()


def _is_for_servers(certificate: x509.Certificate) -> bool:
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not {
        oid.ExtendedKeyUsageOID.SERVER_AUTH,
        oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    }.isdisjoint(uses)


def _lacks_issuer(certificates: Sequence[x509.Certificate]) -> bool:
    """Returns whether clients would lack a certificate between the last one of the chain and a root.

    A public authority names where its own certificate is. A chain that ends there, and not at a root that
    this machine knows, is not complete. The chain of a private authority may end anywhere.
    """
    last, roots = certificates[-1], _root_names()
    known = any(
        each.issuer.public_bytes() in roots or each.subject.public_bytes() in roots for each in certificates
    )
    return bool(roots) and not known and last.issuer != last.subject and _names_issuer(last)


def _names_issuer(certificate: x509.Certificate) -> bool:
    try:
        access = certificate.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
    except x509.ExtensionNotFound:
        return False
    return any(each.access_method == oid.AuthorityInformationAccessOID.CA_ISSUERS for each in access)


@cache
def _root_names() -> frozenset[bytes]:
    """Returns the subjects of the authorities that this machine trusts."""
    names: set[bytes] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some roots have serial numbers that are not positive
        for root in ssl.create_default_context().get_ca_certs(binary_form=True):
            with suppress(ValueError):
                names.add(x509.load_der_x509_certificate(root).subject.public_bytes())
    return frozenset(names)
