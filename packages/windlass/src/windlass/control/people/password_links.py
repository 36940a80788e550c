"""Links with which people choose a password: of an invitation, or for who has forgotten it.

A link works once. Its code is stored as a digest. The code is in the URL fragment, which browsers do not
send to servers, so that it appears in no log.
"""

from __future__ import annotations

import secrets
from typing import Final

from msgspec import Struct

from windlass.base import tokens
from windlass.base.clock import DAY, HOUR
from windlass.control.context.context import Context
from windlass.store import Tx
from windlass.store.tables.people import PasswordLink

INVITATION: Final = "INVITATION"
RESET: Final = "RESET"
RESET_ALL: Final = "RESET_ALL"
"""A link of the operator, which removes the second factor too."""
_LIFETIMES: Final = {INVITATION: 7 * DAY, RESET: 1 * HOUR, RESET_ALL: 1 * HOUR}


class NewLink(Struct, frozen=True):
    purpose: str
    subject: str
    code: str
    ends: int


async def new_link(tx: Tx, purpose: str, subject: str) -> NewLink:
    """Creates a link for an invitation or a person. It replaces earlier ones."""
    link = make_link(purpose, subject, tx.now)
    await tx.people.add_link(stored(link, tx.now))
    return link


def make_link(purpose: str, subject: str, now: int) -> NewLink:
    return NewLink(purpose, subject, secrets.token_urlsafe(32), now + _LIFETIMES[purpose])


def stored(link: NewLink, now: int) -> PasswordLink:
    return PasswordLink(tokens.digest(link.code), link.purpose, link.subject, now, link.ends)


def url_of_link(ctx: Context, link: NewLink) -> str:
    return url_in_console(ctx.settings.url, link)


def url_in_console(url: str, link: NewLink) -> str:
    page = f"invitation/{link.subject}" if link.purpose == INVITATION else ""
    return f"{url}/console/{page}#password={link.code}"


def address_of(email: str) -> str:
    """Returns an address for comparison, with lower case ASCII letters. Other letters stay as they are,
    because Unicode maps, for example, the Kelvin sign to k."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in email)
