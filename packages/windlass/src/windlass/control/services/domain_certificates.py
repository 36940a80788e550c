"""Certificates of domains that users upload, in place of those of an authority."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from windlass.base.certificates import BadCertificate, ReadCertificate
from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Invalid
from windlass.base.uploaded_certificates import check_upload, issuer_of
from windlass.control.context.call import Call, Reply, encode, prepares, reads, writes
from windlass.control.context.context import Context
from windlass.control.records.domains import (
    DOMAIN_WORK,
    ORDERED_ORIGIN,
    REMOVED_ORIGIN,
    UPLOADED_ORIGIN,
    StoredDomain,
    change_document,
    live_certificate,
    no_certificate,
)
from windlass.control.records.recording import record
from windlass.control.request.paths import target
from windlass.control.request.reading import in_dialect
from windlass.core.words.events import Event
from windlass.families.domain import CertificateShown, CertificateUpload, domain
from windlass.routers.builtin.tls_contexts import make_context
from windlass.routers.router import Certificate
from windlass.store import CERTIFICATE_KEY, CertificateRow, Row, Tx, route_topic

_READ: Final = "certificate"
"""The prepared value with the certificate that was read."""


@reads("domain.readCertificate")
async def read_facts(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    row = await target(source, call)
    stored = await source.certificates.get(row.id)
    if stored is None:
        return Reply(encode(CertificateShown()))
    shown = CertificateShown(
        origin="ACME" if stored.origin == ORDERED_ORIGIN else "UPLOADED",
        names=[stored.name],
        issuer=issuer_of(stored.chain),
        fingerprint=stored.fingerprint,
        stored_at=stamp(stored.since),
        expires_at=stamp(stored.expires),
    )
    return Reply(encode(shown))


@prepares("domain.uploadCertificate")
async def check(ctx: Context, call: Call) -> None:
    row = await target(ctx.store.reads, call)
    sent, name = call.sent(CertificateUpload), row.read(StoredDomain).name
    try:
        call.prepared[_READ] = await asyncio.to_thread(_read, sent, name, ctx.clock.now())
    except BadCertificate as error:
        raise Invalid(f"chain: {error}") from error


def _read(upload: CertificateUpload, name: str, now: int) -> ReadCertificate:
    """Reads a certificate that the gateway can serve. Raises BadCertificate."""
    read = check_upload(upload.chain, upload.key, name, now)
    try:
        make_context(Certificate((name,), read.chain.encode(), read.key))
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise BadCertificate(
            f"send another certificate: OpenSSL does not serve this one: {reason}"
        ) from error
    return read


@writes("domain.uploadCertificate")
async def upload(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    stored, read = row.read(StoredDomain), call.prepared[_READ]
    assert isinstance(read, ReadCertificate)
    if stored.state != "PROVED":
        raise Conflict(
            "Make a record that proves the domain first: until then, another service may serve it, and its "
            "visitors must not get this certificate"
        )
    await tx.certificates.delete_of(row.id)
    await tx.certificates.set(
        CertificateRow(
            id=row.id,
            org=row.org,
            service=row.parent,
            name=stored.name,
            chain=read.chain,
            sealed=ctx.encryption.encrypt(read.key, *CERTIFICATE_KEY.owner(id=row.id)),
            fingerprint=read.fingerprint,
            since=tx.now,
            expires=read.expires,
            renew=read.expires,
            origin=UPLOADED_ORIGIN,
        )
    )
    return await _change(ctx, tx, call, row, live_certificate(read.expires, UPLOADED_ORIGIN))


@writes("domain.removeCertificate")
async def remove(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    stored, certificate = row.read(StoredDomain), await tx.certificates.get(row.id)
    if certificate is None or certificate.origin != UPLOADED_ORIGIN:
        raise Conflict("Upload a certificate first: there is none that could be removed")
    if stored.generate_certificate:
        # It is served until the one that is ordered now has taken its place.
        await tx.certificates.set(replace(certificate, origin=REMOVED_ORIGIN, renew=tx.now))
        return await _change(ctx, tx, call, row, {"problem": ""})
    await tx.certificates.delete_of(row.id)
    return await _change(ctx, tx, call, row, {"certificate_state": "NONE", "problem": "", **no_certificate()})


async def _change(ctx: Context, tx: Tx, call: Call, row: Row, fields: dict[str, object]) -> Reply:
    """Changes the document of a domain, and lets the domain be looked at."""
    await change_document(tx, row, fields)
    present = await tx.resources.find(domain.name, row.id)
    assert present is not None
    tx.nudge(route_topic(row.parent))
    await tx.work.schedule(DOMAIN_WORK, row.id, org=row.org)
    await record(ctx, tx, Event.UPDATED, present, call.actor, call, old_body=row.body, new_body=present.body)
    return Reply(in_dialect(call, present.body), present.tag)
