"""The methods by which an order proves a name to the authority. `PROOF_METHODS` has them in order of
preference.

What a method publishes is a pure function of the stored order, so that each server can publish it again.
"""

from __future__ import annotations

import contextlib
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from msgspec.structs import replace

from windlass.base.acme import AcmeChallenge, AcmeRefusal, Authorization
from windlass.base.acme.documents import AcmeProblem
from windlass.base.acme.signing import to_base64url
from windlass.base.certificates import challenge_certificate
from windlass.base.clock import MINUTE
from windlass.base.dns import DnsFailure
from windlass.base.zones.provider import ZoneFailure
from windlass.control.background.challenge_records import note_record, remove_soon
from windlass.control.context.context import Context
from windlass.control.records.domains import challenge_id
from windlass.control.services.dns_challenges import (
    NoZone,
    find_place,
    obstacle,
    servers_without,
    tell_failure,
)
from windlass.control.services.domain_records import look_at
from windlass.control.services.domain_visits import visit
from windlass.core.words.domains import WILDCARD_PREFIX
from windlass.families.domain import PortAnswer
from windlass.routers.router import Certificate, Challenge, RouteError
from windlass.store import OrderRow

CHALLENGE_PATH: Final = "/.well-known/acme-challenge/"
MAX_WAIT: Final = 10 * MINUTE
"""The longest wait until the name servers of a zone have a new record."""
AUTO_METHOD: Final = "auto"
"""The setting by which http-01 and tls-alpn-01 are tried in turn."""
BLIND_WAIT: Final = MINUTE
"""The wait after which a record counts as visible, if no name server of its zone answers this machine."""


class ProofUnavailable(Exception):
    """The answer to a challenge cannot be published at present, which is no failure of the authority."""


class ProofMethod(Protocol):
    @property
    def type(self) -> str:
        """The type of the challenge in the words of ACME."""
        ...

    async def can_prove(self, ctx: Context, order: OrderRow) -> bool: ...

    def prepare(self, order: OrderRow, token: str, answer: str) -> OrderRow:
        """Returns the order with all that is published, which is stored first; the same if it is called
        again. `answer` is the key authorization."""
        ...

    async def publish(self, ctx: Context, order: OrderRow) -> bool:
        """Publishes the answer, again if it is called again. Returns whether the authority may look at it
        now. Raises ProofUnavailable."""
        ...

    async def withdraw(self, ctx: Context, order: OrderRow) -> None:
        """Removes what is published. Never raises, since what stays proves nothing any more."""
        ...

    def gateway_challenge(self, order: OrderRow) -> Challenge | None:
        """Returns what the gateway of each server answers; None if the proof is not at a gateway."""
        ...


class GatewayProof(ABC):
    """An answer of the gateway under the name."""

    async def publish(self, ctx: Context, order: OrderRow) -> bool:
        try:
            await ctx.places.local.router.put_challenge(challenge_id(order.id), self.gateway_challenge(order))
        except RouteError as error:
            raise ProofUnavailable(f"The gateway cannot answer the authority: {error}") from error
        return True

    async def withdraw(self, ctx: Context, order: OrderRow) -> None:
        with contextlib.suppress(RouteError):
            await ctx.places.local.router.drop_challenge(challenge_id(order.id))

    @abstractmethod
    def gateway_challenge(self, order: OrderRow) -> Challenge: ...


class HttpProof(GatewayProof):
    """A file at port 80 of the name (http-01)."""

    type: Final = "http-01"

    async def can_prove(self, ctx: Context, order: OrderRow) -> bool:
        return not order.name.startswith(WILDCARD_PREFIX) and ctx.settings.acme_challenge != TlsProof.type

    def prepare(self, order: OrderRow, token: str, answer: str) -> OrderRow:
        return replace(order, path=f"{CHALLENGE_PATH}{token}", answer=answer)

    def gateway_challenge(self, order: OrderRow) -> Challenge:
        return Challenge(order.name, order.path, order.answer.encode())


class DnsProof:
    """A TXT record in a zone of the operator (dns-01). It is written down before it is made, so that it is
    removed in any case; see `challenge_records`."""

    type: Final = "dns-01"

    def __init__(self) -> None:
        self._made: set[str] = set()
        """The texts of the records that this server has made, so that it asks the provider once."""

    async def can_prove(self, ctx: Context, order: OrderRow) -> bool:
        return ctx.zones is not None and order.name.startswith(WILDCARD_PREFIX)

    def prepare(self, order: OrderRow, token: str, answer: str) -> OrderRow:
        return replace(order, answer=to_base64url(hashlib.sha256(answer.encode()).digest()))

    async def publish(self, ctx: Context, order: OrderRow) -> bool:
        try:
            place = await find_place(ctx, order.name, order.service)
            missing = await servers_without(ctx, place, order.answer)
            if missing is not None and not missing:
                return True
            since = await note_record(ctx, order, place.name)
            await ctx.point("record noted")
            assert ctx.zones is not None
            if order.answer not in self._made:
                await ctx.zones.add(place.name, order.answer)
                await ctx.point("record made")
                self._made.add(order.answer)
            missing = await servers_without(ctx, place, order.answer)
        except NoZone as error:
            raise AcmeRefusal(AcmeProblem(detail=f"{error}.")) from error
        except (ZoneFailure, DnsFailure) as error:
            raise ProofUnavailable(tell_failure(error, order.name)) from error
        if missing is None:
            return ctx.clock.now() - since >= BLIND_WAIT
        if missing and ctx.clock.now() - since > MAX_WAIT:
            raise AcmeRefusal(
                AcmeProblem(
                    detail=f"The TXT record of {place.name} was made, and is not visible yet, after ten "
                    f"minutes, at {', '.join(missing)}."
                )
            )
        return not missing

    async def withdraw(self, ctx: Context, order: OrderRow) -> None:
        self._made.clear()  # the others are made once more, at most
        await remove_soon(ctx, order)

    def gateway_challenge(self, order: OrderRow) -> None:
        return None


class TlsProof(GatewayProof):
    """A certificate at port 443 of the name, for a protocol of TLS that only authorities speak (tls-alpn-01).

    It is chosen by setting, or where a proof over HTTP has just failed: port 80 may not lead here. That
    is looked at first, since a user may have mended it, and a proxy may end TLS.
    """

    type: Final = "tls-alpn-01"

    async def can_prove(self, ctx: Context, order: OrderRow) -> bool:
        chosen = ctx.settings.acme_challenge
        if order.name.startswith(WILDCARD_PREFIX):
            return False
        return chosen == self.type or (
            chosen == AUTO_METHOD
            and order.failures % 2 == 1
            and not await _leads_here_by_http_alone(ctx, order)
        )

    def prepare(self, order: OrderRow, token: str, answer: str) -> OrderRow:
        return replace(order, answer=answer)

    def gateway_challenge(self, order: OrderRow) -> Challenge:
        return Challenge(order.name, certificate=_proving_certificate(order.name, order.answer, order.since))


async def _leads_here_by_http_alone(ctx: Context, order: OrderRow) -> bool:
    """Returns whether a name leads to the gateway by HTTP, and by TLS not at all or through a proxy that ends
    it. Where this server does not reach its own addresses, it does not know."""
    async with ctx.domain_checks.look_room(order.org):
        records = await look_at(ctx, order.service, order.name)
    visits = await visit(ctx, records, by_tls=True)
    if isinstance(visits.https, PortAnswer) and visits.https.reached:
        return visits.https.is_proxied
    return visits.http.reached


@lru_cache(maxsize=256)
def _proving_certificate(name: str, answer: str, start_time: int) -> Certificate:
    """Returns the certificate of an order. Each server makes one of its own, once."""
    chain, key = challenge_certificate(name, answer.encode(), start_time)
    return Certificate((name,), chain.encode(), key)


PROOF_METHODS: Final[Sequence[ProofMethod]] = (TlsProof(), HttpProof(), DnsProof())
METHOD_BY_TYPE: Final[Mapping[str, ProofMethod]] = {method.type: method for method in PROOF_METHODS}


async def choose_challenge(
    ctx: Context, order: OrderRow, authorization: Authorization
) -> tuple[ProofMethod, AcmeChallenge]:
    """Returns the method by which an order proves its name, and the challenge of the authority for it. An
    order that has begun with a method stays with it. Raises AcmeRefusal."""
    begun = METHOD_BY_TYPE.get(order.challenge)
    for method in [begun] if begun else PROOF_METHODS:
        challenge = authorization.challenge(method.type)
        if challenge and (begun or await method.can_prove(ctx, order)):
            return method, challenge
    offered = ", ".join(challenge.type for challenge in authorization.challenges)
    raise AcmeRefusal(
        AcmeProblem(detail=f"None of the proofs that the authority offers is possible here: {offered}.")
    )


async def reason_against(ctx: Context, name: str, service: str) -> str:
    """Returns why no method can prove a name at present, and what to do; empty if one can. Raises
    ProofUnavailable."""
    try:
        return await obstacle(ctx, name, service) if name.startswith(WILDCARD_PREFIX) else ""
    except (ZoneFailure, DnsFailure) as error:
        raise ProofUnavailable(tell_failure(error, name)) from error


async def withdraw_challenge(ctx: Context, order: OrderRow | None) -> None:
    if order and (method := METHOD_BY_TYPE.get(order.challenge)):
        await method.withdraw(ctx, order)
