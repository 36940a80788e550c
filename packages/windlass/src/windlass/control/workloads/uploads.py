"""Uploads as a source for builds, identified by the digest of their content."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from windlass.base.errors import Conflict, Invalid, Missing
from windlass.base.subprocesses import in_thread
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.core.declare.spec import Base
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.progress import ChosenVersion, CommitRecord
from windlass.families.upload import READY, UploadShown, upload
from windlass.sources.git import Limits
from windlass.sources.upload import UploadError, unpack
from windlass.store import Reads, Row

_MAX_UNPACKED_FACTOR = 8
"""Factor by which the limit for a folder exceeds the limit for its archive."""


def limits_of(settings: Settings) -> Limits:
    return Limits(bytes=_MAX_UNPACKED_FACTOR * settings.upload_bytes, files=settings.upload_files)


async def ready_uploads(reads: Reads, service: str) -> list[Row]:
    """Returns the complete uploads of a service, the newest first."""
    rows = await reads.resources.of_parent(service, upload.name)
    return [row for row in reversed(rows) if row.read(UploadShown).state == READY]


async def find_upload(reads: Reads, service: str, commit: str | None) -> Row | None:
    """Returns the newest upload whose digest begins with `commit`; None if there is none. Without `commit`,
    returns the newest upload."""
    for row in await ready_uploads(reads, service):
        if str(row.read(UploadShown).git_commit_id).startswith((commit or "").lower()):
            return row
    return None


def commit_of(row: Row) -> CommitRecord:
    """Returns an upload as the commit that its deployments show."""
    shown = row.read(UploadShown)
    return CommitRecord(
        git_commit_id=str(shown.git_commit_id),
        created_at=row.read(Base).created_at,
        message=f"Uploaded folder with {shown.files} file{'s' if shown.files != 1 else ''}",
    )


async def with_upload(reads: Reads, service: Row, version: ChosenVersion) -> ChosenVersion:
    """Returns a version with the digest of its upload: the requested upload, or else the newest one."""
    if version.upload:
        row = await _named_upload(reads, service, version.upload, version)
    else:
        row = await find_upload(reads, service.id, version.git_commit_id) or _refuse(service, version)
    return replace(version, git_commit_id=commit_of(row).git_commit_id)


async def _named_upload(reads: Reads, service: Row, id: str, version: ChosenVersion) -> Row:
    if version.git_commit_id:
        raise Invalid("upload_id: leave out either this or git_commit_id")
    row = await reads.resources.find(upload.name, id)
    if row is None or row.parent != service.id:
        raise Missing("upload_id: choose an upload of this application: it has none with this id")
    if row.read(UploadShown).state != READY:
        raise Conflict("upload_id: complete the upload first")
    return row


def _refuse(service: Row, version: ChosenVersion) -> NoReturn:
    name = service.read(NamedDocument).name
    if version.git_commit_id:
        raise Conflict(f"git_commit_id: choose a version that is kept, or upload the folder of {name} again")
    raise Conflict(f"Upload a folder first, with `windlass up`: {name} has no upload that is complete")


async def unpack_upload(ctx: Context, row: Row, destination: Path) -> None:
    """Unpacks an upload into a new folder. Raises UploadError."""
    if not ctx.uploads.has(row):
        raise UploadError(
            "Upload the folder again: its archive is not at this server. It is on the server that received "
            "it, or was removed with the data directory"
        )
    content = await in_thread(unpack, ctx.uploads.path(row), destination, limits_of(ctx.settings))
    if content.id != row.read(UploadShown).git_commit_id:
        raise UploadError("Upload the folder again: its archive was changed on the disk of the server")
