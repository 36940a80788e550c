"""Who is calling: from the Authorization header to an Actor, or a refusal.

An API token comes under either scheme; Bearer also takes a JWT, of the built-in issuer or of the
configured one. Verdicts are kept for a second at most, and forgotten at once when a token changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.base import tokens
from windlass.base.clock import MINUTE, SECOND, stamp
from windlass.base.errors import Forbidden, Unauthorized, Unavailable
from windlass.control.context import Call, Context, Reply, encode, writes
from windlass.control.members import SCOPES, welcome
from windlass.control.organizations import NOBODY
from windlass.control.tokens import expiry, note_uses
from windlass.core.access import Actor, Scope, scopes_of
from windlass.store.store import Tx

if TYPE_CHECKING:
    from windlass.base.issuer import Signer
    from windlass.base.oidc import Verifier

KEPT = 1 * SECOND
_MOST_KEPT = 10_000
AUDIENCE = "windlass"
_KEY_FACT = "issuer_key"
OPERATOR = "operator"
"""Subject of the token that was given in the settings."""

Fetch = Callable[[str], Awaitable[bytes]]


class Gate:
    def __init__(self, ctx: Context, fetch: Fetch) -> None:
        self._ctx = ctx
        self._fetch = fetch
        self._known: dict[bytes, tuple[Actor, int]] = {}
        self._noted: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._verifier: Verifier | None = None
        admin = ctx.settings.admin_token
        self._operator = tokens.digest(admin) if admin else ""
        ctx.store.listen(self._heard)

    def _heard(self, word: str) -> None:
        if word == "tokens":
            self._known.clear()

    def known(self, header: bytes, now: int) -> Actor | None:
        """The verdict of a moment ago, if there was one."""
        found = self._known.get(hashlib.sha256(header).digest())
        if found is None or found[1] < now:
            return None
        actor = found[0]
        if actor.expires is not None and actor.expires <= now:
            return None
        return actor

    async def admit(self, header: bytes) -> Actor:
        now = self._ctx.clock.now()
        scheme, credential = _parsed(header)
        if scheme == "bearer" and credential.count(".") == 2:
            actor = await self._by_jwt(credential)
        else:
            actor = await self._by_token(credential, now)
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[hashlib.sha256(header).digest()] = (actor, now + KEPT)
        return actor

    async def note(self) -> None:
        """Writes down which tokens were used, at most once a minute each."""
        uses, self._used = self._used, {}
        if uses:
            await self._ctx.store.write(lambda tx: note_uses(tx, uses))

    async def _by_token(self, token: str, now: int) -> Actor:
        digest = tokens.digest(token)
        if digest == self._operator:
            return await self._operators()
        found = await self._ctx.store.reads.token(digest) if tokens.well_formed(token) else None
        if found is None:
            raise refused("This token is not valid here")
        return self._actor(*found, now)

    def _actor(self, id: str, org: str, body: bytes, now: int) -> Actor:
        document = msgspec.json.decode(body)
        ends = expiry(document["expires_at"]) if document["expires_at"] else None
        if ends is not None and ends <= now:
            raise refused("This token has expired")
        if now - self._noted.get(id, 0) >= MINUTE:
            self._noted[id] = self._used[id] = now
        limited = document.get("limited_to")
        return Actor(
            id=id,
            name=document["name"],
            subject=f"token:{id}",
            grants={org: scopes_of(document["scopes"])},
            within=frozenset(limited) if limited else None,
            limit=document["rate_limit"],
            expires=ends,
            token=id,
        )

    async def _operators(self) -> Actor:
        first = await self._ctx.store.reads.first(NOBODY, "organization")
        if first is None:
            raise Unavailable("The first organization is still being made; try again in a moment")
        return Actor(
            id=first.id, name=OPERATOR, subject=OPERATOR, grants={first.id: Scope.ADMIN}, token=OPERATOR
        )

    async def _by_jwt(self, token: str) -> Actor:
        from windlass.base.oidc import Refused, Unreachable  # noqa: PLC0415 (costs 100 ms; only JWTs need it)

        verifier = self._verifier = self._verifier or await self._make_verifier()
        try:
            claims = await verifier.verify(token)
        except Unreachable as error:
            raise Unavailable(f"The JWT cannot be checked now: {error}") from error
        except Refused as error:
            raise refused(f"This JWT is not valid here: {error}") from error
        if claims["iss"] == issuer_url(self._ctx):
            return await self._by_session(claims)
        return await self._by_person(claims)

    async def _make_verifier(self) -> Verifier:
        from windlass.base.oidc import Trusted, Verifier  # noqa: PLC0415 (see above)

        settings, clock = self._ctx.settings, self._ctx.clock
        signer = await signer_of(self._ctx)
        trusted = [
            Trusted(issuer=signer.issuer, audiences=(AUDIENCE,), algorithms=("ES256",), keys=signer.jwks())
        ]
        if settings.oidc_issuer:
            issuer, audiences = settings.oidc_issuer, settings.oidc_audience
            trusted.append(Trusted(issuer=issuer, audiences=audiences, algorithms=settings.oidc_algorithms))
        return Verifier(trusted, self._fetch, lambda: clock.now() / SECOND)

    async def _by_session(self, claims: dict[str, Any]) -> Actor:
        """A session ends with the token it was made from."""
        now, id = self._ctx.clock.now(), str(claims["sub"])
        if id == OPERATOR and self._operator:
            actor = await self._operators()
        else:
            row = await self._ctx.store.reads.find("apiToken", id)
            if row is None:
                raise refused("The token behind this session was revoked")
            actor = self._actor(row.id, row.org, row.body, now)
        ends = int(claims["exp"] * SECOND)
        return msgspec.structs.replace(actor, expires=min(ends, actor.expires or ends))

    async def _by_person(self, claims: dict[str, Any]) -> Actor:
        issuer, subject = str(claims["iss"]), str(claims["sub"])
        found = await self._ctx.store.reads.identities(issuer, subject)
        if not found and await self._ctx.store.write(lambda tx: self._welcome(tx, claims)):
            found = await self._ctx.store.reads.identities(issuer, subject)
        if not found:
            raise Forbidden(
                "You are signed in, but not a member of an organization here: ask an admin to invite you"
            )
        grants = {org: SCOPES[msgspec.json.decode(body)["role_id"]] for _, org, body in found}
        return Actor(
            id=found[0][0],
            name=str(claims.get("email") or claims.get("name") or subject),
            subject=f"jwt:{issuer}|{subject}",
            grants=grants,
            expires=int(claims["exp"] * SECOND),
        )

    async def _welcome(self, tx: Tx, claims: dict[str, Any]) -> bool:
        verified = claims.get("email_verified") is True
        email = str(claims.get("email", "")) if verified else ""
        return await welcome(self._ctx, tx, claims["iss"], claims["sub"], email, str(claims.get("name", "")))


def refused(message: str) -> Unauthorized:
    return Unauthorized(message, {"www-authenticate": 'Token realm="windlass", Bearer realm="windlass"'})


def _parsed(header: bytes) -> tuple[str, str]:
    scheme, _, credential = header.partition(b" ")
    word = scheme.decode("latin-1").lower()
    text = credential.strip()
    if word not in {"token", "bearer"} or not text or not text.isascii() or b" " in text:
        raise refused("Send `Authorization: Token <API token>` or `Authorization: Bearer <JWT>`")
    return word, text.decode()


# The built-in issuer


def issuer_url(ctx: Context) -> str:
    return ctx.settings.public_url or f"http://{ctx.settings.host}:{ctx.settings.port}"


async def signer_of(ctx: Context) -> Signer:
    """The issuer with its own key, made at first need and kept sealed."""
    kept = await ctx.store.reads.fact(_KEY_FACT)
    return _signer(ctx, kept if kept is not None else await ctx.store.write(lambda tx: _key(ctx, tx)))


async def _key(ctx: Context, tx: Tx) -> bytes:
    from windlass.base.issuer import Signer  # noqa: PLC0415 (costs 100 ms; only JWTs need it)

    kept = await tx.fact(_KEY_FACT)
    if kept is not None:
        return kept
    sealed = ctx.seal.close(Signer.new_key(), _KEY_FACT)
    await tx.set_fact(_KEY_FACT, sealed)
    return sealed


def _signer(ctx: Context, sealed: bytes) -> Signer:
    from windlass.base.issuer import Signer  # noqa: PLC0415 (see above)

    return Signer(issuer_url(ctx), ctx.seal.open(sealed, _KEY_FACT), lambda: ctx.clock.now() / SECOND)


@writes("createSession")
async def create_session(ctx: Context, tx: Tx, call: Call) -> Reply:
    if call.actor.token is None:
        raise Forbidden("Only an API token can be exchanged for a session")
    ttl = ctx.settings.session_ttl
    signer = _signer(ctx, await _key(ctx, tx))
    token = signer.sign({"sub": call.actor.token, "aud": AUDIENCE}, ttl)
    return Reply(encode({"token": token, "token_type": "Bearer", "expires_at": stamp(tx.now + ttl * SECOND)}))
