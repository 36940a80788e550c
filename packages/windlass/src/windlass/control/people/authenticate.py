"""Authenticates callers: converts an Authorization header into an Actor, or raises a refusal.

API tokens are accepted with the schemes Token and Bearer. Bearer tokens may also be JWTs of the built-in
issuer or of the configured issuer. An accepted credential is cached for at most a second and not beyond its
expiry. The cache is cleared when a token or a member changes. Refusals are not cached.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from windlass.base import tokens
from windlass.base.cleanup import on_failure
from windlass.base.clock import MINUTE, SECOND
from windlass.base.errors import Forbidden, Unauthorized, Unavailable
from windlass.config import BadSetting
from windlass.control.context.context import Context
from windlass.control.people.browser_sessions import end_after_use, is_page_key
from windlass.control.people.callers import (
    OWN_ISSUER,
    Membership,
    actor_of_token,
    permits_of_member,
    subject_of_person,
)
from windlass.control.people.claims import CHALLENGE, Claims, person_of, refusal
from windlass.control.people.members import IssuerIdentity, join_organizations, joinable_organizations
from windlass.control.people.organizations import NO_PARENT
from windlass.control.people.second_factors import has_factor
from windlass.control.people.sessions import AUDIENCE, OPERATOR_SUBJECT, operator_token_mark, signer_of
from windlass.control.people.tokens import expiry, note_uses
from windlass.control.reporting.security_events import SecurityEvents, UnusualCaller
from windlass.core.access import Actor, ResourceLocation, Scope, may_below, permits_throughout
from windlass.core.declare.stored import read
from windlass.families.api_token import ApiToken, api_token
from windlass.families.organization import organization
from windlass.store import Tx

if TYPE_CHECKING:
    from windlass.base.oidc import TokenIssuer, Verifier

CACHE_TIME = 1 * SECOND
BROWSER_SCHEME = "browser"
_BROWSER_HEAD = b"browser\n"
_MAX_CACHED = 10_000
_MAX_COOKIES = 8
"""Maximum number of session cookies of one request that are tried."""

Fetch = Callable[[str], Awaitable[bytes]]


class RefusedCaller(Unauthorized):
    """A refused caller whose identity is known, for example the owner of a revoked token."""

    def __init__(self, message: str, caller: UnusualCaller, reason: str = "") -> None:
        super().__init__(message, dict(CHALLENGE))
        self.caller = caller
        self.why = reason or message


class NoMember(Forbidden):
    """Raised for a person of the issuer who is not a member of any organization."""

    def __init__(self, message: str, caller: UnusualCaller) -> None:
        super().__init__(message)
        self.caller = caller
        self.why = message


class Authenticator:
    def __init__(self, ctx: Context, fetch: Fetch) -> None:
        self._ctx = ctx
        self.security_events = SecurityEvents(ctx)
        self.fetch = fetch
        """The function that fetches a document of an OpenID Connect issuer."""
        self._known: dict[bytes, tuple[Actor, int]] = {}
        """Cache of accepted headers: the actor, and the end of the entry's validity."""
        self._changes = 0
        """Number of cache invalidations so far."""
        self._noted: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._browsers: dict[str, tuple[int, int]] = {}
        """Used browser sessions by digest: the time of the last use, and the resulting end of the session."""
        self._verifier: Verifier | None = None
        self._outside = _trusted_issuer(ctx)
        admin = ctx.settings.admin_token
        self._operator = tokens.digest(admin) if admin else ""
        ctx.store.listen(self._note_nudge, "tokens")

    def _note_nudge(self, topic: str) -> None:
        if topic == "tokens":
            self._known.clear()
            self._changes += 1

    def recent_verdict(self, header: bytes, now: int) -> Actor | None:
        """Returns the actor of a header from the cache, or None if there is no valid entry."""
        verdict = self._known.get(hashlib.sha256(header).digest())
        return verdict[0] if verdict is not None and now < verdict[1] else None

    async def admit(self, header: bytes) -> Actor:
        now, changes = self._ctx.clock.now(), self._changes
        actor = await self._judge_credential(*_parse(header), now)
        # If the cache was invalidated meanwhile, the result may be outdated, so it serves only this request.
        if changes == self._changes:
            self._cache_actor(header, actor, now + CACHE_TIME)
        return actor

    def _cache_actor(self, header: bytes, actor: Actor, until: int) -> None:
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        ends = until if actor.expires is None else min(until, actor.expires)
        self._known[hashlib.sha256(header).digest()] = (actor, ends)

    async def note(self) -> None:
        """Stores security events, and the times of the last use of tokens and sessions, each at most once a
        minute."""
        await self.security_events.note()
        uses, self._used = self._used, {}
        browsers, self._browsers = self._browsers, {}
        if not uses and not browsers:
            return
        recent = self._ctx.clock.now() - MINUTE
        self._noted = {id: at for id, at in self._noted.items() if at > recent}

        async def change(tx: Tx) -> None:
            await note_uses(tx, uses)
            await tx.browser_sessions.use(browsers)

        with on_failure(partial(self._restore_uses, uses, browsers)):
            await self._ctx.store.write(change)

    def _restore_uses(self, uses: dict[str, int], browsers: dict[str, tuple[int, int]]) -> None:
        self._used = uses | self._used
        self._browsers = browsers | self._browsers

    async def _judge_credential(self, scheme: str, credential: str, now: int) -> Actor:
        if scheme == BROWSER_SCHEME:
            return await self._by_browser(credential, now)
        digest = tokens.digest(credential)
        if digest == self._operator:
            return await self._operators()
        if scheme == "bearer" and credential.count(".") == 2:
            return await self._by_jwt(credential, now)
        if not tokens.well_formed(credential):
            raise refusal(_UNKNOWN_CALLER_ADVICE)
        record = await self._ctx.store.reads.tokens.get(digest)
        if record is None:
            raise await self._no_more(_UNKNOWN_CALLER_ADVICE, digest=digest)
        return self._actor(*record, now)

    async def _no_more(self, message: str, *, digest: str = "", id: str = "") -> Unauthorized:
        """Returns the refusal of an unknown token. For a revoked token, the refusal includes its owner."""
        gone = await self._ctx.store.reads.tokens.revoked(digest, id)
        if gone is None:
            return refusal(message)
        id, org, name = gone
        return RefusedCaller(message, UnusualCaller(id, name, org), "The token was revoked")

    def _actor(self, id: str, org: str, body: bytes, now: int) -> Actor:
        token = read(body, ApiToken)
        ends = expiry(token.expires_at) if token.expires_at else None
        if ends is not None and ends <= now:
            raise RefusedCaller(
                "Use another API token: this one has expired", UnusualCaller(id, token.name, org)
            )
        if now - self._noted.get(id, 0) >= MINUTE:
            self._noted[id] = self._used[id] = now
        return actor_of_token(id, org, token, ends)

    async def _operators(self) -> Actor:
        first = await self._ctx.store.reads.resources.first(NO_PARENT, organization.name)
        if first is None:
            raise Unavailable("The first organization is still being made; try again in a moment")
        permits = permits_throughout(first.id, Scope.ADMIN)
        return Actor(
            id=first.id,
            name=OPERATOR_SUBJECT,
            subject=OPERATOR_SUBJECT,
            permits=permits,
            token=OPERATOR_SUBJECT,
        )

    async def is_admin_of_first(self, actor: Actor) -> bool:
        """Returns whether an actor is an Admin of the whole first organization, as the operator is."""
        first = await self._ctx.store.reads.resources.first(NO_PARENT, organization.name)
        return first is not None and may_below(actor, Scope.ADMIN, ResourceLocation(first.id))

    async def _by_jwt(self, token: str, now: int) -> Actor:
        from windlass.base.issuer_keys import IssuerUnreachable, TokenRefused  # noqa: PLC0415 (costs 100 ms; only JWTs need it)

        try:
            claims = msgspec.convert(await (await self._get_verifier()).verify(token), Claims)
        except IssuerUnreachable as error:
            raise Unavailable(f"The JWT cannot be checked now: {error}") from error
        except TokenRefused as error:
            raise refusal(
                f"Sign in again, or use an API token: this JWT is not valid here: {error}"
            ) from error
        if claims.iss == self._ctx.settings.url:
            return await self._by_session(claims, now)
        return await self._by_person(claims)

    async def _get_verifier(self) -> Verifier:
        """Returns the verifier with the issuers' keys. The first call creates it."""
        verifier = self._verifier or await self._make_verifier()
        self._verifier = self._verifier or verifier
        return self._verifier

    async def _make_verifier(self) -> Verifier:
        from windlass.base.oidc import TokenIssuer, Verifier  # noqa: PLC0415 (see above)

        signer, clock = await signer_of(self._ctx), self._ctx.clock
        own = TokenIssuer(
            issuer=signer.issuer, audiences=(AUDIENCE,), algorithms=("ES256",), keys=signer.jwks()
        )
        trusted = [own, self._outside] if self._outside else [own]
        return Verifier(trusted, self.fetch, lambda: clock.now() / SECOND)

    async def _by_session(self, claims: Claims, now: int) -> Actor:
        """Returns the actor of a JWT of the built-in issuer.

        The session ends with its token, and exactly at its expiry, because the clock is our own. Its requests
        are charged to the token's budget, so that exchanging a token gives no additional requests.
        """
        ends, id = int(claims.exp * SECOND), claims.sub
        if ends <= now:
            raise refusal("Sign in again: this session has ended")
        if self._operator and id == operator_token_mark(self._ctx):
            actor = await self._operators()
        else:
            row = await self._ctx.store.reads.resources.find(api_token.name, id)
            if row is None:
                raise await self._no_more(
                    "Sign in with another token: the one behind this session was revoked", id=id
                )
            actor = self._actor(row.id, row.org, row.body, now)
        return msgspec.structs.replace(actor, expires=min(ends, actor.expires or ends), token=None)

    async def _by_browser(self, credential: str, now: int) -> Actor:
        """Returns the actor of a browser session, with the current rights of its token or person."""
        cookies, _, key = credential.partition(" ")
        # Other services on this host may have set cookies of the same name. The page key identifies our
        # cookie.
        sent = cookies.split(",")[:_MAX_COOKIES]
        cookie = next((cookie for cookie in sent if is_page_key(self._ctx, cookie, key)), None)
        if cookie is None:
            raise refusal("Sign in at /console: the cookie came without the key of the page")
        session = await self._ctx.store.reads.browser_sessions.get(tokens.digest(cookie), now)
        if session is None:
            raise refusal("Sign in again: this session has ended")
        actor = await self._holder(session.holder, now)
        if now - self._noted.get(session.digest, 0) >= MINUTE:
            self._noted[session.digest] = now
            self._browsers[session.digest] = now, end_after_use(self._ctx, session, now)
        ends = min(session.ends_at, actor.expires or session.ends_at)
        limit = actor.limit or self._session_limit(actor)
        return msgspec.structs.replace(actor, expires=ends, limit=limit, token=None, session=session.id)

    def _session_limit(self, actor: Actor) -> int:
        """Returns the request limit of a browser session. The session of a token shares the token's limit,
        which would otherwise double."""
        settings = self._ctx.settings
        is_operator = actor.subject == OPERATOR_SUBJECT
        return (
            settings.session_rate_limit
            if is_operator
            else min(settings.rate_limit, settings.session_rate_limit)
        )

    async def _holder(self, holder: str, now: int) -> Actor:
        kind, _, rest = holder.partition(":")
        if kind == "jwt":
            issuer, _, subject = rest.partition("|")
            if issuer == OWN_ISSUER:
                return await self.local_person(subject)
            if all(provider.issuer != issuer for provider in self._ctx.settings.oidc_providers):
                raise refusal("Sign in again: the provider of this session is not in the settings any more")
            identity = IssuerIdentity(issuer=issuer, subject=subject, email="", name="")
            return await self._member(identity)
        if self._operator and holder == operator_token_mark(self._ctx):
            return await self._operators()
        row = await self._ctx.store.reads.resources.find(api_token.name, rest)
        if row is None:
            raise await self._no_more("Sign in again: the token behind this session was revoked", id=rest)
        return self._actor(row.id, row.org, row.body, now)

    async def _by_person(self, claims: Claims) -> Actor:
        return msgspec.structs.replace(await self.person(claims), expires=int(claims.exp * SECOND))

    async def person(self, claims: Claims) -> Actor:
        """Returns the actor of a person with verified claims. Makes the person a member of organizations that
        have invited them."""
        person = person_of(claims)
        if await joinable_organizations(self._ctx, self._ctx.store.reads, person):
            await self._ctx.store.write(lambda tx: join_organizations(self._ctx, tx, person))
        return await self._member(person)

    async def local_person(self, id: str) -> Actor:
        """Returns the actor of a session of a person who has a password of this installation."""
        settings = self._ctx.settings
        if not settings.takes_passwords:
            raise refusal("Sign in another way: passwords are not taken here any more")
        if settings.require_second_factor and not await has_factor(self._ctx.store.reads, id):
            raise refusal("Sign in again: an authenticator app is required here now")
        return await self.member_with_password(id)

    async def member_with_password(self, id: str) -> Actor:
        """Returns the actor of a person who has a password of this installation. Raises NoMember."""
        return await self._member(IssuerIdentity(issuer=OWN_ISSUER, subject=id, email="", name=""))

    async def _member(self, person: IssuerIdentity) -> Actor:
        identities = await self._ctx.store.reads.identities.of(person.issuer, person.subject)
        memberships = [(id, org, read(body, Membership)) for id, org, body in identities]
        if not memberships:
            raise NoMember(
                "You are signed in, but not a member of an organization here: ask an admin to invite you",
                UnusualCaller(person.subject, person.shown, "", person=True),
            )
        memberships.sort(key=lambda entry: entry[2].created_at)
        # The name is the one verified at joining, because later claims of a name or address are not verified.
        id, _, oldest = memberships[0]
        return Actor(
            id=id,
            name=oldest.email,
            subject=subject_of_person(person.issuer, person.subject),
            permits=permits_of_member((org, member.role_id) for _, org, member in memberships),
            limit=self._ctx.settings.session_rate_limit,
        )


_UNKNOWN_CALLER_ADVICE = (
    "Check the API token, or have an Admin create another: this one is not valid here, because it was "
    "deleted, is of another server, or is not complete"
)


def browser_credential(cookies: list[bytes], key: bytes) -> bytes:
    """Returns the credential of a browser in a form that cannot occur in an Authorization header."""
    return _BROWSER_HEAD + b",".join(cookies) + b" " + key


def _parse(header: bytes) -> tuple[str, str]:
    if header.startswith(_BROWSER_HEAD):
        return BROWSER_SCHEME, header.removeprefix(_BROWSER_HEAD).decode("latin-1")
    scheme, _, credential = header.partition(b" ")
    word = scheme.decode("latin-1").lower()
    text = credential.strip(b" \t")
    if word not in {"token", "bearer"} or not text or not text.isascii() or b" " in text:
        raise refusal("Send `Authorization: Token <API token>` or `Authorization: Bearer <JWT>`")
    return word, text.decode()


# Trusted issuers


def _trusted_issuer(ctx: Context) -> TokenIssuer | None:
    """Returns the issuer of the settings, or None. Raises BadSetting for invalid settings."""
    settings = ctx.settings
    if not settings.oidc_issuer:
        if settings.oidc_join:
            raise BadSetting("oidc_join: set oidc_issuer too, because the people of this issuer join")
        return None
    from windlass.base.oidc import TokenIssuer  # noqa: PLC0415 (see above)

    if settings.oidc_issuer == settings.url:
        raise BadSetting("oidc_issuer: this server's own address; its sessions are accepted anyway")
    try:
        return TokenIssuer(
            issuer=settings.oidc_issuer,
            audiences=settings.oidc_audience,
            algorithms=settings.oidc_algorithms,
        )
    except ValueError as error:
        raise BadSetting(f"oidc_issuer, oidc_audience, oidc_algorithms: {error}") from error
