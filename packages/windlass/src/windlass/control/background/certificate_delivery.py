"""Hands certificates and answers to challenges to the gateway of this server.

Each server compares what its gateway has with what the database says: after a change, and every few seconds,
since a gateway may have been replaced, and a notification may be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from windlass.base.encryption import CannotDecrypt
from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.base.outage import Outage
from windlass.control.background.challenges import METHOD_BY_TYPE
from windlass.control.context.context import Context
from windlass.control.records.domains import challenge_id
from windlass.routers.router import Certificate, Challenge, RouteError
from windlass.store import CERTIFICATE_KEY, CERTIFICATE_PREFIX, MAY_HAVE_MISSED

_COMPARISON_INTERVAL: Final = 15.0
"""Seconds between two comparisons without a change."""
_RETRY_PAUSE: Final = 1.0
_log = log("certificates")


class CertificateDelivery:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._changed = asyncio.Event()
        self._challenges: dict[str, Challenge | None] = {}
        """The challenges that the gateway answers, as far as this server knows; None for those that it may
        have lost, or that it has of an earlier server."""
        self._has_asked = False
        """Whether the gateway was asked for challenges of an earlier server."""
        self._unusable: dict[str, str] = {}
        """The fingerprints of certificates that cannot be served, by domain. The others are handed over."""
        self._outage = Outage(_log, "certificates wait for the gateway", "certificates are handed over again")
        ctx.store.listen(self._note_nudge, CERTIFICATE_PREFIX.rstrip(":"), MAY_HAVE_MISSED)

    def _note_nudge(self, topic: str) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Hands certificates over, in an endless loop."""
        while True:
            self._changed.clear()
            try:
                await self.deliver_changes()
                self._outage.end()
            except (Unavailable, RouteError) as error:
                self._outage.note(str(error))
                self._challenges = dict.fromkeys(self._challenges)
                await asyncio.sleep(_RETRY_PAUSE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_COMPARISON_INTERVAL):
                    await self._changed.wait()

    async def deliver_changes(self) -> None:
        """Compares the certificates and challenges of the gateway with those of the database."""
        await self._hand_over_challenges()
        wanted = await self._ctx.store.reads.certificates.fingerprints()
        router = self._ctx.places.local.router
        present = await router.certificates()
        for id in present.keys() - wanted.keys():
            await router.drop_certificate(id)
        for id, fingerprint in wanted.items():
            if present.get(id) != fingerprint and self._unusable.get(id) != fingerprint:
                await self._hand_over(id, fingerprint)

    async def _hand_over(self, id: str, fingerprint: str) -> None:
        row = await self._ctx.store.reads.certificates.get(id)
        if row is None:
            return
        router = self._ctx.places.local.router
        try:
            key = self._ctx.encryption.decrypt(row.sealed, *CERTIFICATE_KEY.owner(id=id))
            await router.put_certificate(id, Certificate((row.name,), row.chain.encode(), key))
        except CannotDecrypt as error:
            self._unusable[id] = fingerprint
            _log.warning(
                "the key of a certificate is unreadable", extra={"domain": row.name, "why": str(error)}
            )
        except RouteError as error:
            present = await router.certificates()  # raises if the gateway does not answer at all
            if present.get(id) == fingerprint:
                return
            self._unusable[id] = fingerprint
            _log.warning("the gateway refuses a certificate", extra={"domain": row.name, "why": str(error)})

    async def _hand_over_challenges(self) -> None:
        router = self._ctx.places.local.router
        if not self._has_asked:
            self._challenges = dict.fromkeys(await router.challenges())
            self._has_asked = True
        rows = await self._ctx.store.reads.certificates.challenges()
        wanted = {
            challenge_id(row.id): challenge
            for row in rows
            if (method := METHOD_BY_TYPE.get(row.challenge)) and (challenge := method.gateway_challenge(row))
        }
        for id in self._challenges.keys() - wanted.keys():
            await router.drop_challenge(id)
            del self._challenges[id]
        for id, challenge in wanted.items():
            if self._challenges.get(id) != challenge:
                await router.put_challenge(id, challenge)
                self._challenges[id] = challenge
