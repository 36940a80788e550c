"""The second factor: codes of an authenticator app (TOTP, RFC 6238), and recovery codes for a person who has
lost the app. Passkeys are second factors too; see `passkeys`.

A code is marked as used in the transaction that opens the session, and only if no code of the same or a
later time step was used before. So an observed code does not work again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from windlass.base.clock import SECOND
from windlass.base.errors import Conflict, Invalid, Unauthorized
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.people.people import record_about_person
from windlass.core.words.events import Event
from windlass.store import Reads, Tx
from windlass.store.tables.people import Person
from windlass.store.tables.sealed import SECOND_FACTOR
from windlass.store.tables.second_factors import SecondFactor

STEP_SECONDS: Final = 30
_CODE_DIGITS: Final = 6
_MAX_STEPS_OFF: Final = 1
"""Steps by which the clock of the app may be off."""
_SECRET_BYTES: Final = 20
_RECOVERY_CODES: Final = 10
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
_LABEL: Final = b"recovery code"
WRONG_CODE: Final = (
    "Check the code: send the present one of the authenticator app, or a recovery code that was not used yet"
)


class FactorSetup(Struct, frozen=True):
    """What an authenticator app needs."""

    secret: str
    uri: str


async def has_factor(reads: Reads, person: str) -> bool:
    return await has_app(reads, person) or await reads.passkeys.has(person)


async def has_app(reads: Reads, person: str) -> bool:
    factor = await reads.second_factors.get(person)
    return factor is not None and bool(factor.is_confirmed)


async def begin_factor(ctx: Context, tx: Tx, person: Person) -> FactorSetup:
    """Makes a secret, which is valid once a code of the app was sent. Keeps one that waits for this
    already, so that a page may be loaded again."""
    factor = await tx.second_factors.get(person.id)
    if factor is not None and factor.is_confirmed:
        raise Conflict("Remove the present second factor first")
    if factor is None:
        owner = SECOND_FACTOR.owner(person=person.id)
        sealed = ctx.encryption.encrypt(secrets.token_bytes(_SECRET_BYTES), *owner)
        factor = SecondFactor(person.id, sealed, 0, 0, tx.now)
        await tx.second_factors.replace(factor)
    return _setup(ctx, person, _secret_of(ctx, factor))


def _setup(ctx: Context, person: Person, secret: bytes) -> FactorSetup:
    text = base64.b32encode(secret).decode().rstrip("=")
    issuer = f"Windlass {urlsplit(ctx.settings.url).hostname or ''}".strip()
    label = quote(f"{issuer}:{person.email}", safe="")
    query = urlencode({"secret": text, "issuer": issuer}, quote_via=quote)
    return FactorSetup(text, f"otpauth://totp/{label}?{query}")


async def confirm_factor(ctx: Context, tx: Tx, person: Person, code: str, origin: Origin) -> list[str]:
    """Makes the second factor valid with a code of the app. Returns the recovery codes, which are shown
    only now."""
    factor = await tx.second_factors.get(person.id)
    if factor is None or factor.is_confirmed:
        raise Conflict("Add the second factor again: none waits for a code")
    if not await _use_step(ctx, tx, factor, code):
        raise Invalid("second_factor: is not the present code of the authenticator app")
    await tx.second_factors.confirm(person.id)
    await record_about_person(ctx, tx, Event.SECOND_FACTOR_ADDED, person, origin, {})
    return await new_recovery_codes(ctx, tx, person)


async def new_recovery_codes(ctx: Context, tx: Tx, person: Person) -> list[str]:
    """Makes recovery codes, which replace earlier ones."""
    codes = ["-".join(_word() for _ in range(2)) for _ in range(_RECOVERY_CODES)]
    await tx.second_factors.replace_codes(person.id, [_digest(ctx, person.id, code) for code in codes])
    return codes


async def require_code(ctx: Context, tx: Tx, person: Person, code: str, origin: Origin) -> None:
    """Uses up a code of the app, or a recovery code. Raises Unauthorized."""
    factor = await tx.second_factors.get(person.id)
    if factor is not None and factor.is_confirmed and await _use_step(ctx, tx, factor, code):
        return
    if not await tx.second_factors.take_code(person.id, _digest(ctx, person.id, code)):
        raise Unauthorized(WRONG_CODE)
    left = await tx.second_factors.codes(person.id)
    await record_about_person(ctx, tx, Event.RECOVERY_CODE_USED, person, origin, {"left": left})


async def remove_app(ctx: Context, tx: Tx, person: Person, origin: Origin) -> None:
    """Removes the authenticator app. The recovery codes stay as long as there are passkeys."""
    if await tx.second_factors.get(person.id) is not None:
        await tx.second_factors.delete_app(person.id)
        await forget_unneeded_codes(tx, person)
        await record_about_person(ctx, tx, Event.SECOND_FACTOR_REMOVED, person, origin, {})


async def remove_factors(ctx: Context, tx: Tx, person: Person, origin: Origin) -> None:
    """Removes the authenticator app and all passkeys."""
    if await has_factor(tx, person.id):
        await record_about_person(ctx, tx, Event.SECOND_FACTOR_REMOVED, person, origin, {})
    await tx.second_factors.delete_of(person.id)


async def remove_other_passkeys(ctx: Context, tx: Tx, person: Person, kept_id: str, origin: Origin) -> None:
    """Removes all passkeys but one, or all of them."""
    for passkey in await tx.passkeys.of(person.id):
        if passkey.id != kept_id:
            await tx.passkeys.remove(person.id, passkey.id)
            data = {"passkey": passkey.name}
            await record_about_person(ctx, tx, Event.SECOND_FACTOR_REMOVED, person, origin, data)
    await forget_unneeded_codes(tx, person)


async def forget_unneeded_codes(tx: Tx, person: Person) -> None:
    if not await has_factor(tx, person.id):
        await tx.second_factors.delete_codes(person.id)


async def _use_step(ctx: Context, tx: Tx, factor: SecondFactor, code: str) -> bool:
    """Uses up a code of the app. Returns False if it is wrong, or was used before."""
    sent = "".join(code.split())
    if len(sent) != _CODE_DIGITS or not sent.isascii() or not sent.isdigit():
        return False
    secret, now = _secret_of(ctx, factor), ctx.clock.now() // SECOND // STEP_SECONDS
    for step in range(now - _MAX_STEPS_OFF, now + _MAX_STEPS_OFF + 1):
        if hmac.compare_digest(code_at(secret, step), sent):
            return await tx.second_factors.use(factor.person, step)
    return False


def code_at(secret: bytes, step: int) -> str:
    """Returns the code of a step of time (RFC 4226, section 5.3)."""
    digest = hmac.new(secret, step.to_bytes(8, "big"), hashlib.sha1).digest()
    offset = digest[-1] & 0xF
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**_CODE_DIGITS:0{_CODE_DIGITS}d}"


def _secret_of(ctx: Context, factor: SecondFactor) -> bytes:
    return ctx.encryption.decrypt(factor.sealed, *SECOND_FACTOR.owner(person=factor.person))


def _word() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(5))


def _digest(ctx: Context, person: str, code: str) -> str:
    """Returns the keyed digest of a recovery code, which has too few characters for a plain one."""
    letters = "".join(letter for letter in code.lower() if letter.isalnum())
    return ctx.encryption.mark(_LABEL, person.encode(), letters.encode())
