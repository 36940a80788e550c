"""Which services of a preview have its commit or its tag, and which commit that is."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.control.context.context import Context
from windlass.control.records.previews import PreviewMark, StoredPreview
from windlass.control.services.git_webhooks import key_of_service
from windlass.control.workloads.images import is_named
from windlass.core.deploy.progress import ChosenVersion
from windlass.families.environment import environment
from windlass.families.preview import preview
from windlass.store import Reads, Row


async def is_shown(ctx: Context, reads: Reads, service: Row, stored_preview: StoredPreview) -> bool:
    """Returns whether a service in the environment of a preview has its commit or its tag."""
    if stored_preview.image_tag:
        image = ctx.kinds[service.family].image(service)
        return (
            image is not None
            and image.tag == stored_preview.image_tag
            and await is_named(reads, service.org, str(stored_preview.image_name), image)
        )
    return is_built_from(ctx, service, stored_preview)


def is_built_from(ctx: Context, service: Row, stored_preview: StoredPreview) -> bool:
    """Returns whether a service in the environment of a preview is built from its pull request."""
    repository = ctx.kinds[service.family].repository(service)
    if repository is None or repository.branch != stored_preview.head_branch:
        return False
    return bool(stored_preview.source_url and repository.url == stored_preview.source_url) or (
        key_of_service(ctx, service) == stored_preview.repository
    )


async def only_approved(ctx: Context, reads: Reads, service: Row, version: ChosenVersion) -> ChosenVersion:
    """Returns the version with the approved commit, if a service is built from a fork and the version names
    no commit: the newest one may wait for an approval."""
    if version.git_commit_id or version.upload or version.image_tag:
        return version
    home = await reads.resources.find(environment.name, service.parent)
    mark = home.read(PreviewMark).preview if home else None
    row = await reads.resources.find(preview.name, mark.id) if mark and mark.without_secrets else None
    stored = row.read(StoredPreview) if row else None
    if stored is None or not is_built_from(ctx, service, stored):
        return version
    return replace(version, git_commit_id=stored.approved_commit_id or None)
