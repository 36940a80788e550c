"""The rotation of the encryption key while servers run.

The first key that the operator passes to a server is the wanted key. Once all servers of the database have
this key, one server makes it the current key in the database, and a worker encrypts all secrets again. Each
step is idempotent: the database stores the id of the current key, and each encrypted value the id of its key.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from windlass.base.clock import SECOND
from windlass.base.encryption import Encryption, MissingKey, id_of
from windlass.base.errors import Unavailable
from windlass.base.ids import new_id
from windlass.base.log import log
from windlass.base.outage import Outage
from windlass.base.subprocesses import in_thread
from windlass.control.background.resealing import RESEAL, announce
from windlass.control.context.context import no_point
from windlass.control.records.sealing_keys import (
    CURRENT_KEY_FACT,
    KeyState,
    keep_digest_key,
    read_keys,
    record_next,
    seal_with_present,
)
from windlass.core.words.events import Event
from windlass.store import KeyHolder, Store, Tx

CHECK_INTERVAL: Final = 2.0
"""Seconds between two checks of the configured keys and of the database."""
LEASE_TIME: Final = 15 * SECOND
"""Milliseconds after which a killed server no longer delays a rotation."""
_log = log("keys")


class KeyRotation:
    """Keeps the keys of a server up to date, and switches to a new key."""

    def __init__(
        self,
        store: Store,
        encryption: Encryption,
        load_keys: Callable[[], Sequence[bytes]],
        *,
        is_shared: bool,
        address: str = "",
        point: Callable[[str], Awaitable[None]] = no_point,
    ) -> None:
        """`load_keys` returns the keys that the operator configures, with the wanted key first; empty if they
        cannot be read. `is_shared` is whether several servers may use the database, and `address` identifies
        this server to people."""
        self._store, self._encryption, self._load_keys = store, encryption, load_keys
        self._is_shared, self._point = is_shared, point
        self._server = new_id()
        self._name = f"{socket.gethostname()}, {address}, process {os.getpid()}"
        self._outage = Outage(_log, "sealing keys are not compared", "sealing keys are compared again")
        store.guard_key(self)
        self._wanted = ""
        self._held: frozenset[str] = frozenset()
        """The keys that this server has announced to other servers."""
        self._held_at = 0.0
        self.problem = ""
        """The reason why this server cannot encrypt; empty if it can."""
        self.lacking: tuple[KeyHolder, ...] = ()
        """Servers that lacked the new key at the last check."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            try:
                await self.adopt_keys()
                self._outage.end()
            except Unavailable as error:
                self._outage.note(str(error))

    async def adopt_keys(self) -> None:
        """Loads new keys and announces them to other servers. Switches to the wanted key if all servers have
        it."""
        state = await self._adopt()
        await self._report_keys()
        if not self._wanted or state.was_used(self._wanted) or not state.is_settled:
            return
        if await self._store.write(self._switch):
            await self._point("switched")
            await self._adopt()

    @property
    def present(self) -> tuple[str, str]:
        return CURRENT_KEY_FACT, self._encryption.fingerprint

    async def adopt(self) -> None:
        """Loads new keys, and encrypts with the current key of the database. Raises Unavailable if this
        server does not have the current key."""
        await self._adopt()

    async def _adopt(self) -> KeyState:
        if keys := await in_thread(self._load_keys):
            self._encryption.learn(keys)
            self._wanted = id_of(keys[0])
        state = await read_keys(self._store.reads)
        assert state is not None, "checked at the start"
        try:
            seal_with_present(self._encryption, state)
        except MissingKey as error:
            self.problem = (
                f"Use another server, or add the sealing key {state.current} to the file `key` or the "
                "WINDLASS_KEY of this one: it does not have the key that seals now, and changes nothing"
            )
            raise Unavailable(self.problem) from error
        self.problem = ""
        return state

    async def _report_keys(self) -> None:
        """Renews the lease of this server, or announces a new key to other servers."""
        keys, due = self._encryption.known, self._held_at + LEASE_TIME / SECOND / 3
        if self._is_shared and (keys != self._held or time.monotonic() >= due):
            await self._store.write(self._hold)
            self._held, self._held_at = keys, time.monotonic()

    async def _hold(self, tx: Tx) -> None:
        await tx.key_holders.renew_lease(self._server, self._name, self._encryption.known, LEASE_TIME)

    async def _switch(self, tx: Tx) -> bool:
        """Makes the wanted key the current one, unless a server does not have it yet. Returns whether it
        did."""
        state = await read_keys(tx)
        assert state is not None, "checked at the start"
        if state.was_used(self._wanted) or not state.is_settled:
            return False
        live = await tx.key_holders.live(tx.now) if self._is_shared else []
        self.lacking = tuple(holder for holder in live if not holder.has(self._wanted))
        if self.lacking:
            return False
        await keep_digest_key(self._encryption, tx)
        await record_next(tx, state, self._wanted)
        await tx.work.schedule(RESEAL, RESEAL)
        data = {"key": self._wanted, "former_key": state.current}
        await announce(tx, Event.SEALING_KEY_REPLACED, data)
        return True

    async def stop(self) -> None:
        """Ends the lease of this server, so that other servers do not wait for it."""
        if self._is_shared:
            await self._store.write(lambda tx: tx.key_holders.delete(self._server))
