"""The key of an installation: given in the settings, or the file `key` in the data directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.encryption import KEY_BYTES, Encryption, new_key
from windlass.config import BadSetting, Settings

FACT: Final = "key_fingerprint"
"""Name of the fact with the fingerprint of the key."""


class WrongKey(Exception):
    """The secrets of this installation were sealed with another key."""


def load_encryption(settings: Settings, *, may_make: bool = False) -> Encryption:
    return Encryption(_key(settings, may_make))


def check_key(encryption: Encryption, fingerprint: str, owner: str = "this database") -> None:
    if encryption.fingerprint != fingerprint:
        raise WrongKey(
            f"the secrets of {owner} were sealed with the key {fingerprint}, and this is the key "
            f"{encryption.fingerprint}: bring back the file `key` of the data directory, or set WINDLASS_KEY"
        )


def key_file(settings: Settings) -> Path:
    return Path(settings.data_dir) / "key"


def _key(settings: Settings, may_make: bool) -> bytes:
    if settings.key:
        return _unhexed(settings.key, "WINDLASS_KEY")
    file = key_file(settings)
    if file.exists():
        return _unhexed(file.read_text().strip(), "the file `key` in the data directory")
    if not may_make:
        raise WrongKey(
            f"bring back the file `key` of {settings.data_dir}, mount its disk if that is away, or set "
            "WINDLASS_KEY: the file is missing, and secrets cannot be opened without it"
        )
    _make(file)
    return _key(settings, may_make=False)


def _make(file: Path) -> None:
    """A new key, there as a whole or not at all: a start that is killed here leaves no half of one."""
    draft = file.with_name(f".key-{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as writing:
        writing.write(new_key().hex() + "\n")
        writing.flush()
        os.fsync(writing.fileno())
    # Unlike renaming, it never takes the place of the key that another replica made meanwhile.
    with suppress(FileExistsError):
        os.link(draft, file)
    draft.unlink()
    _sync(file.parent)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _unhexed(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadSetting(f"{where} must be {2 * KEY_BYTES} hexadecimal digits")
    return key
