"""Sign-in with a passkey alone, and the passkeys of one's own account."""

from __future__ import annotations

from windlass.base.errors import Missing, Unauthorized
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.people.attempts import FROM_ADDRESS, Limit, account_subject, take_or_refuse
from windlass.control.people.authenticate import Authenticator
from windlass.control.people.passkeys import (
    SIGN_IN,
    WRONG_PASSKEY,
    PasskeyAnswer,
    PasskeyChallenge,
    Passkeys,
)
from windlass.control.people.password_sign_in import PasswordSignIn, SignedIn
from windlass.control.people.people import record_about_person
from windlass.control.people.second_factors import forget_unneeded_codes
from windlass.core.access import Actor
from windlass.core.declare.fields import visible
from windlass.core.words.events import Event
from windlass.store import Tx
from windlass.store.tables.people import Person

_MAX_NAME_LENGTH = 100


class PasskeySignIn:
    def __init__(
        self, ctx: Context, authenticator: Authenticator, passkeys: Passkeys, passwords: PasswordSignIn
    ) -> None:
        self._ctx, self._authenticator = ctx, authenticator
        self._passkeys, self._passwords = passkeys, passwords

    def challenge(self) -> PasskeyChallenge:
        """Returns a challenge for a person whom the answer will name."""
        self._require_offered()
        return self._passkeys.challenge_to_sign_in()

    async def sign_in(self, answer: PasskeyAnswer, client: str, origin: Origin) -> SignedIn:
        """Opens a session with a passkey alone. `client`: the address of the client, as the limits count
        it."""
        self._require_offered()
        ctx = self._ctx
        await take_or_refuse(ctx, [Limit(f"password:{client}", FROM_ADDRESS)])
        checked = await self._passkeys.check(answer, SIGN_IN)
        person = await ctx.store.reads.people.get(checked.passkey.person)
        if person is None:
            raise Unauthorized(WRONG_PASSKEY)
        await self._authenticator.member_with_password(person.id)  # raises NoMember

        async def change(tx: Tx) -> SignedIn:
            await self._passkeys.use(tx, checked)
            session = await self._passwords.open_session(tx, person, origin)
            return SignedIn(session, account_subject(ctx, person.address))

        return await ctx.store.write(change)

    # One's own passkeys

    async def begin_adding(self, actor: Actor, password: str) -> PasskeyChallenge:
        self._require_offered()
        person = await self._passwords.own_with_password(actor, password)
        return self._passkeys.challenge_to_add(person, await self._ctx.store.reads.passkeys.of(person.id))

    async def add(self, actor: Actor, name: str, answer: PasskeyAnswer, origin: Origin) -> list[str]:
        """Adds a passkey, and ends all other sessions. Returns the recovery codes, if it is the first second
        factor."""
        self._require_offered()
        person = await self._passwords.own(actor)

        async def change(tx: Tx) -> list[str]:
            codes = await self._passkeys.add(tx, person, name, answer, origin)
            await tx.browser_sessions.end_all_but(actor.subject, actor.session)
            tx.nudge("tokens")
            return codes

        codes = await self._ctx.store.write(change)
        self._passwords.tell(person, "A new passkey for Windlass", self._told(person, origin))
        return codes

    def _told(self, person: Person, origin: Origin) -> str:
        url = self._ctx.settings.url
        return (
            f"A passkey was added to the account {person.email} at {url}, from the address {origin.address}. "
            "It signs in without the password.\n\n"
            f"If it was not you, remove it now, and change your password: {url}/console/account\n"
        )

    async def rename(self, actor: Actor, id: str, name: str) -> None:
        person = await self._passwords.own(actor)
        name = visible(name.strip())[:_MAX_NAME_LENGTH] or "Passkey"
        if not await self._ctx.store.write(lambda tx: tx.passkeys.rename(person.id, id, name)):
            raise _missing()

    async def remove(self, actor: Actor, id: str, password: str, origin: Origin) -> None:
        person = await self._passwords.own_with_password(actor, password)

        async def change(tx: Tx) -> None:
            name = await tx.passkeys.remove(person.id, id)
            if name is None:
                raise _missing()
            await forget_unneeded_codes(tx, person)
            await self._passwords.require_left_factor(tx, person)
            data = {"passkey": name}
            await record_about_person(self._ctx, tx, Event.SECOND_FACTOR_REMOVED, person, origin, data)

        await self._ctx.store.write(change)

    def _require_offered(self) -> None:
        if not self._passkeys.are_offered:
            raise Missing(
                "Sign in another way: browsers have passkeys only where public_url begins with https or is "
                "http://localhost, and with a name of a host, not an IP address"
            )


def _missing() -> Missing:
    return Missing("Read /account to find the ids of your passkeys: none has this one")
