"""Records of the encryption keys of an installation. The database contains the ids of the keys, never the
keys."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.encryption import Encryption, key_of
from windlass.store import Reads, Tx
from windlass.store.tables.sealed import DIGEST_KEY, FACT

CURRENT_KEY_FACT: Final = "key_fingerprint"
"""The key in the table of facts for the id of the present encryption key."""
KEY_HISTORY_FACT: Final = "sealing_keys"
"""The key in the table of facts for the records of all keys, written since the first rotation."""
UNREADABLE_VALUES_FACT: Final = "unreadable_secrets"
"""The key in the table of facts for the values that could not be decrypted in the last rotation."""


class KeyRecord(Struct, frozen=True, kw_only=True):
    id: str
    since: int = 0
    """The time at which the key became the current one; 0 for the first key."""
    retired: int = 0
    """The time since which no value is encrypted with the key; 0 while it is in use."""


class UnreadableValues(Struct, frozen=True):
    """Values that could not be decrypted in the last rotation."""

    names: tuple[str, ...] = ()
    at: int = 0


class KeyState(Struct, frozen=True):
    """The state of the keys of an initialized database."""

    current: str
    records: tuple[KeyRecord, ...]
    """All keys with which values were ever encrypted, oldest first."""
    unreadable: tuple[str, ...] = ()
    """Names of values that could not be decrypted."""
    unreadable_at: int = 0
    """The time of the last attempt to decrypt these values."""

    @property
    def needed(self) -> tuple[str, ...]:
        """The ids of keys with which values are or may be encrypted, newest first."""
        return tuple(record.id for record in reversed(self.records) if not record.retired)

    @property
    def retired(self) -> frozenset[str]:
        return frozenset(record.id for record in self.records if record.retired)

    @property
    def is_settled(self) -> bool:
        """Returns whether no rotation is in progress."""
        return self.needed == (self.current,)

    def was_used(self, id: str) -> bool:
        return any(record.id == id for record in self.records)


async def read_keys(reads: Reads) -> KeyState | None:
    """Returns the state of the keys; None for a database that was never used."""
    current = await reads.facts.get(CURRENT_KEY_FACT)
    if current is None:
        return None
    id, history = current.decode(), await reads.facts.get(KEY_HISTORY_FACT)
    records = msgspec.json.decode(history, type=tuple[KeyRecord, ...]) if history else (KeyRecord(id=id),)
    noted = await reads.facts.get(UNREADABLE_VALUES_FACT)
    unreadable = msgspec.json.decode(noted, type=UnreadableValues) if noted else UnreadableValues()
    return KeyState(id, records, unreadable.names, unreadable.at)


async def values_by_key(reads: Reads) -> dict[str, int]:
    """Returns the number of encrypted values by key id."""
    return {key_of(head): count for head, count in (await reads.sealed.counts()).items()}


async def unlock(encryption: Encryption, reads: Reads, state: KeyState) -> None:
    """Selects the current key for encryption, and the stored key for digests."""
    seal_with_present(encryption, state)
    if kept := await reads.facts.get(DIGEST_KEY):
        encryption.digest_key = encryption.decrypt(kept, *FACT.owner(name=DIGEST_KEY))
    else:
        encryption.digest_key = encryption.digest_key_of(state.current)


def seal_with_present(encryption: Encryption, state: KeyState) -> None:
    """Selects the current key for encryption. Raises MissingKey if this process does not have it."""
    encryption.encrypt_with(state.current)


async def keep_digest_key(encryption: Encryption, tx: Tx) -> None:
    """Stores the digest key before its encryption key is replaced."""
    if await tx.facts.get(DIGEST_KEY) is None:
        owner = FACT.owner(name=DIGEST_KEY)
        await tx.facts.set(DIGEST_KEY, encryption.encrypt(encryption.digest_key, *owner))


async def record_next(tx: Tx, state: KeyState, id: str) -> None:
    """Records that another key is the current one from now on."""
    await _set_history(tx, (*state.records, KeyRecord(id=id, since=tx.now)))
    await tx.facts.set(CURRENT_KEY_FACT, id.encode())


async def record_retired(tx: Tx, state: KeyState) -> None:
    """Records that all values are encrypted with the current key."""
    await _set_history(
        tx,
        tuple(
            msgspec.structs.replace(record, retired=tx.now)
            if record.id != state.current and not record.retired
            else record
            for record in state.records
        ),
    )


async def record_unreadable(tx: Tx, names: tuple[str, ...]) -> None:
    await tx.facts.set(
        UNREADABLE_VALUES_FACT, msgspec.json.encode(UnreadableValues(names, tx.now if names else 0))
    )


async def _set_history(tx: Tx, records: tuple[KeyRecord, ...]) -> None:
    await tx.facts.set(KEY_HISTORY_FACT, msgspec.json.encode(records))
