"""Lists the people with a password, and makes links with which they choose a new one."""

from __future__ import annotations

from msgspec import Struct

from windlass.base.clock import SystemClock, stamp
from windlass.config import Settings
from windlass.control.people.callers import OWN_ISSUER
from windlass.control.people.operator_links import leave_operator_link, record_operator_link
from windlass.control.people.password_links import (
    RESET,
    RESET_ALL,
    address_of,
    make_link,
    stored,
    url_in_console,
)
from windlass.install.composition import open_store
from windlass.install.database import reading_snapshot
from windlass.install.ownership import check
from windlass.store import Reads, Tx
from windlass.store.tables.people import Person
from windlass.terminal.command_errors import CommandRefused


class ListedPerson(Struct, frozen=True):
    email: str
    name: str
    organizations: int
    password_changed_at: str


class MadeLink(Struct, frozen=True):
    email: str
    url: str
    expires_at: str


async def list_people(settings: Settings) -> list[ListedPerson]:
    async with reading_snapshot(settings) as line:
        reads = Reads(line)
        return [
            ListedPerson(
                person.email,
                person.name,
                len(await reads.identities.of(OWN_ISSUER, person.id)),
                stamp(person.changed),
            )
            for person in await reads.people.all()
        ]


async def make_reset_link(settings: Settings, email: str, *, second_factor: bool = False) -> MadeLink:
    """Makes a link with which a person sets a new password. In PostgreSQL, stores it at once. Only the
    running server writes an SQLite database: it stores the link when it is opened."""
    await check(settings)
    if not settings.takes_passwords:
        raise CommandRefused(
            "set public_url to an address with https, or passwords to always: at the address of this "
            "server, nobody can sign in with a password"
        )
    person = await _find(settings, email)
    clock = SystemClock()
    link = make_link(RESET_ALL if second_factor else RESET, person.id, clock.now())
    if settings.database_url:
        store = await open_store(settings, clock)
        try:

            async def change(tx: Tx) -> None:
                await tx.people.add_link(stored(link, tx.now))
                await record_operator_link(tx, person)

            await store.write(change)
        finally:
            await store.close()
    else:
        leave_operator_link(settings, stored(link, clock.now()))
    return MadeLink(person.email, url_in_console(settings.url, link), stamp(link.ends))


async def _find(settings: Settings, email: str) -> Person:
    async with reading_snapshot(settings) as line:
        person = await Reads(line).people.at(address_of(email.strip()))
    if person is None:
        raise CommandRefused(
            f"choose an address of `windlass user list`: nobody with the address {email} has a password here"
        )
    return person
