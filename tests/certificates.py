"""Authorities and certificates that only a test trusts."""

from __future__ import annotations

import datetime
import ssl
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

A_DAY = datetime.timedelta(days=1)


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = named(folder.name)
        self.file = folder / "authority.pem"
        made = self.signed(self.name, self.key, x509.BasicConstraints(ca=True, path_length=0))
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, what: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - A_DAY)
            .not_valid_after(now + A_DAY)
            .add_extension(what, critical=isinstance(what, x509.BasicConstraints))
            .sign(self.key, hashes.SHA256())
        )


def authority(folder: Path) -> Authority:
    return Authority(folder)


def serves(by: Authority, name: str) -> ssl.SSLContext:
    """The key and the certificate of a server of that name."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = by.signed(named(name), key, x509.SubjectAlternativeName([x509.DNSName(name)]))
    file = by.folder / f"{name}.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def write_pair(by: Authority, name: str, *hosts: str) -> tuple[Path, Path]:
    """Writes a certificate for these names and addresses, or of a client, and its key; returns both
    files."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [host_name(host) for host in hosts]
    made = by.signed(named(name), key, x509.SubjectAlternativeName(names or [x509.DNSName(name)]))
    certificate, secret = by.folder / f"{name}-cert.pem", by.folder / f"{name}-key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate, secret


def host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
