"""Passwords: which are accepted, and their Argon2id hashes.

A hash costs 19 MiB of memory and some hundredths of a second (the first recommendation of OWASP for
Argon2id). It is computed in a thread, and one at a time, so that sign-ins neither delay other requests nor
need much memory.
"""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections import Counter
from typing import Final

from windlass.base.errors import Invalid, Unavailable
from windlass.base.subprocesses import in_thread

MIN_PASSWORD_LENGTH: Final = 10
MAX_PASSWORD_LENGTH: Final = 256
_MIN_DIFFERENT_CHARACTERS: Final = 5
"""Fewest different characters of a password."""
_ITERATIONS, _LANES, _KIB, _BYTES = 2, 1, 19 * 1024, 32
_MAX_WAITING_HASHES: Final = 40
"""Maximum number of hashes that wait for strangers, and as many for people who are known already. Otherwise
guesses from many addresses would keep all people from signing in."""
_PARAMETERS: Final = f"$argon2id$v=19$m={_KIB},t={_ITERATIONS},p={_LANES}$"
_UNMATCHED_HASH: Final = f"{_PARAMETERS}{'A' * 22}${'A' * 43}"
"""A hash that no password has. It is verified where there is no person, so that the answer takes as long."""


class PasswordHashes:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = Counter[bool]()
        """The number of hashes that wait, by whether they are for known people."""

    async def hash(self, password: str) -> str:
        return str(await self._in_turn(_hash, password, is_known=True))

    async def matches(self, password: str, hash: str | None, *, is_known: bool = True) -> bool:
        """Returns whether a password has this hash. Without a hash, takes the same time and returns False.

        `is_known`: whether the client has shown that it belongs to a person here, with a session, a link or
        the cookie of an earlier sign-in.
        """
        matches = await self._in_turn(_matches, password, hash or _UNMATCHED_HASH, is_known=is_known)
        return bool(matches) and hash is not None

    async def _in_turn(self, function: object, *args: str, is_known: bool) -> object:
        if self._waiting[is_known] >= _MAX_WAITING_HASHES:
            raise Unavailable("Try again in a moment: too many people are signing in at once")
        self._waiting[is_known] += 1
        try:
            async with self._turn:
                return await in_thread(function, *args)  # type: ignore[arg-type]
        finally:
            self._waiting[is_known] -= 1


def is_outdated(hash: str) -> bool:
    """Returns whether a hash was made with other parameters than new hashes are."""
    return not hash.startswith(_PARAMETERS)


def check_password(password: str, email: str, field: str = "password") -> None:
    """Raises Invalid if a new password is easy to guess."""
    if len(password) < MIN_PASSWORD_LENGTH:
        raise Invalid(
            f"{field}: must have {MIN_PASSWORD_LENGTH} characters or more; a few words make a good one"
        )
    if len(set(password)) < _MIN_DIFFERENT_CHARACTERS:
        raise Invalid(f"{field}: must have {_MIN_DIFFERENT_CHARACTERS} different characters or more")
    if password.casefold() in {email.casefold(), email.partition("@")[0].casefold()}:
        raise Invalid(f"{field}: must be another one than the e-mail address")


def _encoded(password: str) -> bytes:
    # The same password may arrive in two forms of Unicode, depending on the keyboard (NIST SP 800-63B).
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")


def _hash(password: str) -> str:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415 (only sign-ins need it)

    kdf = Argon2id(salt=os.urandom(16), length=_BYTES, iterations=_ITERATIONS, lanes=_LANES, memory_cost=_KIB)
    return kdf.derive_phc_encoded(_encoded(password))


def _matches(password: str, hash: str) -> bool:
    from cryptography.exceptions import InvalidKey  # noqa: PLC0415 (see above)
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415 (see above)

    try:
        Argon2id.verify_phc_encoded(_encoded(password), hash)
    except InvalidKey:
        return False
    return True
