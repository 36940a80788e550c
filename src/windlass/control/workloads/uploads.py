"""Uploads as a source of builds, found by the digest of their content."""

from __future__ import annotations

from pathlib import Path

from windlass.base.subprocesses import in_thread
from windlass.builders.git import Limits
from windlass.builders.upload import UploadError, unpack
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.core.declare.spec import Base
from windlass.core.deploy.progress import CommitRecord
from windlass.families.upload import READY, UploadShown, upload
from windlass.store import Reads, Row

_RATIO = 8
"""Times that a folder may be larger than its archive may be."""


def limits_of(settings: Settings) -> Limits:
    return Limits(bytes=_RATIO * settings.upload_bytes, files=settings.upload_files)


async def ready_uploads(source: Reads, service: str) -> list[Row]:
    """Returns the complete uploads of a service, the newest first."""
    rows = await source.resources.of_parent(service, upload.name)
    return [row for row in reversed(rows) if row.read(UploadShown).state == READY]


async def find_upload(source: Reads, service: str, commit: str | None) -> Row | None:
    """Returns the upload whose digest begins so; without any, the newest."""
    for row in await ready_uploads(source, service):
        if str(row.read(UploadShown).git_commit_id).startswith((commit or "").lower()):
            return row
    return None


def commit_of(row: Row) -> CommitRecord:
    """Returns the version that deployments of an upload show."""
    shown = row.read(UploadShown)
    return CommitRecord(
        git_commit_id=str(shown.git_commit_id),
        created_at=row.read(Base).created_at,
        message=f"Uploaded folder with {shown.files} file{'s' if shown.files != 1 else ''}",
    )


async def unpack_upload(ctx: Context, row: Row, into: Path) -> None:
    """Unpacks an upload into a new folder. Raises UploadError."""
    if not ctx.uploads.has(row.id):
        raise UploadError(
            "Upload the folder again: its archive is not at this server. It lies at the server that received "
            "it, or was removed with the data directory"
        )
    content = await in_thread(unpack, ctx.uploads.path(row.id), into, limits_of(ctx.settings))
    if content.id != row.read(UploadShown).git_commit_id:
        raise UploadError("Upload the folder again: its archive was changed on the disk of the server")
