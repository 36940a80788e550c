"""Sign-in with an e-mail address and a password: sessions, invitations that are accepted, and passwords that
change.

Whether an address is known is not revealed: neither by an answer nor by the time that it takes. Only the
holder of a link learns the address that the link is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Final

from msgspec import Struct

from windlass.base import ids, tokens
from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Forbidden, Invalid, Missing, Unauthorized
from windlass.base.log import log
from windlass.base.trace import start_untraced
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.people.attempts import (
    FOR_ACCOUNT_FROM_ADDRESS,
    FROM_ADDRESS,
    RESETS_FOR_ACCOUNT,
    KnownBrowser,
    Limit,
    account_subject,
    forgive,
    limits_of,
    take,
    take_or_refuse,
)
from windlass.control.people.authenticate import Authenticator
from windlass.control.people.browser_sessions import NewBrowserSession, open_for
from windlass.control.people.callers import OWN_ISSUER, subject_of_person
from windlass.control.people.members import Invitee, IssuerIdentity, invitee_of, join
from windlass.control.people.operator_links import adopt_operator_link
from windlass.control.people.passkeys import (
    SECOND_FACTOR_PURPOSE,
    CheckedPasskey,
    PasskeyAnswer,
    PasskeyChallenge,
    Passkeys,
)
from windlass.control.people.password_hashes import PasswordHashes, check_password, is_outdated
from windlass.control.people.password_links import (
    INVITATION,
    RESET,
    RESET_ALL,
    address_of,
    new_link,
    url_of_link,
)
from windlass.control.people.people import person_id_of, record_about_person, rename_person
from windlass.control.people.second_factors import (
    FactorSetup,
    begin_factor,
    confirm_factor,
    has_app,
    has_factor,
    remove_app,
    remove_factors,
    remove_other_passkeys,
    require_code,
)
from windlass.control.reporting.security_events import UnusualCaller
from windlass.core.access import Actor
from windlass.core.declare.fields import visible
from windlass.core.declare.stored import NamedDocument
from windlass.core.words.events import Event
from windlass.families.member import Invitation, InvitationShown, invitation, member
from windlass.store import Reads, Tx
from windlass.store.tables.people import PasswordLink, Person

_WRONG_LOGIN_ADVICE: Final = "Check the e-mail address and the password: there is no such pair here"
_INVALID_LINK_ADVICE: Final = (
    "Ask an admin for another link: this one was used, has expired or was replaced by a newer one, or its "
    "invitation was withdrawn"
)
_MAX_NAME_LENGTH: Final = 255
_log = log("sign-in")


class SignedIn(Struct, frozen=True):
    """A new session, and the account that the browser is known for from now on."""

    session: NewBrowserSession
    account: str
    recovery_codes: list[str] = []
    """The recovery codes, if the sign-in has made the second factor valid."""


class NextStep(Struct, frozen=True):
    """What is missing for a session. `next`: SECOND_FACTOR, or SIGN_IN after a link was used."""

    next: str
    setup: FactorSetup | None = None
    """What the authenticator app needs, if a second factor is required and the person has none yet."""
    passkey: PasskeyChallenge | None = None
    """The challenge for the passkeys of the person, which take the place of a code."""


class SecondProof(Struct, frozen=True):
    """What a client has sent as the second factor."""

    code: str = ""
    passkey: PasskeyAnswer | None = None

    @property
    def is_sent(self) -> bool:
        return bool(self.code) or self.passkey is not None


class DescribedLink(Struct, frozen=True):
    """A link as its page shows it."""

    purpose: str
    email: str
    name: str
    organization_name: str
    role_name: str
    has_password: bool
    """Whether the person has a password here already, and accepts an invitation with it."""
    expires_at: str


class _OpenedLink(Struct, frozen=True):
    link: PasswordLink
    email: str
    person: Person | None
    invitee: Invitee | None


class PasswordSignIn:
    def __init__(self, ctx: Context, authenticator: Authenticator, passkeys: Passkeys) -> None:
        self._ctx, self._authenticator, self._passkeys = ctx, authenticator, passkeys
        self._hashes = PasswordHashes()
        self._mails: set[asyncio.Task[None]] = set()

    @property
    def is_offered(self) -> bool:
        return self._ctx.settings.takes_passwords

    @property
    def sends_mail(self) -> bool:
        return self.is_offered and bool(self._ctx.settings.smtp_host)

    async def sign_in(
        self,
        email: str,
        password: str,
        second_factor: SecondProof,
        client: str,
        browser: KnownBrowser,
        origin: Origin,
    ) -> SignedIn | NextStep:
        """Opens a session with the password, and with a code or a passkey if the person has a second factor.

        `client`: the address of the client, as the limits count it.
        """
        self.require_offered()
        ctx, address = self._ctx, address_of(email.strip())
        account = account_subject(ctx, address)
        is_known = account in browser.people
        limits = limits_of(account, client, browser.id if is_known else "")
        await take_or_refuse(ctx, limits)
        # The same statements run for an unknown address, so that the time reveals nothing.
        person = await ctx.store.reads.people.at(address)
        memberships = await ctx.store.reads.identities.of(OWN_ISSUER, person.id if person else "")
        stored = person.password if person else None
        matches = await self._hashes.matches(password, stored, is_known=is_known)
        if person is None or not matches:
            if person is not None and memberships:
                caller = UnusualCaller(memberships[0][0], person.email, memberships[0][1], person=True)
                why = "A wrong password was sent"
                self._authenticator.security_events.record_denied(caller, why, origin)
            raise Unauthorized(_WRONG_LOGIN_ADVICE)
        await self._authenticator.member_with_password(person.id)  # raises NoMember
        if missing := await self._missing(person, second_factor):
            return missing
        checked = await self._check_second(person, account, second_factor)
        fresh = await self._hashes.hash(password) if is_outdated(person.password) else ""
        session, codes = await ctx.store.write(
            lambda tx: self._open(tx, person, second_factor.code, checked, limits, fresh, origin)
        )
        return SignedIn(session, account, codes)

    async def _missing(self, person: Person, second_factor: SecondProof) -> NextStep | None:
        """Returns what is missing for a session of a person with the right password."""
        ctx = self._ctx
        if second_factor.is_sent:
            return None
        if await has_factor(ctx.store.reads, person.id):
            return NextStep("SECOND_FACTOR", passkey=await self._passkeys.second_challenge(person))
        if not ctx.settings.require_second_factor:
            return None
        setup = await ctx.store.write(lambda tx: begin_factor(ctx, tx, person))
        return NextStep("SECOND_FACTOR", setup)

    async def _check_second(
        self, person: Person, account: str, second_factor: SecondProof
    ) -> CheckedPasskey | None:
        """Counts an attempt with a second factor, and checks the passkey, if one was sent."""
        if not second_factor.is_sent:
            return None
        await take_or_refuse(self._ctx, [Limit(f"{account}:code", FOR_ACCOUNT_FROM_ADDRESS)])
        return (
            await self._passkeys.check(second_factor.passkey, SECOND_FACTOR_PURPOSE, person)
            if second_factor.passkey
            else None
        )

    async def _use_second_factor(
        self, tx: Tx, person: Person, code: str, checked: CheckedPasskey | None, origin: Origin
    ) -> list[str]:
        """Uses up the code or the passkey, if the person needs one. Returns the recovery codes of a second
        factor that becomes valid with it."""
        if checked is not None:
            await self._passkeys.use(tx, checked)
        elif await has_factor(tx, person.id):
            await require_code(self._ctx, tx, person, code, origin)
        elif self._ctx.settings.require_second_factor:
            return await confirm_factor(self._ctx, tx, person, code, origin)
        return []

    async def _open(
        self,
        tx: Tx,
        person: Person,
        code: str,
        checked: CheckedPasskey | None,
        limits: list[Limit],
        fresh: str,
        origin: Origin,
    ) -> tuple[NewBrowserSession, list[str]]:
        now = await tx.people.get(person.id)
        if now is None or now.password != person.password:
            raise Unauthorized(_WRONG_LOGIN_ADVICE)  # the password was changed meanwhile
        if fresh:
            await tx.people.rehash(person, fresh)
        codes = await self._use_second_factor(tx, person, code, checked, origin)
        await forgive(tx, limits)
        return await self.open_session(tx, person, origin), codes

    async def open_session(self, tx: Tx, person: Person, origin: Origin) -> NewBrowserSession:
        return await open_for(self._ctx, tx, subject_of_person(OWN_ISSUER, person.id), person.email, origin)

    # Links

    async def describe_link(self, code: str) -> DescribedLink:
        self.require_offered()
        opened = await self._find_link(code)
        person, invitee = opened.person, opened.invitee
        return DescribedLink(
            opened.link.purpose,
            opened.email,
            # An Admin who invites somebody must not learn the name in another organization.
            person.name if person and invitee is None else "",
            invitee.org.read(NamedDocument).name if invitee else "",
            invitee.guest.read(InvitationShown).role_name if invitee and invitee.guest else "",
            person is not None and invitee is not None,
            stamp(opened.link.ends),
        )

    async def use_link(
        self,
        code: str,
        name: str,
        password: str,
        second_factor: SecondProof,
        client: str,
        origin: Origin,
        *,
        removes_passkeys: bool = False,
    ) -> SignedIn | NextStep:
        """Accepts an invitation or sets a new password, and opens a session. The link is used up.

        `second_factor`: a code or a passkey. A person who has one must send it here too: otherwise who
        reads the mails of a person would need nothing else. `removes_passkeys`: whether a new password also
        ends all other passkeys, which somebody who had the former password may have added.
        """
        self.require_offered()
        ctx, opened = self._ctx, await self._find_link(code)
        person = opened.person
        account = account_subject(ctx, address_of(opened.email))
        hash = ""
        if opened.invitee is not None and person is not None:
            await take_or_refuse(ctx, limits_of(account, client, ""))
            if not await self._hashes.matches(password, person.password):
                raise Unauthorized(
                    "Send the password that you have here already: the invitation adds an organization to it"
                )
        else:
            check_password(password, opened.email)
            hash = await self._hashes.hash(password)
        needs_code = (
            person is not None
            and opened.link.purpose != RESET_ALL
            and await has_factor(ctx.store.reads, person.id)
        )
        checked = None
        if person is not None and needs_code:
            if not second_factor.is_sent:
                return NextStep("SECOND_FACTOR", passkey=await self._passkeys.second_challenge(person))
            checked = await self._check_second(person, account, second_factor)
        name = visible(name.strip())[:_MAX_NAME_LENGTH] or opened.email.partition("@")[0]
        use = self._accept if opened.invitee is not None else self._reset

        async def change(tx: Tx) -> NewBrowserSession | None:
            owner = await use(tx, opened, name, hash, origin)
            if await has_factor(tx, owner.id):
                await self._use_second_factor(tx, owner, second_factor.code, checked, origin)
                if removes_passkeys and opened.invitee is None:
                    kept = checked.passkey.id if checked else ""
                    await remove_other_passkeys(ctx, tx, owner, kept, origin)
            if ctx.settings.require_second_factor and not await has_factor(tx, owner.id):
                return None
            return await self.open_session(tx, owner, origin)

        session = await ctx.store.write(change)
        return SignedIn(session, account) if session else NextStep("SIGN_IN")

    async def _find_link(self, code: str) -> _OpenedLink:
        store, digest, now = self._ctx.store, tokens.digest(code), self._ctx.clock.now()
        link = await store.reads.people.link(digest, now)
        if link is None and await adopt_operator_link(self._ctx, digest):
            link = await store.reads.people.link(digest, now)
        opened = await self._opened(store.reads, link) if link else None
        if opened is None:
            raise Unauthorized(_INVALID_LINK_ADVICE)
        return opened

    async def _opened(self, reads: Reads, link: PasswordLink) -> _OpenedLink | None:
        if link.purpose != INVITATION:
            person = await reads.people.get(link.subject)
            return _OpenedLink(link, person.email, person, None) if person else None
        guest = await reads.resources.find(invitation.name, link.subject)
        invitee = await invitee_of(reads, guest) if guest else None
        if guest is None or invitee is None:
            return None
        email = guest.read(Invitation).email
        return _OpenedLink(link, email, await reads.people.at(address_of(email)), invitee)

    async def _take(self, tx: Tx, opened: _OpenedLink) -> _OpenedLink:
        """Uses up a link. Of two requests with one link, the second one is refused."""
        link = await tx.people.take_link(opened.link.digest)
        again = await self._opened(tx, link) if link else None
        if again is None or again.person != opened.person:
            raise Unauthorized(_INVALID_LINK_ADVICE)
        return again

    async def _accept(self, tx: Tx, opened_link: _OpenedLink, name: str, hash: str, origin: Origin) -> Person:
        opened = await self._take(tx, opened_link)
        invitee, person = opened.invitee, opened.person
        assert invitee is not None
        if person is None:
            address = address_of(opened.email)
            person = Person(ids.new_id(), address, opened.email, name, hash, tx.now, tx.now)
            await tx.people.add(person)
        inside = {org for _, org, _ in await tx.identities.of(OWN_ISSUER, person.id)}
        named = await tx.resources.named(invitee.org.id, member.name, person.email.casefold())
        if invitee.org.id in inside or named:
            raise Conflict("Sign in: a member of this organization has this e-mail address already")
        identity = IssuerIdentity(OWN_ISSUER, person.id, person.email, person.name)
        await join(self._ctx, tx, identity, invitee)
        tx.nudge("tokens")
        return person

    async def _reset(self, tx: Tx, opened_link: _OpenedLink, name: str, hash: str, origin: Origin) -> Person:
        person = (await self._take(tx, opened_link)).person
        assert person is not None
        await self._set_password(tx, person, hash, origin, kept_session="")
        if opened_link.link.purpose == RESET_ALL:
            await remove_factors(self._ctx, tx, person, origin)
        return person

    async def _set_password(
        self, tx: Tx, person: Person, hash: str, origin: Origin, *, kept_session: str
    ) -> None:
        """Sets a password. Ends all sessions but `kept_session`, and the links for the former password. Also
        deletes an unconfirmed key of an authenticator app: anyone with the former password could have read
        it."""
        await tx.people.set_password(person.id, hash)
        await tx.people.delete_links(person.id)
        if not await has_app(tx, person.id):
            await tx.second_factors.delete_app(person.id)
        await tx.browser_sessions.end_all_but(subject_of_person(OWN_ISSUER, person.id), kept_session)
        tx.nudge("tokens")
        await record_about_person(self._ctx, tx, Event.PASSWORD_CHANGED, person, origin, {})

    # A forgotten password

    async def ask_for_reset(self, email: str, client: str, origin: Origin) -> None:
        """Sends a link to a person who has forgotten the password. Returns before it is known whether
        there is such a person, so that neither the answer nor its time reveals it."""
        self.require_offered()
        if not self.sends_mail:
            raise Conflict(
                "Ask an admin of your organization for a link to choose a password: no mail is sent from here"
            )
        await take_or_refuse(self._ctx, [Limit(f"password:{client}", FROM_ADDRESS)])
        self._run(self._mail_reset(address_of(email.strip()), origin))

    async def _mail_reset(self, address: str, origin: Origin) -> None:
        ctx = self._ctx
        limit = Limit(f"{account_subject(ctx, address)}:reset", RESETS_FOR_ACCOUNT)

        async def make(tx: Tx) -> tuple[Person, str] | None:
            person = await tx.people.at(address)
            if person is None or await take(tx, [limit]):
                return None
            link = await new_link(tx, RESET, person.id)
            await record_about_person(ctx, tx, Event.PASSWORD_LINK_CREATED, person, origin, {})
            return person, url_of_link(ctx, link)

        made = await ctx.store.write(make)
        if made is None:
            return
        person, url = made
        await self._mail(
            person,
            "A new password for Windlass",
            f"Somebody, probably you, asked for a new password for {person.email} at {ctx.settings.url}.\n\n"
            f"Choose it here within an hour:\n\n{url}\n\n"
            "Your passkeys stay, unless you choose to remove them there: do so if somebody else may have had "
            "your password.\n\n"
            "If it was not you, there is nothing to do: your password stays as it is.\n",
        )

    def tell(self, person: Person, subject: str, text: str) -> None:
        """Mails a person in the background, if mails are sent from here."""
        if self.sends_mail:
            self._run(self._mail(person, subject, text))

    def _run(self, mailing: Coroutine[None, None, None]) -> None:
        task = start_untraced(mailing)
        self._mails.add(task)
        task.add_done_callback(self._mails.discard)

    async def _mail(self, person: Person, subject: str, text: str) -> None:
        from windlass.control.people.mail import MailFailed, send_mail  # noqa: PLC0415 (only few requests send mail)

        ctx = self._ctx
        try:
            await send_mail(ctx.settings, person.email, subject, text)
        except MailFailed as error:
            _log.error("a mail was not sent", extra={"error": str(error), "server": ctx.settings.smtp_host})

    async def stop(self) -> None:
        """Waits a moment for mails under way."""
        if self._mails:
            await asyncio.wait(self._mails, timeout=2)

    # One's own account

    async def change_password(self, actor: Actor, password: str, new_password: str, origin: Origin) -> None:
        """Changes the password of the caller, and ends all sessions but the current one."""
        ctx, person = self._ctx, await self.own_with_password(actor, password)
        check_password(new_password, person.email, "new_password")
        hash = await self._hashes.hash(new_password)

        async def change(tx: Tx) -> None:
            now = await tx.people.get(person.id)
            if now is None or now.password != person.password:
                raise Conflict("Sign in again: the password was changed a moment ago")
            await self._set_password(tx, person, hash, origin, kept_session=actor.session)

        await ctx.store.write(change)

    async def begin_factor(self, actor: Actor, password: str) -> FactorSetup:
        """Begins to add a second factor to the caller. A session alone is not enough, because it may be
        stolen."""
        person = await self.own_with_password(actor, password)
        return await self._ctx.store.write(lambda tx: begin_factor(self._ctx, tx, person))

    async def confirm_factor(self, actor: Actor, code: str, origin: Origin) -> list[str]:
        ctx, person = self._ctx, await self.own(actor)
        account = account_subject(ctx, person.address)
        await take_or_refuse(ctx, [Limit(f"{account}:change", FOR_ACCOUNT_FROM_ADDRESS)])

        async def change(tx: Tx) -> list[str]:
            codes = await confirm_factor(ctx, tx, person, code, origin)
            await tx.browser_sessions.end_all_but(actor.subject, actor.session)
            tx.nudge("tokens")
            return codes

        return await ctx.store.write(change)

    async def remove_factor(self, actor: Actor, password: str, origin: Origin) -> None:
        person = await self.own_with_password(actor, password)

        async def change(tx: Tx) -> None:
            await remove_app(self._ctx, tx, person, origin)
            await self.require_left_factor(tx, person)

        await self._ctx.store.write(change)

    async def require_left_factor(self, tx: Tx, person: Person) -> None:
        """Raises Conflict if a change has removed the last second factor where one is required."""
        if self._ctx.settings.require_second_factor and not await has_factor(tx, person.id):
            raise Conflict("Add another second factor first: one is required here (require_second_factor)")

    async def own_with_password(self, actor: Actor, password: str) -> Person:
        self.require_offered()
        ctx, person = self._ctx, await self.own(actor)
        account = account_subject(ctx, person.address)
        await take_or_refuse(ctx, [Limit(f"{account}:change", FOR_ACCOUNT_FROM_ADDRESS)])
        if not await self._hashes.matches(password, person.password):
            raise Invalid("password: is not your present password")
        return person

    async def rename(self, actor: Actor, name: str, origin: Origin) -> None:
        person = await self.own(actor)
        name = visible(name.strip())[:_MAX_NAME_LENGTH]
        if not name:
            raise Invalid("name: must not be empty")
        await self._ctx.store.write(lambda tx: rename_person(self._ctx, tx, person, name, origin))

    async def own(self, actor: Actor) -> Person:
        id = person_id_of(actor)
        person = await self._ctx.store.reads.people.get(id) if id else None
        if person is None or not actor.session:
            raise Forbidden("Sign in with an e-mail address and a password: only such people have one here")
        return person

    def require_offered(self) -> None:
        if not self.is_offered:
            raise Missing(
                "Sign in another way: passwords are taken only over https, on the machine of the server, "
                "or with the setting `passwords`"
            )
