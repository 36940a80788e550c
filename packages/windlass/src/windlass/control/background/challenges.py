"""The methods by which an order proves a name to the authority. `METHODS` has them in order of preference.

What a method publishes is a pure function of the stored order, so that each server can publish it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from windlass.base.acme import AcmeChallenge, AcmeRefusal, AcmeUnavailable, Authorization
from windlass.base.acme.documents import AcmeProblem
from windlass.control.context.context import Context
from windlass.core.words.domains import ANY
from windlass.routers.router import Challenge, RouteError
from windlass.store import OrderRow

PATH: Final = "/.well-known/acme-challenge/"


class ProofMethod(Protocol):
    @property
    def type(self) -> str:
        """The type of the challenge in the words of ACME."""
        ...

    def can_prove(self, ctx: Context, order: OrderRow) -> bool: ...

    def prepare(self, order: OrderRow, token: str, answer: str) -> OrderRow:
        """Returns the order with all that is published, which is stored first; the same if it is called
        again. `answer` is the key authorization."""
        ...

    async def publish(self, ctx: Context, order: OrderRow) -> bool:
        """Publishes the answer, again if it is called again. Returns whether the authority may look at it
        now. Raises AcmeUnavailable."""
        ...

    async def withdraw(self, ctx: Context, order: OrderRow) -> None:
        """Removes what is published. Never raises, since what stays proves nothing any more."""
        ...

    def gateway_challenge(self, order: OrderRow) -> Challenge | None:
        """Returns what the gateway of each server answers; None if the proof is not at a gateway."""
        ...


class HttpProof:
    """A file at port 80 of the name (http-01)."""

    type: Final = "http-01"

    def can_prove(self, ctx: Context, order: OrderRow) -> bool:
        return not order.name.startswith(ANY)

    def prepare(self, order: OrderRow, token: str, answer: str) -> OrderRow:
        return replace(order, path=f"{PATH}{token}", answer=answer)

    async def publish(self, ctx: Context, order: OrderRow) -> bool:
        try:
            await ctx.places.local.router.put_challenge(challenge_id(order.id), self.gateway_challenge(order))
        except RouteError as error:
            raise AcmeUnavailable(f"The gateway cannot answer the authority: {error}") from error
        return True

    async def withdraw(self, ctx: Context, order: OrderRow) -> None:
        with contextlib.suppress(RouteError):
            await ctx.places.local.router.drop_challenge(challenge_id(order.id))

    def gateway_challenge(self, order: OrderRow) -> Challenge:
        return Challenge(order.name, order.path, order.answer.encode())


METHODS: Final[Sequence[ProofMethod]] = (HttpProof(),)
METHOD: Final[Mapping[str, ProofMethod]] = {method.type: method for method in METHODS}


def challenge_id(id: str) -> str:
    """Returns the id under which routers answer the challenge of an order."""
    return f"acme {id}"


def choose_challenge(
    ctx: Context, order: OrderRow, authorization: Authorization
) -> tuple[ProofMethod, AcmeChallenge]:
    """Returns the method by which an order proves its name, and the challenge of the authority for it. An
    order that has begun with a method stays with it. Raises AcmeRefusal."""
    begun = METHOD.get(order.challenge)
    for method in [begun] if begun else METHODS:
        challenge = authorization.challenge(method.type)
        if challenge and (begun or method.can_prove(ctx, order)):
            return method, challenge
    offered = ", ".join(challenge.type for challenge in authorization.challenges)
    raise AcmeRefusal(
        AcmeProblem(detail=f"None of the proofs that the authority offers is possible here: {offered}.")
    )


async def withdraw_challenge(ctx: Context, order: OrderRow | None) -> None:
    if order and (method := METHOD.get(order.challenge)):
        await method.withdraw(ctx, order)
