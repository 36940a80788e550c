"""Gets a certificate for one name by ACME, and renews it.

An order is a row of the table `acme_order`. Each step reads the order from the authority first and does what
follows from its state, so that a server that is killed at any point loses nothing: the next one continues.
The worker's lease permits one server at a time. The old certificate is served until the new one is stored.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Final, Protocol, TypeGuard

from msgspec.structs import replace

from windlass.base.acme import AcmeClient, AcmeOrder, AcmeRefusal, AcmeUnavailable, Authorization
from windlass.base.acme.documents import AcmeProblem
from windlass.base.acme.signing import new_private_key
from windlass.base.certificates import (
    BadCertificate,
    certificate_request,
    covers,
    read_certificate,
    renewal_id,
)
from windlass.base.clock import DAY, HOUR, MINUTE, SECOND, stamp
from windlass.base.log import log
from windlass.control.background.challenges import (
    MAX_WAIT,
    ProofUnavailable,
    choose_challenge,
    reason_against,
    withdraw_challenge,
)
from windlass.control.context.authority import Authority
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.acme_accounts import client_of, forget_address
from windlass.control.records.domains import ORDERED_ORIGIN, UPLOADED_ORIGIN, live_certificate, moment_of
from windlass.control.records.order_ledger import Full, enter_order
from windlass.store import CERTIFICATE_KEY, ORDER_KEY, CertificateRow, Claim, OrderRow, Tx

RETRY_PAUSES: Final = (MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY)
"""The waits after failures in a row. Authorities allow five failed checks of a name in an hour."""
OUTAGE_PAUSES: Final = (MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR)
"""The waits while the authority does not answer. It is asked at least once an hour."""
MAX_FAILURES: Final = 3
"""After so many failures of an authority in a row, another one is asked if the operator has named one."""
MAX_ORDER_AGE: Final = DAY
"""The age after which an open order is given up."""
POLL_INTERVAL: Final = 2 * SECOND
MAX_VISIBILITY_PAUSE: Final = 10 * SECOND
"""The longest wait before the next look whether the answer to a challenge is visible, in `MAX_WAIT`."""
HINDERED_PAUSE: Final = 10 * MINUTE
"""The wait before it is tried again whether a proof is possible."""
LOOK_AT_RENEWAL: Final = 6 * HOUR
"""How often the authority is asked when to renew a certificate."""
_MAX_STEPS: Final = 6
"""The most steps of an order in a row; the next ones follow after a pause."""
_MIN_RENEWAL_DELAY: Final = HOUR
"""The shortest time until a certificate is renewed, whatever it says about its life."""
_TOKEN_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
_log = log("certificates")


class CertifiedName(Protocol):
    """A name that is to have a certificate, and who is told about it."""

    id: str
    """The id of its certificate and of its order."""
    name: str
    """The name in ASCII form, which may begin with `*.`."""
    org: str
    service: str
    """Both are removed with this service."""
    weekly: str
    """The domain whose new certificates are counted by the week; empty if they are not."""

    async def note(self, tx: Tx, fields: Mapping[str, object]) -> None:
        """Stores the fields of a domain's document that are about its certificate."""
        ...


class CertificateOrder:
    """The order for one name, during one claim of its work."""

    def __init__(self, ctx: Context, claim: Claim, certified: CertifiedName) -> None:
        self._ctx, self._claim, self._certified = ctx, claim, certified
        self._id, self._name = certified.id, certified.name
        self._authority = ctx.authority
        self._wait = POLL_INTERVAL
        self.is_unanswered = False
        """Whether the authority did not answer. The worker counts these attempts in a row."""

    async def advance(self) -> int:
        """Does what is due for the certificate. Returns when to continue."""
        ctx, now = self._ctx, self._ctx.clock.now()
        if problem := self._reason_for_none():
            await self._note({"certificate_state": "WAITING", "problem": problem})
            return now + DAY
        reads = ctx.store.reads
        certificate, order = await reads.certificates.get(self._id), await reads.certificates.order(self._id)
        if ctx.fallback and order and order.authority == ctx.fallback.directory:
            self._authority = ctx.fallback
        try:
            if order is None or not order.url:
                due = await self._due(certificate, order)
                if due > now:
                    return due
                if await self._is_hindered(certificate):
                    return now + HINDERED_PAUSE
                if due := await self._enter(certificate):
                    return due
                await self._place(certificate, order)
            for _ in range(_MAX_STEPS):
                if await self._step():
                    stored = await reads.certificates.get(self._id)
                    return min(stored.renew if stored else now, now + LOOK_AT_RENEWAL)
                if self._wait:
                    break
            return now + self._wait
        except AcmeUnavailable as error:
            pause = OUTAGE_PAUSES[min(self._claim.attempts, len(OUTAGE_PAUSES)) - 1]
            if self._claim.attempts >= MAX_FAILURES and (other := self._other()):
                return await self._move(str(error), pause, other)
            self.is_unanswered = True
            return await self._fail(str(error), pause)
        except ProofUnavailable as error:
            return await self._fail(str(error), await self._pause_of_proof())
        except AcmeRefusal as error:
            return await self._refused(error)

    def _reason_for_none(self) -> str:
        """Returns why no certificate can be ordered; empty if one can."""
        settings = self._ctx.settings
        if not settings.https_port:
            return "Ask the operator of Windlass to set https_port: without HTTPS, no certificate is ordered."
        if not settings.acme_directory:
            return "Ask the operator of Windlass to set acme_directory: no authority gives certificates here."
        return ""

    async def _due(self, certificate: CertificateRow | None, order: OrderRow | None) -> int:
        """Returns when the next order is due."""
        now = self._ctx.clock.now()
        # A later time was stored while the clock was ahead.
        failed = order.due if order and order.due <= now + DAY else 0
        if certificate is None or certificate.name != self._name:
            return failed
        renew = await self._renewal(certificate)
        if renew > now:
            await self._note(
                {
                    name: value
                    for name, value in live_certificate(certificate.expires, ORDERED_ORIGIN).items()
                    if name != "problem" or not order or not order.failures
                }
            )
            return min(renew, now + LOOK_AT_RENEWAL)
        return max(renew, failed)

    @property
    def _ledger(self) -> str:
        return "" if self._authority is self._ctx.authority else self._authority.directory

    def _other(self) -> Authority | None:
        """Returns the authority that is asked if the present one fails; None if there is none."""
        ctx = self._ctx
        return ctx.fallback if self._authority is ctx.authority else ctx.authority

    async def _is_hindered(self, certificate: CertificateRow | None) -> bool:
        """Returns whether no proof for the name is possible at present, and notes the reason."""
        if problem := await reason_against(self._ctx, self._name, self._certified.service):
            is_live = certificate is not None and certificate.name == self._name
            state: dict[str, object] = {} if is_live else {"certificate_state": "WAITING"}
            await self._note({**state, "problem": problem})
        return bool(problem)

    async def _enter(self, certificate: CertificateRow | None) -> int:
        """Enters an order in the ledger. Returns 0, or when there is room for it."""
        is_renewal = _is_ordered(certificate) and certificate.name == self._name

        async def change(tx: Tx) -> tuple[int, Full]:
            await fence(tx, self._claim)
            return await enter_order(
                tx,
                self._name,
                self._certified.org,
                is_renewal=is_renewal,
                weekly=self._certified.weekly,
                ledger=self._ledger,
            )

        due, what = await self._ctx.store.write(change)
        if due:
            problem = _tell_limit(what, stamp(due), self._certified.weekly)
            fields: dict[str, object] = {} if is_renewal else {"certificate_state": "WAITING"}
            await self._note({**fields, "problem": problem})
        return due

    async def _renewal(self, certificate: CertificateRow) -> int:
        """Returns when to renew a certificate: as the authority says (ARI), or else after two thirds of its
        life. In any case, before the last tenth of its life, and not in the first day, unless the window of
        the authority has just passed: that is how authorities report a revoked certificate."""
        if not _is_ordered(certificate):
            return certificate.renew
        if certificate.renew >= certificate.expires:  # no certificate was wanted for a time
            usual = certificate.since + (certificate.expires - certificate.since) * 2 // 3
            await self._ctx.store.write(lambda tx: tx.certificates.renew_at(self._id, usual))
            certificate = replace(certificate, renew=usual)
        try:
            client = await client_of(self._ctx, self._authority)
            info = await client.renewal_info(renewal_id(certificate.chain))
        except (AcmeUnavailable, AcmeRefusal) as error:
            _log.info("the authority does not say when to renew", extra={"why": str(error)})
            return certificate.renew
        if info is None:
            return certificate.renew
        try:
            start, end = moment_of(info.suggestedWindow.start), moment_of(info.suggestedWindow.end)
        except ValueError:
            return certificate.renew
        if start <= certificate.renew <= end:
            return certificate.renew
        chosen = start + secrets.randbelow(max(end - start, 1))
        latest = certificate.expires - (certificate.expires - certificate.since) // 10
        wait = _MIN_RENEWAL_DELAY if certificate.since - DAY < end <= self._ctx.clock.now() else DAY
        chosen = min(max(chosen, certificate.since + wait), latest)
        await self._ctx.store.write(lambda tx: tx.certificates.renew_at(self._id, chosen))
        return chosen

    async def _place(self, certificate: CertificateRow | None, previous: OrderRow | None) -> None:
        """Orders a certificate, with a new private key that is stored with the order."""
        client = await client_of(self._ctx, self._authority)
        key = new_private_key()
        try:
            replaces = renewal_id(certificate.chain) if _is_ordered(certificate) else ""
            order = await client.place_order(self._name, replaces)
        except AcmeRefusal as error:
            if not replaces or error.is_limit:
                raise
            order = await client.place_order(self._name)  # what it renews may be unknown to this authority
        await self._ctx.point("order placed")
        sealed = self._ctx.encryption.encrypt(key, *ORDER_KEY.owner(id=self._id))
        row = OrderRow(
            id=self._id,
            org=self._certified.org,
            service=self._certified.service,
            name=self._name,
            authority=self._authority.directory,
            url=order.url,
            sealed=sealed,
            since=self._ctx.clock.now(),
            failures=previous.failures if previous else 0,
            message=previous.message if previous else "",
        )
        await self._store_order(row, {} if certificate else {"certificate_state": "ORDERED"})
        await self._ctx.point("order stored")

    async def _step(self) -> bool:
        """Does the next step of the open order. Returns whether the certificate is stored."""
        row = await self._ctx.store.reads.certificates.order(self._id)
        if row is None or not row.url:
            return True
        now = self._ctx.clock.now()
        if row.name != self._name or row.authority != self._authority.directory or not row.sealed:
            await self._give_up(row, now)  # it was renamed, or the operator chose another authority
            return False
        client = await client_of(self._ctx, self._authority)
        order = await client.order(row.url)
        if now - row.since > MAX_ORDER_AGE and order.status != "valid":
            raise AcmeRefusal(
                AcmeProblem(detail="The authority did not decide about the order within a day.")
            )
        self._wait = 0
        match order.status:
            case "pending":
                await self._answer_challenges(client, row, order)
                age = now - row.since
                self._wait = _pause(order, min(age, MAX_VISIBILITY_PAUSE) if age < MAX_WAIT else age)
            case "ready":
                key = self._ctx.encryption.decrypt(row.sealed, *ORDER_KEY.owner(id=self._id))
                await self._ctx.point("order ready")
                await client.finalize(order, certificate_request(self._name, key))
                await self._ctx.point("order finalized")
            case "processing":
                self._wait = _pause(order, now - row.since)
            case "valid":
                await self._store_certificate(client, row, order)
                return True
            case _:
                raise AcmeRefusal(await self._reason(client, order))
        return False

    async def _answer_challenges(self, client: AcmeClient, row: OrderRow, order: AcmeOrder) -> None:
        """Publishes the answer to the challenge, and then asks the authority to look at it."""
        for url in order.authorizations:
            authorization = await client.authorization(url)
            if authorization.status == "valid":
                continue
            if authorization.status != "pending":
                raise AcmeRefusal(AcmeProblem(detail=_refusal_of(authorization)))
            method, challenge = await choose_challenge(self._ctx, row, authorization)
            if not _TOKEN_PATTERN.fullmatch(challenge.token):
                raise AcmeRefusal(AcmeProblem(detail="The authority sends no token for the proof."))
            answer = client.key.answer_for(challenge.token)
            prepared = method.prepare(replace(row, challenge=method.type), challenge.token, answer)
            is_new = prepared != row
            if is_new:
                await self._store_order(prepared, {})
                await self._ctx.point("challenge stored")
            may_look = await method.publish(self._ctx, prepared)
            if not may_look or (is_new and self._ctx.server):
                return  # the gateways of other servers learn the answer first
            if challenge.status == "pending":
                await client.respond(challenge)
                await self._ctx.point("challenge answered")

    async def _store_certificate(self, client: AcmeClient, row: OrderRow, order: AcmeOrder) -> None:
        assert row.sealed is not None
        chain = await client.chain(order)
        await self._ctx.point("certificate fetched")
        key = self._ctx.encryption.decrypt(row.sealed, *ORDER_KEY.owner(id=self._id))
        try:
            read = read_certificate(chain, key)
        except BadCertificate as error:
            raise AcmeRefusal(AcmeProblem(detail="It sent a certificate that cannot be served.")) from error
        if not covers(read.names, self._name):
            raise AcmeRefusal(AcmeProblem(detail="It sent a certificate for another name."))
        now = self._ctx.clock.now()
        certificate = CertificateRow(
            id=self._id,
            org=row.org,
            service=row.service,
            name=self._name,
            chain=read.chain,
            sealed=self._ctx.encryption.encrypt(read.key, *CERTIFICATE_KEY.owner(id=self._id)),
            fingerprint=read.fingerprint,
            since=now,
            expires=read.expires,
            renew=max(now + _MIN_RENEWAL_DELAY, read.since + (read.expires - read.since) * 2 // 3),
            origin=ORDERED_ORIGIN,
        )

        async def change(tx: Tx) -> None:
            await fence(tx, self._claim)
            present = await tx.certificates.get(self._id)
            if present is not None and present.origin == UPLOADED_ORIGIN:
                return  # a user has uploaded one meanwhile
            await tx.certificates.set(certificate)
            closed = _closed(row, failures=0, message="", due_at=0)
            await tx.certificates.set_order(replace(closed, authority=self._ctx.authority.directory))
            await self._certified.note(tx, live_certificate(read.expires, ORDERED_ORIGIN))

        await self._ctx.store.write(change)
        await withdraw_challenge(self._ctx, row)
        _log.info("a domain has a certificate", extra={"domain": self._name, "until": stamp(read.expires)})
        await self._ctx.point("certificate stored")

    async def _reason(self, client: AcmeClient, order: AcmeOrder) -> AcmeProblem:
        """Returns why an order failed, in the words of the authority."""
        for url in order.authorizations:
            authorization = await client.authorization(url)
            if authorization.refusal:
                return AcmeProblem(detail=authorization.refusal)
        return order.error or AcmeProblem(detail=f"The order is {order.status}.")

    async def _pause_of_proof(self) -> int:
        """Returns the age of the open order, at least a minute and at most an hour: the wait before it is
        tried again to publish its proof."""
        order = await self._ctx.store.reads.certificates.order(self._id)
        age = self._ctx.clock.now() - order.since if order and order.url else HINDERED_PAUSE
        return min(max(age, MINUTE), HOUR)

    async def _refused(self, error: AcmeRefusal) -> int:
        if error.problem.name == "accountDoesNotExist":
            await forget_address(self._ctx, self._authority)
        retry = round(error.retry_after * SECOND)
        shortest = max(retry, HOUR) if error.is_limit else retry
        order = await self._ctx.store.reads.certificates.order(self._id)
        pause = RETRY_PAUSES[min(order.failures if order else 0, len(RETRY_PAUSES) - 1)]
        await withdraw_challenge(self._ctx, order)
        failures = order.failures + 1 if order else 1
        fails_often = error.is_internal and failures >= MAX_FAILURES
        # Whatever the fall-back says (of its account, or a CAA record), it says nothing about the usual one.
        is_over = self._authority is self._ctx.fallback
        if (error.is_limit or fails_often or is_over) and (other := self._other()):
            return await self._move(str(error), max(pause, shortest), other, is_final=is_over)
        return await self._fail(str(error), max(pause, shortest), is_final=True)

    async def _move(self, message: str, pause: int, other: Authority, *, is_final: bool = False) -> int:
        """Gives the next order to another authority: soon to the fall-back, and to the usual one after the
        pause, so that two authorities that refuse are asked in turn more and more rarely. A final refusal
        counts."""
        _log.warning(
            "another authority is asked for a certificate",
            extra={"domain": self._name, "authority": other.directory, "why": message},
        )
        if other is self._ctx.fallback:
            pause = MINUTE
        return await self._fail(message, pause, is_final=is_final, moves_to=other)

    async def _fail(
        self, message: str, pause: int, *, is_final: bool = False, moves_to: Authority | None = None
    ) -> int:
        """Records a failure. A final one ends the order and counts; otherwise it is continued after the
        pause, or begun again at another authority."""
        ctx, now = self._ctx, self._ctx.clock.now()
        row = await ctx.store.reads.certificates.order(self._id)
        due = now + pause
        _log.warning("a domain gets no certificate yet", extra={"domain": self._name, "why": message})
        row = row or OrderRow(
            self._id, self._certified.org, self._certified.service, self._name, self._authority.directory
        )
        row = replace(row, failures=row.failures + is_final, message=message, due=due)
        if moves_to:
            row = replace(row, authority=moves_to.directory)
        certificate = await ctx.store.reads.certificates.get(self._id)
        is_live = certificate is not None and certificate.expires > now and certificate.name == self._name
        await self._store_order(
            _closed(row) if is_final or moves_to else row,
            {
                "certificate_state": "LIVE" if is_live else "FAILED",
                "problem": f"No certificate yet, the next try is at {stamp(due)}. {message}",
            },
        )
        return due

    async def _give_up(self, row: OrderRow, due_at: int) -> None:
        await self._store_order(_closed(row, due_at=due_at), {})

    async def _store_order(self, row: OrderRow, fields: dict[str, object]) -> None:
        async def change(tx: Tx) -> None:
            await fence(tx, self._claim)
            await tx.certificates.set_order(row)
            await self._certified.note(tx, fields)

        await self._ctx.store.write(change)

    async def _note(self, fields: dict[str, object]) -> None:
        async def change(tx: Tx) -> None:
            await fence(tx, self._claim)
            await self._certified.note(tx, fields)

        await self._ctx.store.write(change)


def _tell_limit(limit_kind: Full, until: str, domain: str) -> str:
    if limit_kind == "names":
        return (
            f"Ask the operator of Windlass to set dns_provider, or wait until {until}: names below {domain} "
            "have had as many new certificates in a week as is permitted."
        )
    return (
        f"Wait until {until}: this {limit_kind} has placed as many orders for certificates in three hours as "
        "it may."
    )


def _is_ordered(certificate: CertificateRow | None) -> TypeGuard[CertificateRow]:
    """Returns whether a certificate is one of an authority, and not one that a user has uploaded."""
    return certificate is not None and certificate.origin == ORDERED_ORIGIN


def _pause(order: AcmeOrder, age: int) -> int:
    """Returns the wait before an order is read again: as the authority says, and more and more rarely, as the
    age doubles, up to a minute."""
    return max(POLL_INTERVAL, round(order.retry_after * SECOND), min(age, MINUTE))


def _closed(
    row: OrderRow, failures: int | None = None, message: str | None = None, due_at: int | None = None
) -> OrderRow:
    """Returns the row without its order. Failures and the last refusal stay unless others are given."""
    return replace(
        row,
        url="",
        sealed=None,
        challenge="",
        path="",
        answer="",
        failures=row.failures if failures is None else failures,
        message=row.message if message is None else message,
        due=row.due if due_at is None else due_at,
    )


def _refusal_of(authorization: Authorization) -> str:
    return (
        authorization.refusal or f"The proof of {authorization.identifier.value} is {authorization.status}."
    )
