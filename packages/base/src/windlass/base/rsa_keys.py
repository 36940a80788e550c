"""Checks RSA keys of others at little cost.

The library proves that the factors of a key are primes, which takes up to seconds, and holds the interpreter
meanwhile. Here, a signature shows that the key works, and its numbers that it costs no more than others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InternalError, InvalidSignature

from windlass.base.lazy import lazy_module

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
else:  # as in `certificates`
    hashes = lazy_module("cryptography.hazmat.primitives.hashes")
    padding = lazy_module("cryptography.hazmat.primitives.asymmetric.padding")

_TEST_TEXT: Final = b"a text to be signed"
_MAX_FACTOR_EXCESS_BITS: Final = 64
"""By how many bits a factor may be longer than half of the key."""


def is_usable(key: rsa.RSAPrivateKey) -> bool:
    """Returns whether a key, whose factors nobody has checked, makes signatures and is quick at it."""
    try:
        if not _has_fitting_numbers(key):
            return False
        signature = key.sign(_TEST_TEXT, padding.PKCS1v15(), hashes.SHA256())
        key.public_key().verify(signature, _TEST_TEXT, padding.PKCS1v15(), hashes.SHA256())
    except (ValueError, InternalError, InvalidSignature):
        return False
    return True


def _has_fitting_numbers(key: rsa.RSAPrivateKey) -> bool:
    """Returns whether the numbers belong together. With others, OpenSSL would sign with the whole exponent,
    of any length, in place of its two halves."""
    numbers = key.private_numbers()
    p, q, d, n = numbers.p, numbers.q, numbers.d, numbers.public_numbers.n
    return (
        min(p, q) > 1
        and p * q == n
        and max(p, q).bit_length() <= key.key_size // 2 + _MAX_FACTOR_EXCESS_BITS
        and 0 < d < n
        and (numbers.dmp1, numbers.dmq1) == (d % (p - 1), d % (q - 1))
        and q * numbers.iqmp % p == 1
    )
