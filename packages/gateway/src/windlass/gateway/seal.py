"""Encrypts files of the gateway with a key of its own. Loads the library for this, which takes 10 MB of
memory: only a gateway with certificates imports this module."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from windlass.base.atomic_files import write_whole
from windlass.base.encryption import CannotDecrypt, Encryption, new_key


class Seal:
    def __init__(self, file: Path) -> None:
        """`file`: the file of the key."""
        self._encryption = Encryption(_own_key(file))

    def seal(self, content: bytes, *owner: str) -> bytes:
        return self._encryption.encrypt(content, *owner)

    def unseal(self, sealed_value: bytes, *owner: str) -> bytes:
        """Raises LookupError if the content was changed, moved, or sealed with another key."""
        try:
            return self._encryption.decrypt(sealed_value, *owner)
        except CannotDecrypt as error:
            raise LookupError(str(error)) from error


def _own_key(file: Path) -> bytes:
    """Returns the gateway's key. Creates it if it is missing or unusable: what it has sealed is then lost."""
    with suppress(FileNotFoundError, ValueError):
        key = file.read_bytes()
        Encryption(key)
        return key
    key = new_key()
    write_whole(file, key)
    return key
