"""People who sign in with an e-mail address and a password, and the links with which they choose it."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables import passkeys, second_factors
from windlass.store.tables.table import ChangeSession, Table, columns, places


class Person(Struct, frozen=True, gc=False):
    id: str
    address: str
    """The e-mail address in the form in which addresses are compared."""
    email: str
    name: str
    password: str
    """The Argon2id hash of the password, with its parameters."""
    created: int
    changed: int
    """The time when the password was chosen."""


class PasswordLink(Struct, frozen=True, gc=False):
    digest: str
    purpose: str
    subject: str
    """The id of the invitation or of the person."""
    created: int
    ends: int


_PERSON: Final = columns(Person)
_LINK: Final = columns(PasswordLink)
GET: Final = f"SELECT {_PERSON} FROM person WHERE id = $1"
GET_BY_ADDRESS: Final = f"SELECT {_PERSON} FROM person WHERE address = $1"
ALL: Final = f"SELECT {_PERSON} FROM person ORDER BY address"
ADD: Final = f"INSERT INTO person ({_PERSON}) VALUES ({places(len(Person.__struct_fields__))})"
SET_PASSWORD: Final = "UPDATE person SET password = $1, changed = $2 WHERE id = $3"
REPLACE_PASSWORD_HASH: Final = "UPDATE person SET password = $1 WHERE id = $2 AND password = $3"
RENAME: Final = "UPDATE person SET name = $1 WHERE id = $2"
DELETE: Final = "DELETE FROM person WHERE id = $1"
DELETE_WITHOUT_MEMBERSHIP: Final = """
DELETE FROM person WHERE created < $1 AND NOT EXISTS (
    SELECT 1 FROM identity WHERE identity.issuer = $2 AND identity.subject = person.id)"""
DELETE_ORPHANED_FACTORS: Final = tuple(
    f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM person WHERE person.id = {table}.person)"
    for table in ("second_factor", "recovery_code", "passkey")
)
GET_LINK: Final = f"SELECT {_LINK} FROM password_link WHERE digest = $1 AND ends > $2"
ADD_LINK: Final = f"""
INSERT INTO password_link ({_LINK}) VALUES ({places(len(PasswordLink.__struct_fields__))})"""
TAKE_LINK: Final = f"DELETE FROM password_link WHERE digest = $1 AND ends > $2 RETURNING {_LINK}"
DELETE_LINKS: Final = "DELETE FROM password_link WHERE subject = $1"
DELETE_EXPIRED_LINKS: Final = "DELETE FROM password_link WHERE ends <= $1"


class PeopleTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> Person | None:
        row = await self._session.one(GET, id)
        return Person(*row) if row else None

    async def all(self) -> list[Person]:
        """Returns all people, ordered by e-mail address."""
        return [Person(*row) for row in await self._session.all(ALL)]

    async def at(self, address: str) -> Person | None:
        """Returns the person with this e-mail address."""
        row = await self._session.one(GET_BY_ADDRESS, address)
        return Person(*row) if row else None

    async def link(self, digest: str, now: int) -> PasswordLink | None:
        """Returns a valid link, and leaves it as it is."""
        row = await self._session.one(GET_LINK, digest, now)
        return PasswordLink(*row) if row else None


class PeopleChanges(PeopleTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, person: Person) -> None:
        await self._session.all(ADD, *msgspec.structs.astuple(person))

    async def set_password(self, id: str, password: str) -> None:
        await self._session.all(SET_PASSWORD, password, self._session.now, id)

    async def rehash(self, person: Person, password: str) -> None:
        """Stores another hash of the same password, unless the password was changed meanwhile."""
        await self._session.all(REPLACE_PASSWORD_HASH, password, person.id, person.password)

    async def rename(self, id: str, name: str) -> None:
        await self._session.all(RENAME, name, id)

    async def delete(self, id: str) -> None:
        """Removes a person, with the second factor and the links to choose a password."""
        await self._session.all(DELETE, id)
        for statement in (second_factors.DELETE, second_factors.DELETE_CODES, passkeys.DELETE_OF_PERSON):
            await self._session.all(statement, id)
        await self.delete_links(id)

    async def add_link(self, link: PasswordLink) -> None:
        """Adds a link, which replaces earlier ones for the same subject."""
        await self.delete_links(link.subject)
        await self._session.all(ADD_LINK, *msgspec.structs.astuple(link))

    async def take_link(self, digest: str) -> PasswordLink | None:
        """Removes a valid link and returns it, so that it can be used only once."""
        rows = await self._session.all(TAKE_LINK, digest, self._session.now)
        return PasswordLink(*rows[0]) if rows else None

    async def delete_links(self, subject: str) -> None:
        await self._session.all(DELETE_LINKS, subject)

    async def delete_expired(self, issuer: str, cutoff: int) -> None:
        """Removes links that have ended, and people who are not a member of any organization any more."""
        await self._session.all(DELETE_EXPIRED_LINKS, self._session.now)
        await self._session.all(DELETE_WITHOUT_MEMBERSHIP, cutoff, issuer)
        for statement in DELETE_ORPHANED_FACTORS:
            await self._session.all(statement)
