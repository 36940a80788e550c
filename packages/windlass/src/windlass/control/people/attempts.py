"""Limits of attempts to sign in with a password. They are counted in the database, so that all replicas share
them.

Three limits apply to an attempt: one for the address of the client, one for the account from there, and
one for the account from everywhere. The third would allow strangers to lock a person out. Therefore a
browser that has signed this person in before is counted for itself, and not with the others: it has a
sealed cookie that says so ("device cookie").
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.clock import MINUTE, SECOND
from windlass.base.encryption import CannotDecrypt
from windlass.base.errors import TooMany
from windlass.control.context.context import Context
from windlass.store import Tx

ATTEMPTS_WINDOW: Final = 15 * MINUTE
FROM_ADDRESS: Final = 100
FOR_ACCOUNT_FROM_ADDRESS: Final = 10
FOR_ACCOUNT: Final = 100
FROM_KNOWN_BROWSER: Final = 20
RESETS_FOR_ACCOUNT: Final = 3
_SEAL_OWNER: Final = ("known-browser",)
_MAX_PEOPLE: Final = 5
_LABEL: Final = b"sign-in attempts"


class Limit(Struct, frozen=True):
    subject: str
    most: int


class KnownBrowser(Struct, frozen=True):
    """The content of the cookie of a browser in which people have signed in."""

    id: str
    people: tuple[str, ...]

    def with_person(self, person: str) -> KnownBrowser:
        others = [other for other in self.people if other != person]
        return KnownBrowser(self.id, (person, *others)[:_MAX_PEOPLE])


def account_subject(ctx: Context, address: str) -> str:
    """Returns the key of an account in the rate limits. It does not reveal the e-mail address. There may be
    no account with this address."""
    return f"password:{ctx.encryption.mark(_LABEL, address.encode())}"


def limits_of(account: str, client: str, browser: str) -> list[Limit]:
    """Returns the limits of an attempt. `client`: the address of the client; `browser`: id of the known
    browser, or empty."""
    from_client = Limit(f"password:{client}", FROM_ADDRESS)
    if browser:
        return [from_client, Limit(f"{account}:browser:{browser}", FROM_KNOWN_BROWSER)]
    return [
        from_client,
        Limit(f"{account}:{client}", FOR_ACCOUNT_FROM_ADDRESS),
        Limit(account, FOR_ACCOUNT),
    ]


async def take(tx: Tx, limits: Sequence[Limit]) -> int:
    """Counts an attempt. Returns 0, or the milliseconds until the next one if it is one too many; it then
    counts for none of the limits."""
    windows = []
    for limit in limits:
        opened, used = await tx.budgets.get(limit.subject) or (tx.now, 0)
        if tx.now >= opened + ATTEMPTS_WINDOW or opened > tx.now:
            opened, used = tx.now, 0
        if used >= limit.most:
            return opened + ATTEMPTS_WINDOW - tx.now
        windows.append((limit.subject, opened, used + 1))
    for window in windows:
        await tx.budgets.set(*window)
    return 0


async def take_or_refuse(ctx: Context, limits: Sequence[Limit]) -> None:
    """Counts an attempt before the password is checked. Otherwise, concurrent attempts would all pass."""
    if wait := await ctx.store.write(lambda tx: take(tx, limits)):
        seconds = -(-wait // SECOND)
        raise TooMany(
            f"Try again in {-(-seconds // 60)} minutes, or choose a new password with a link: there were "
            "too many attempts to sign in",
            {"retry-after": str(seconds)},
        )


async def forgive(tx: Tx, limits: Sequence[Limit]) -> None:
    """Forgets the attempts for an account after a success."""
    for limit in limits[1:2]:
        await tx.budgets.set(limit.subject, tx.now, 0)


def seal_browser(ctx: Context, browser: KnownBrowser) -> str:
    sealed = ctx.encryption.encrypt(msgspec.json.encode(browser), *_SEAL_OWNER)
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def read_browser(ctx: Context, cookie: str) -> KnownBrowser:
    """Returns what a browser is known for; a new browser if its cookie is missing or not ours."""
    try:
        sealed = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
        return msgspec.json.decode(ctx.encryption.decrypt(sealed, *_SEAL_OWNER), type=KnownBrowser)
    except (ValueError, CannotDecrypt, msgspec.DecodeError):
        return KnownBrowser(secrets.token_urlsafe(16), ())
