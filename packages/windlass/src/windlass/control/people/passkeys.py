"""Passkeys of people: key pairs in their authenticators, bound to the host of this server.

A challenge is sealed, and the page sends it back with the answer of the authenticator. It is used up in the
change that the answer leads to, so that no answer works twice.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from windlass.base import ids, tokens
from windlass.base.clock import MINUTE
from windlass.base.encryption import CannotDecrypt
from windlass.base.errors import Conflict, Invalid, Unauthorized
from windlass.base.log import log
from windlass.base.webauthn import (
    NewCredential,
    PasskeyQuestion,
    PasskeyRefused,
    WebAuthn,
    from_base64url,
    to_base64url,
)
from windlass.config import Settings
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.people.people import record_about_person
from windlass.control.people.second_factors import new_recovery_codes
from windlass.core.declare.fields import visible
from windlass.core.words.events import Event
from windlass.store import Tx
from windlass.store.tables.passkeys import Passkey
from windlass.store.tables.people import Person

MAX_PASSKEYS: Final = 20
"""The most passkeys of a person."""
ADD_PURPOSE: Final = "add"
SIGN_IN: Final = "sign in"
SECOND_FACTOR_PURPOSE: Final = "second factor"
"""Purposes of challenges. To sign in alone, a passkey must have verified its user, by PIN or fingerprint."""
_CHALLENGE_LIFETIME: Final = 5 * MINUTE
_SEAL_OWNER: Final = ("passkey",)
_MAX_NAME_LENGTH: Final = 100
WRONG_PASSKEY: Final = (
    "Try again, or sign in another way: the passkey was not confirmed, is not one of this server, or took "
    "too long"
)
_log = log("sign-in")


class PasskeyAnswer(Struct, frozen=True):
    """What the authenticator has answered, in Base64url, with the challenge as it was sent. `attestation` is
    sent to add a passkey, `authenticator_data` and `signature` to sign in."""

    challenge: str
    credential: str
    client_data: str
    attestation: str = ""
    authenticator_data: str = ""
    signature: str = ""


class PasskeyChallenge(Struct, frozen=True):
    challenge: str
    """It is sent back with the answer."""
    options: msgspec.Raw
    """What the page gives to the browser."""


class CheckedPasskey(Struct, frozen=True):
    """A passkey whose signature was right. It counts only once `Passkeys.use` has used it up."""

    passkey: Passkey
    counter: int
    sealed: SealedChallenge


class SealedChallenge(Struct, frozen=True):
    """The content of a challenge, which only this server can read."""

    purpose: str
    person: str
    """Empty if the answer will name the person."""
    challenge: str
    ends_at: int


def origin_of_passkeys(settings: Settings) -> str:
    """Returns the origin whose pages can use passkeys; empty if there can be none. Browsers have them for
    https and for localhost, and not for IP addresses."""
    parts = urlsplit(settings.url)
    host = parts.hostname or ""
    is_local = host == "localhost" or host.endswith(".localhost")
    if not settings.takes_passwords or not (parts.scheme == "https" or is_local) or _is_no_name(host):
        return ""
    standard = {"https": 443, "http": 80}[parts.scheme]
    port = f":{parts.port}" if parts.port not in {None, standard} else ""
    return f"{parts.scheme}://{host}{port}"


def _is_no_name(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return not host
    return True


class Passkeys:
    """Challenges for authenticators, and the check of their answers."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        origin = origin_of_passkeys(ctx.settings)
        self.are_offered = bool(origin)
        self._host = urlsplit(origin).hostname or ""
        self._webauthn = WebAuthn(self._host, origin)

    def challenge_to_add(self, person: Person, passkeys: list[Passkey]) -> PasskeyChallenge:
        ids = [passkey.credential for passkey in passkeys]
        question = self._webauthn.ask_to_add(person.id, person.email, person.name or person.email, ids)
        return self._seal(ADD_PURPOSE, person.id, question)

    def challenge_to_sign_in(self) -> PasskeyChallenge:
        return self._seal(SIGN_IN, "", self._webauthn.ask_to_sign(verify_user=True))

    async def second_challenge(self, person: Person) -> PasskeyChallenge | None:
        """Returns the challenge for the passkeys of a person who has sent the password; None without any."""
        present = await self._ctx.store.reads.passkeys.of(person.id)
        if not self.are_offered or not present:
            return None
        ids = [passkey.credential for passkey in present]
        return self._seal(SECOND_FACTOR_PURPOSE, person.id, self._webauthn.ask_to_sign(ids))

    async def add(
        self, tx: Tx, person: Person, name: str, answer: PasskeyAnswer, origin: Origin
    ) -> list[str]:
        """Adds a passkey. Returns the recovery codes, if it is the first second factor."""
        sealed = self._open(answer.challenge, ADD_PURPOSE)
        if sealed is None or sealed.person != person.id:
            raise Invalid("challenge: is not of this account, or is older than five minutes; begin again")
        made = self._made_in(answer, sealed)
        if not await tx.browser_sessions.use_up(tokens.digest(sealed.challenge), sealed.ends_at):
            raise Invalid("challenge: was used before; begin again")
        if len(await tx.passkeys.of(person.id)) >= MAX_PASSKEYS:
            raise Conflict(f"Remove a passkey first: an account has at most {MAX_PASSKEYS}")
        name = visible(name.strip())[:_MAX_NAME_LENGTH] or "Passkey"
        passkey = Passkey(
            ids.new_id(), person.id, made.id, self._host, made.public_key, made.counter, name, tx.now, 0
        )
        if not await tx.passkeys.add(passkey):
            raise Conflict("Choose another authenticator: this passkey is known here already")
        await record_about_person(self._ctx, tx, Event.SECOND_FACTOR_ADDED, person, origin, {"passkey": name})
        if await tx.second_factors.codes(person.id):
            return []
        return await new_recovery_codes(self._ctx, tx, person)

    def _made_in(self, answer: PasskeyAnswer, sealed_challenge: SealedChallenge) -> NewCredential:
        try:
            return self._webauthn.read_added(
                sealed_challenge.challenge, answer.credential, answer.client_data, answer.attestation
            )
        except PasskeyRefused as error:
            _log.warning("a passkey is refused: %s", error)
            raise Invalid("attestation: was not made by an authenticator for this server") from error

    async def check(
        self, answer: PasskeyAnswer, purpose: str, person: Person | None = None
    ) -> CheckedPasskey:
        """Checks the signature of an authenticator. Raises Unauthorized.

        `person`: who must have the passkey, if that is known already.
        """
        sealed = self._open(answer.challenge, purpose)
        passkey = await self._ctx.store.reads.passkeys.with_credential(answer.credential)
        wanted = person.id if person else ""
        if sealed is None or passkey is None or sealed.person != wanted:
            raise Unauthorized(WRONG_PASSKEY)
        if wanted and passkey.person != wanted:
            raise Unauthorized(WRONG_PASSKEY)
        try:
            counter = self._webauthn.read_signed(
                sealed.challenge,
                passkey.public_key,
                answer.credential,
                answer.client_data,
                answer.authenticator_data,
                answer.signature,
                verify_user=purpose == SIGN_IN,
            )
        except PasskeyRefused as error:
            _log.warning("a passkey is refused: %s", error)
            raise Unauthorized(WRONG_PASSKEY) from error
        return CheckedPasskey(passkey, counter, sealed)

    async def use(self, tx: Tx, checked: CheckedPasskey) -> None:
        """Uses up the challenge and the counter. Raises Unauthorized."""
        passkey, sealed = checked.passkey, checked.sealed
        now = await tx.passkeys.with_credential(passkey.credential)
        is_first = await tx.browser_sessions.use_up(tokens.digest(sealed.challenge), sealed.ends_at)
        if now is None or now.id != passkey.id or not is_first:
            raise Unauthorized(WRONG_PASSKEY)
        if not await tx.passkeys.use(passkey.id, checked.counter):
            _log.warning("a passkey sent a counter that was used before: is there a copy of it?")
            raise Unauthorized(WRONG_PASSKEY)

    def _seal(self, purpose: str, person: str, question: PasskeyQuestion) -> PasskeyChallenge:
        content = SealedChallenge(
            purpose, person, question.challenge, self._ctx.clock.now() + _CHALLENGE_LIFETIME
        )
        sealed = self._ctx.encryption.encrypt(msgspec.json.encode(content), *_SEAL_OWNER)
        return PasskeyChallenge(to_base64url(sealed), msgspec.Raw(question.options))

    def _open(self, challenge: str, purpose: str) -> SealedChallenge | None:
        try:
            sealed = self._ctx.encryption.decrypt(from_base64url(challenge), *_SEAL_OWNER)
            content = msgspec.json.decode(sealed, type=SealedChallenge)
        except (ValueError, CannotDecrypt, msgspec.DecodeError):
            return None
        return content if content.purpose == purpose and content.ends_at > self._ctx.clock.now() else None
