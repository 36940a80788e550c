"""Certificates of domains, and orders for the next ones. The tables are `certificate` and `acme_order`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.store.nudges import certificate_topic
from windlass.store.tables.table import ChangeSession, Table, columns, places


class CertificateRow(Struct, frozen=True, gc=False):
    id: str
    """The id of the domain."""
    org: str
    service: str
    name: str
    """The domain in ASCII form."""
    chain: str
    """The certificate and its chain in PEM."""
    sealed: bytes
    """The private key in PEM."""
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal."""
    since: int
    expires: int
    renew: int
    """When the next certificate is ordered."""
    origin: str
    """Where it is from: an authority (ACME), or a user (UPLOADED, or REMOVED while it is replaced)."""


class OrderRow(Struct, frozen=True, gc=False):
    """The open order of a domain, or the failures of former ones."""

    id: str
    """The id of the domain."""
    org: str
    service: str
    name: str
    authority: str
    """The directory of the authority."""
    url: str = ""
    """The address of the open order; empty if none is open."""
    sealed: bytes | None = None
    """The private key of the certificate to come, in PEM."""
    challenge: str = ""
    """The type of the challenge that is answered; empty if none is."""
    path: str = ""
    """The path of the challenge that every gateway answers; empty if none is answered."""
    answer: str = ""
    since: int = 0
    failures: int = 0
    message: str = ""
    """The last refusal, in the words of the authority."""
    due: int = 0
    """When the next order may be placed after a failure."""


class EndingCertificate(Struct, frozen=True, gc=False):
    """A certificate that is not renewed, and needs an operator or its user."""

    name: str
    expires: int
    message: str
    """The last refusal of the authority; empty if there is none."""


RENEWAL_GRACE_MILLISECONDS: Final = 24 * 3600 * 1000
"""How long the renewal of a certificate may be due before it counts as failing."""
UPLOAD_WARNING_MILLISECONDS: Final = 21 * 24 * 3600 * 1000
"""How long before its end an uploaded certificate, which nothing renews, is reported."""
_CERTIFICATE: Final = columns(CertificateRow)
_ORDER: Final = columns(OrderRow)
GET: Final = f"SELECT {_CERTIFICATE} FROM certificate WHERE id = $1"
FINGERPRINTS: Final = "SELECT id, fingerprint FROM certificate"
VALID_NAMES_OF_SERVICE: Final = "SELECT name FROM certificate WHERE service = $1 AND expires > $2"
ENDING: Final = """
SELECT certificate.name, certificate.expires, COALESCE(acme_order.message, '') AS message
FROM certificate LEFT JOIN acme_order ON acme_order.id = certificate.id
WHERE certificate.origin = 'ACME' AND certificate.renew < $1
    OR certificate.origin <> 'ACME' AND certificate.expires < $2
ORDER BY certificate.expires, certificate.name"""
SET: Final = f"""
INSERT INTO certificate ({_CERTIFICATE}) VALUES ({places(len(CertificateRow.__struct_fields__))})
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, chain = excluded.chain, sealed = excluded.sealed,
    fingerprint = excluded.fingerprint, since = excluded.since, expires = excluded.expires,
    renew = excluded.renew, origin = excluded.origin"""
RENEW_AT: Final = "UPDATE certificate SET renew = $1 WHERE id = $2"
DELETE: Final = "DELETE FROM certificate WHERE id = $1 OR service = $2 RETURNING id"
GET_ORDER: Final = f"SELECT {_ORDER} FROM acme_order WHERE id = $1"
CHALLENGES: Final = f"SELECT {_ORDER} FROM acme_order WHERE challenge <> ''"
SET_ORDER: Final = f"""
INSERT INTO acme_order ({_ORDER}) VALUES ({places(len(OrderRow.__struct_fields__))})
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, authority = excluded.authority, url = excluded.url, sealed = excluded.sealed,
    challenge = excluded.challenge, path = excluded.path, answer = excluded.answer,
    since = excluded.since, failures = excluded.failures,
    message = excluded.message, due = excluded.due"""
DELETE_ORDER: Final = "DELETE FROM acme_order WHERE id = $1 OR service = $2 RETURNING id"


class DomainCertificateTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> CertificateRow | None:
        row = await self._session.one(GET, id)
        return _certificate(row) if row else None

    async def fingerprints(self) -> dict[str, str]:
        """Returns the fingerprints of all certificates, by domain."""
        return {str(id): str(fingerprint) for id, fingerprint in await self._session.all(FINGERPRINTS)}

    async def live(self, service: str, now: int) -> set[str]:
        """Returns the names of a service that have a certificate which is valid."""
        return {str(name) for (name,) in await self._session.all(VALID_NAMES_OF_SERVICE, service, now)}

    async def ending(self, now: int) -> list[EndingCertificate]:
        """Returns the certificates whose renewal fails, and uploaded ones that end soon, the first to end
        first."""
        limits = now - RENEWAL_GRACE_MILLISECONDS, now + UPLOAD_WARNING_MILLISECONDS
        return [EndingCertificate(*row) for row in await self._session.all(ENDING, *limits)]

    async def order(self, id: str) -> OrderRow | None:
        row = await self._session.one(GET_ORDER, id)
        return _order(row) if row else None

    async def challenges(self) -> list[OrderRow]:
        """Returns the orders whose challenges are answered now."""
        return [_order(row) for row in await self._session.all(CHALLENGES)]


class DomainCertificateChanges(DomainCertificateTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, row: CertificateRow) -> None:
        await self._session.all(SET, *msgspec.structs.astuple(row))
        self._session.nudge(certificate_topic(row.id))

    async def renew_at(self, id: str, timestamp: int) -> None:
        await self._session.all(RENEW_AT, timestamp, id)

    async def set_order(self, row: OrderRow) -> None:
        await self._session.all(SET_ORDER, *msgspec.structs.astuple(row))
        self._session.nudge(certificate_topic(row.id))

    async def delete_order(self, id: str) -> None:
        """Removes the order of a domain, and keeps its certificate."""
        for (removed,) in await self._session.all(DELETE_ORDER, id, id):
            self._session.nudge(certificate_topic(str(removed)))

    async def delete_of(self, id: str) -> None:
        """Removes the certificate and the order of a domain, or those of all domains of a service."""
        for statement in (DELETE, DELETE_ORDER):
            for (removed,) in await self._session.all(statement, id, id):
                self._session.nudge(certificate_topic(str(removed)))


def _certificate(row: Sequence[Any]) -> CertificateRow:
    id, org, service, name, chain, sealed, fingerprint, since, expires, renew, origin = row
    key = bytes(sealed)
    return CertificateRow(id, org, service, name, chain, key, fingerprint, since, expires, renew, origin)


def _order(row: Sequence[Any]) -> OrderRow:
    order = OrderRow(*row)
    return replace(order, sealed=bytes(order.sealed)) if order.sealed is not None else order
