"""The sealing keys of an installation, as the database knows them: their ids, never the keys themselves."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.encryption import Encryption, key_of
from windlass.store import Reads, Tx
from windlass.store.tables.sealed import DIGEST_KEY, FACT

CURRENT: Final = "key_fingerprint"
"""The fact with the id of the key that seals."""
HISTORY: Final = "sealing_keys"
"""The fact with the records of all keys, from the first replacement on."""
UNREADABLE: Final = "unreadable_secrets"
"""The fact with the values that could not be opened at the last replacement."""


class KeyRecord(Struct, frozen=True, kw_only=True):
    id: str
    since: int = 0
    """The time at which it began to seal; 0 for the first key."""
    retired: int = 0
    """The time from which nothing was sealed with it any more; 0 until then."""


class UnreadableValues(Struct, frozen=True):
    """Values that could not be opened when everything was sealed again."""

    names: tuple[str, ...] = ()
    at: int = 0


class KeyState(Struct, frozen=True):
    """The sealing keys of an installation, as the database knows them."""

    current: str
    records: tuple[KeyRecord, ...]
    """All keys that were ever used to seal values, the oldest first."""
    unreadable: tuple[str, ...] = ()
    """Names of values that could not be decrypted."""
    unreadable_at: int = 0
    """The time at which they were tried last."""

    @property
    def needed(self) -> tuple[str, ...]:
        """The ids of keys with which values are sealed, or may be, the newest first."""
        return tuple(record.id for record in reversed(self.records) if not record.retired)

    @property
    def retired(self) -> frozenset[str]:
        return frozenset(record.id for record in self.records if record.retired)

    @property
    def is_settled(self) -> bool:
        """True unless a key is being replaced."""
        return self.needed == (self.current,)

    def was_used(self, id: str) -> bool:
        return any(record.id == id for record in self.records)


async def read_keys(source: Reads) -> KeyState | None:
    """Returns None for a database that was never used."""
    current = await source.facts.get(CURRENT)
    if current is None:
        return None
    id, history = current.decode(), await source.facts.get(HISTORY)
    records = msgspec.json.decode(history, type=tuple[KeyRecord, ...]) if history else (KeyRecord(id=id),)
    noted = await source.facts.get(UNREADABLE)
    unreadable = msgspec.json.decode(noted, type=UnreadableValues) if noted else UnreadableValues()
    return KeyState(id, records, unreadable.names, unreadable.at)


async def values_by_key(source: Reads) -> dict[str, int]:
    """Counts sealed values by the id of their key."""
    return {key_of(head): count for head, count in (await source.sealed.counts()).items()}


async def unlock(encryption: Encryption, source: Reads, state: KeyState) -> None:
    """Sets the present key to encrypt, and the kept key to make digests."""
    seal_with_present(encryption, state)
    if kept := await source.facts.get(DIGEST_KEY):
        encryption.digest_key = encryption.decrypt(kept, *FACT.owner(name=DIGEST_KEY))
    else:
        encryption.digest_key = encryption.digest_key_of(state.current)


def seal_with_present(encryption: Encryption, state: KeyState) -> None:
    """Sets the present key to encrypt. Raises MissingKey if this process does not have it."""
    encryption.encrypt_with(state.current)


async def keep_digest_key(encryption: Encryption, tx: Tx) -> None:
    """Stores the key of digests, before its sealing key is replaced."""
    if await tx.facts.get(DIGEST_KEY) is None:
        owner = FACT.owner(name=DIGEST_KEY)
        await tx.facts.set(DIGEST_KEY, encryption.encrypt(encryption.digest_key, *owner))


async def record_next(tx: Tx, state: KeyState, id: str) -> None:
    """Records that another key seals from now on."""
    await _set_history(tx, (*state.records, KeyRecord(id=id, since=tx.now)))
    await tx.facts.set(CURRENT, id.encode())


async def record_retired(tx: Tx, state: KeyState) -> None:
    """Records that no value is sealed with a former key any more."""
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
    await tx.facts.set(UNREADABLE, msgspec.json.encode(UnreadableValues(names, tx.now if names else 0)))


async def _set_history(tx: Tx, records: tuple[KeyRecord, ...]) -> None:
    await tx.facts.set(HISTORY, msgspec.json.encode(records))
