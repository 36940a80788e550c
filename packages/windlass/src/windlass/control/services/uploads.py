"""Uploads: received in parts, completed, and removed when unused. Their archives are stored on the server
that builds them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from windlass.base.clock import DAY, HOUR, SECOND, stamp
from windlass.base.errors import Conflict, Invalid, TooLarge
from windlass.base.subprocesses import in_thread
from windlass.control.context.call import Call, Reply, prepares, writes
from windlass.control.context.context import Context
from windlass.control.context.upload_files import StoredUpload
from windlass.control.records.disk_shares import refuse_above_share
from windlass.control.records.kept_builds import kept_commits
from windlass.control.records.reachability import check_here
from windlass.control.request.behaviour import Behaviour, Draft, behaves
from windlass.control.request.paths import parent_of, target
from windlass.control.request.reading import in_dialect
from windlass.control.workloads.uploads import limits_of, ready_uploads
from windlass.core.declare.spec import Base
from windlass.core.declare.stored import rewritten
from windlass.families.upload import OPEN, READY, ContentPart, Upload, UploadShown, upload
from windlass.sources.git import Limits
from windlass.sources.upload import FolderContent, UploadError, examine
from windlass.store import Reads, Row, Tx

MAX_OPEN_UPLOADS: Final = 10
"""Maximum number of incomplete uploads of one application."""
UPLOAD_RETENTION: Final = DAY
"""Time without progress after which an unneeded upload is removed."""
USED_WITHIN: Final = HOUR
"""Time for which a complete upload is kept to be deployed, even if space is needed."""
_BATCH_BYTES: Final = 1024 * 1024
_OFFSET_HEADER: Final = "upload-offset"


@prepares("upload.create")
async def make_room(ctx: Context, call: Call) -> None:
    """Checks that this server builds the application and has disk space. Removes the oldest unneeded uploads
    if the application would exceed its limit."""
    parent = await parent_of(ctx.store.reads, call)
    await check_here(ctx, parent.id)
    await refuse_above_share(ctx.store.reads, parent.org, ctx.ownership.place)
    size, settings = call.sent(Upload).size, ctx.settings
    if size > min(settings.upload_bytes, settings.upload_kept_bytes):
        return  # the upload is refused later, so no other upload is removed for it
    ages = await in_thread(ctx.uploads.all)
    rows = await ctx.store.reads.resources.of_parent(parent.id, upload.name)
    excess = _sizes(rows) + size - ctx.settings.upload_kept_bytes
    for row in rows:
        age = ages.get(StoredUpload(parent.id, row.id), 0.0)
        is_old = row.read(UploadShown).state == READY and age * SECOND >= USED_WITHIN
        if excess > 0 and is_old and not await _is_needed(ctx, row):
            await ctx.store.write(partial(_forget, row))
            await in_thread(ctx.uploads.remove, row)
            excess -= row.read(Upload).size
    await in_thread(ctx.uploads.check_room, size)


def _sizes(rows: Iterable[Row]) -> int:
    """Returns the total bytes of uploads. Incomplete uploads count with their announced size."""
    return sum(row.read(Upload).size for row in rows)


@behaves(upload)
class Uploads(Behaviour[Upload]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Upload]) -> None:
        most = ctx.settings.upload_bytes
        if draft.spec.size > most:
            raise TooLarge(
                f"size: send at most {most} bytes, leave out files that the application does not need, or "
                "ask the operator for more upload_bytes"
            )
        if await _count_open(tx, draft.above.id) >= MAX_OPEN_UPLOADS:
            raise Conflict(
                f"Complete or delete an upload first: {MAX_OPEN_UPLOADS} of this application are open"
            )
        most = ctx.settings.upload_kept_bytes
        if _sizes(await tx.resources.of_parent(draft.above.id, upload.name)) + draft.spec.size > most:
            raise Conflict(
                "Delete an upload of this application first, or ask the operator for more upload_kept_bytes: "
                f"with this one, they would have more than {most} bytes"
            )

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await _mark_deleted(tx, row)


async def _count_open(tx: Tx, application: str) -> int:
    """Returns the number of incomplete uploads. Removes those without progress, because the periodic sweep
    sees only uploads with an archive."""
    count, until = 0, stamp(tx.now - UPLOAD_RETENTION)
    for row in await tx.resources.of_parent(application, upload.name):
        if row.read(UploadShown).state != OPEN:
            continue
        if row.read(Base).updated_at < until:
            await _forget(row, tx)
        else:
            count += 1
    return count


async def receive_part(ctx: Context, call: Call, chunks: AsyncIterator[bytes], length: int | None) -> Reply:
    """Appends a part to the archive of an upload. Received bytes are kept even if the request is
    interrupted."""
    row = await _open_upload(ctx, call)
    spec, offset = row.read(Upload), call.asked(ContentPart).offset
    with ctx.uploads.writing(row) as file:
        if offset != file.size:
            raise Conflict(
                f"offset: continue at byte {file.size}: that many bytes have arrived",
                {_OFFSET_HEADER: str(file.size)},
            )
        if offset + (length or 0) > spec.size:
            raise _too_long(spec)
        try:
            async for piece in _batches(chunks):
                if file.size + len(piece) > spec.size:
                    raise _too_long(spec)
                await in_thread(file.append, piece)
        finally:
            await in_thread(file.sync)
            await ctx.point("part arrived")
            row = await _note(ctx, row, {"offset": file.size})
        return Reply(in_dialect(call, row.body), row.tag, headers={_OFFSET_HEADER: str(file.size)})


async def tell_offset(ctx: Context, call: Call) -> Reply:
    """Returns the number of received bytes of an upload, in a header."""
    row = await target(ctx.store.reads, call)
    await check_here(ctx, row.parent)
    return Reply(headers={_OFFSET_HEADER: str(ctx.uploads.size(row))})


@prepares("upload.complete")
async def check_content(ctx: Context, call: Call) -> None:
    """Checks a complete archive, which may take seconds, and stores a summary of its content."""
    row = await target(ctx.store.reads, call)
    await check_here(ctx, row.parent)
    if row.read(UploadShown).state == READY:
        return
    spec, has = row.read(Upload), ctx.uploads.size(row)
    if has < spec.size:
        raise Conflict(
            f"Send the rest first, from byte {has}: {has} of {spec.size} bytes have arrived",
            {_OFFSET_HEADER: str(has)},
        )
    application = await parent_of(ctx.store.reads, call)
    with ctx.uploads.writing(row):
        try:
            async with ctx.uploads.checking(row.org, application.parent):
                content = await in_thread(_examine, ctx.uploads.path(row), spec, limits_of(ctx.settings))
        except UploadError as error:
            # The received bytes are wrong, so the archive has to be sent again.
            await in_thread(ctx.uploads.remove, row)
            await _note(ctx, row, {"offset": 0})
            raise Invalid(str(error)) from error
        await ctx.point("upload checked")
        await _note(
            ctx,
            row,
            {"state": READY, "offset": spec.size, "git_commit_id": content.id, "files": content.files},
        )


@writes("upload.complete")
async def complete(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    return Reply(in_dialect(call, row.body), row.tag)


async def sweep_uploads(ctx: Context) -> None:
    """Removes uploads that are no longer needed, and the archives of deleted uploads. Archives that are
    unknown to this database are not touched."""
    for stored, age in (await in_thread(ctx.uploads.all)).items():
        row = await ctx.store.reads.resources.find(upload.name, stored.id)
        if row is not None and age * SECOND >= UPLOAD_RETENTION and not await _is_needed(ctx, row):
            await ctx.store.write(partial(_forget, row))
        if await _is_deleted(ctx.store.reads, stored):
            await in_thread(ctx.uploads.remove, stored)
            await in_thread(ctx.uploads.remove_folder, stored.parent)


async def _forget(row: Row, tx: Tx) -> None:
    await tx.remove(row)
    await _mark_deleted(tx, row)


async def _mark_deleted(tx: Tx, row: Row) -> None:
    """Adds a tombstone, which allows erasing the archive of an upload. An upload is on no cluster."""
    await tx.deletions.record(row.id, "")


async def _is_deleted(reads: Reads, upload: StoredUpload) -> bool:
    return any([await reads.deletions.is_deleted(id) for id in upload])


async def _is_needed(ctx: Context, row: Row) -> bool:
    """Returns whether an upload is the newest of its application, or belongs to a version that can be
    deployed again."""
    shown = row.read(UploadShown)
    if shown.state != READY:
        return False
    newest = (await ready_uploads(ctx.store.reads, row.parent))[:1]
    return row.id in {ready.id for ready in newest} or shown.git_commit_id in await kept_commits(
        ctx, row.parent
    )


async def _open_upload(ctx: Context, call: Call) -> Row:
    row = await target(ctx.store.reads, call)
    await check_here(ctx, row.parent)
    if row.read(UploadShown).state == READY:
        raise Conflict("Create another upload: this one is complete")
    return row


async def _batches(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields larger pieces made of several small ones, to reduce the number of disk writes."""
    held = bytearray()
    async for piece in chunks:
        held += piece
        if len(held) >= _BATCH_BYTES:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


async def _note(ctx: Context, row: Row, fields: dict[str, object]) -> Row:
    """Updates fields in the document of an upload."""

    async def write(tx: Tx) -> Row:
        current = await tx.resources.get(row.id)
        if current is None:
            return row
        body = rewritten(current.body, {**fields, "updated_at": stamp(tx.now)})
        await tx.resources.rewrite(row.id, body)
        return replace(current, body=body)

    return await ctx.store.write(write)


def _examine(archive: Path, spec: Upload, limits: Limits) -> FolderContent:
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != spec.sha256:
        raise UploadError("sha256: send the archive again: the bytes that arrived have another hash")
    return examine(archive, limits)


def _too_long(spec: Upload) -> TooLarge:
    return TooLarge(f"Send at most {spec.size} bytes in all, as `size` says", {"connection": "close"})
