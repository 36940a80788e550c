"""The sealing keys of an installation, from the settings or from the file `key` in the data directory.

The first key seals new values. Further keys open values that were sealed before a key rotation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from windlass.base.atomic_files import sync, write_whole
from windlass.base.encryption import KEY_BYTES, Encryption, id_of, new_key
from windlass.base.log import log
from windlass.config import BadSetting, Settings
from windlass.control.records.sealing_keys import KeyState

_log = log("keys")


class WrongKey(Exception):
    """Raised if the installation's secrets were sealed with a key that is not given."""


def load_encryption(settings: Settings, *, may_make: bool = False) -> Encryption:
    return Encryption(*load_keys(settings, may_make=may_make))


def check_keys(encryption: Encryption, state: KeyState, owner: str = "this database") -> None:
    """Raises WrongKey if a key is missing that the database needs."""
    for id in state.needed:
        check_key(encryption, id, owner)


def check_key(encryption: Encryption, id: str, owner: str = "this database") -> None:
    if id not in encryption.known:
        here = f"this is the key {encryption.fingerprint}"
        if len(encryption.known) > 1:
            here = f"the keys here are {', '.join(sorted(encryption.known))}"
        raise WrongKey(
            f"the secrets of {owner} were sealed with the key {id}, and {here}: bring back the file `key` of "
            "the data directory, or set WINDLASS_KEY. Either may hold several keys"
        )


def key_file(settings: Settings) -> Path:
    return Path(settings.data_dir) / "key"


def load_keys(settings: Settings, *, may_make: bool = False) -> list[bytes]:
    """Returns all given keys, the sealing key first."""
    if settings.key:
        return _parse_keys(settings.key.replace(",", " "), "WINDLASS_KEY")
    file = key_file(settings)
    if file.exists():
        return _parse_keys(file.read_text(), "the file `key` in the data directory")
    if not may_make:
        raise WrongKey(
            f"bring back the file `key` of {settings.data_dir}, mount its disk if that is away, or set "
            "WINDLASS_KEY: the file is missing, and secrets cannot be opened without it"
        )
    _make(file)
    return load_keys(settings)


def given_keys(settings: Settings) -> Callable[[], Sequence[bytes]]:
    """Returns a function that reloads the keys while the server runs. The function returns an empty list if
    the keys cannot be read."""

    def load() -> Sequence[bytes]:
        try:
            return load_keys(settings)
        except (WrongKey, BadSetting, OSError) as error:
            _log.error(
                "the sealing keys cannot be read: the server continues with those that it has",
                extra={"error": str(error)},
            )
            return ()

    return load


def add_key(settings: Settings) -> str:
    """Prepends a new key to the file `key`, durably. Returns the key's id."""
    key = new_key()
    _write(settings, [key, *load_keys(settings)])
    return id_of(key)


def drop_keys(settings: Settings, ids: Collection[str]) -> list[str]:
    """Removes keys from the file `key`. Returns the ids of the removed keys."""
    keys = load_keys(settings)
    dropped = [id for key in keys if (id := id_of(key)) in ids]
    if dropped:
        _write(settings, [key for key in keys if id_of(key) not in ids])
    return dropped


def _write(settings: Settings, keys: Sequence[bytes]) -> None:
    text = "".join(f"{key.hex()}\n" for key in keys)
    write_whole(key_file(settings), text.encode(), draft=str(os.getpid()))


def _make(file: Path) -> None:
    """Creates the key file atomically: a killed start does not leave a partial file."""
    draft = file.with_name(f".key-{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as writing:
        writing.write(new_key().hex() + "\n")
        writing.flush()
        os.fsync(writing.fileno())
    # Unlike a rename, a link never overwrites a key that another replica has created meanwhile.
    with suppress(FileExistsError):
        os.link(draft, file)
    draft.unlink()
    sync(file.parent)


def _parse_keys(text: str, key_name: str) -> list[bytes]:
    keys = [_parse_key(word, key_name) for word in text.split()]
    if not keys:
        raise BadSetting(f"{key_name} must be {2 * KEY_BYTES} hexadecimal digits")
    return keys


def _parse_key(text: str, key_name: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadSetting(f"{key_name} must be {2 * KEY_BYTES} hexadecimal digits, for each of its keys")
    return key
