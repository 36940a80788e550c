"""RSA keys that users upload are checked at little cost."""

from __future__ import annotations

import base64
import datetime
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from windlass.base.certificates import BadCertificate, read_certificate

NAME = x509.Name([])


def self_signed(key):
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM).decode()


def in_der(kind, content):
    length = len(content)
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([kind]) + (bytes([length]) if length < 128 else bytes([128 | len(size)]) + size) + content


def rsa_pem(*numbers):
    """An RSA key with these numbers, which the library would not make."""
    each = (in_der(2, number.to_bytes(number.bit_length() // 8 + 1, "big")) for number in numbers)
    text = base64.encodebytes(in_der(0x30, b"".join(each)))
    return b"-----BEGIN RSA PRIVATE KEY-----\n" + text + b"-----END RSA PRIVATE KEY-----\n"


def test_an_rsa_key_is_checked_by_a_signature_and_not_by_the_search_for_primes():
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    began = time.process_time()
    load_pem_private_key(pem, None)
    proved = time.process_time()
    chain = self_signed(key)
    read = time.process_time()
    assert read_certificate(chain, pem).key == pem
    assert (time.process_time() - read) * 2 < proved - began


@pytest.mark.parametrize(
    "change",
    [
        {"p": lambda key: key.p + 2},
        {"p": lambda key: 1, "q": lambda key: key.public_numbers.n},
        {"p": lambda key: 0},
        {"d": lambda key: key.d + 2},
        {"d": lambda key: 1 << 6000, "dmp1": lambda key: 3},
        {"dmp1": lambda key: key.dmp1 + 2},
        {"iqmp": lambda key: 3},
    ],
)
def test_an_rsa_key_with_other_numbers_is_refused(change):
    key = rsa.generate_private_key(65537, 2048)
    numbers = key.private_numbers()
    given = {name: getattr(numbers, name) for name in ("p", "q", "d", "dmp1", "dmq1", "iqmp")}
    given |= {name: made(numbers) for name, made in change.items()}
    n, e = numbers.public_numbers.n, numbers.public_numbers.e
    pem = rsa_pem(0, n, e, *(given[name] for name in ("d", "p", "q", "dmp1", "dmq1", "iqmp")))
    with pytest.raises(BadCertificate, match="do not belong together"):
        read_certificate(self_signed(key), pem)


@pytest.mark.parametrize(("bits", "is_taken"), [(1024, False), (3072, True), (3200, False)])
def test_a_key_that_is_weak_or_slow_to_sign_with_is_refused(bits, is_taken):
    key = rsa.generate_private_key(65537, bits)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if is_taken:
        assert read_certificate(self_signed(key), pem).key == pem
        return
    with pytest.raises(BadCertificate, match=r"such as ECDSA P-256 or RSA 2048: RSA of 2048 to 3072 bits"):
        read_certificate(self_signed(key), pem)
