"""Previews of a new tag of an image, in all environments of an organization that have previews on."""

from __future__ import annotations

from windlass.base.clock import stamp
from windlass.base.errors import Forbidden
from windlass.control.context.call import Call, Reply, encode, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.records.previews import (
    PreviewMark,
    StoredPreview,
    change_preview,
    life_from,
    previews_of,
    tend_soon,
)
from windlass.control.records.recording import record
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.paths import target
from windlass.control.request.permissions import is_visible
from windlass.control.services.deployment_rules import gives_previews, require_previews
from windlass.control.services.new_tags import summary_of
from windlass.control.workloads.images import is_named, whole_name
from windlass.core.declare.document import Document
from windlass.core.words.events import Event
from windlass.core.words.previews import PreviewState
from windlass.families.container import ImageToDeploy
from windlass.families.environment import environment
from windlass.families.preview import Preview, preview
from windlass.store import Reads, Row, Tx


@writes("organization.containerPreview")
async def preview_new_tag(ctx: Context, tx: Tx, call: Call) -> Reply:
    organization, asked = await target(tx, call), call.sent(ImageToDeploy)
    previews: list[Document] = []
    for base, image_name in await _bases_of(ctx, tx, call, organization.id, asked):
        row = await find_tag_preview(tx, base.id, {asked.image_name, image_name}, asked.tag)
        if row is None:
            row = await _add(ctx, tx, call, base, ImageToDeploy(image_name=image_name, tag=asked.tag))
        else:
            before = row.body
            row = await deploy_tag_again(ctx, tx, row)
            await record(ctx, tx, Event.UPDATED, row, call.actor, call, old_body=before, new_body=row.body)
        previews.append({"id": row.id, "environment_id": base.id, "name": name_of(row)})
    return Reply(encode({**summary_of(call, organization, len(previews)), "previews": previews}))


async def _bases_of(
    ctx: Context, tx: Tx, call: Call, org: str, image_to_deploy: ImageToDeploy
) -> list[tuple[Row, str]]:
    """Returns the environments that preview the tag, each with the full name of its image. Raises Forbidden
    if there are some, and the caller may create previews of none of them."""
    found: list[tuple[Row, str]] = []
    refusal: Forbidden | None = None
    for id, image_name in (await _environments_of(ctx, tx, org, image_to_deploy)).items():
        base = await tx.resources.find(environment.name, id)
        if base is None or base.read(PreviewMark).preview or not gives_previews(base):
            continue
        if not await is_visible(tx, call.actor, base) or await tx.deletions.at_or_above(id):
            continue
        try:
            await require_previews(tx, call.actor, base)
        except Forbidden as failure:
            refusal = failure
        else:
            found.append((base, image_name))
    if refusal and not found:
        raise refusal
    return found


async def _environments_of(
    ctx: Context, reads: Reads, org: str, image_to_deploy: ImageToDeploy
) -> dict[str, str]:
    """Returns the ids of environments with services that run the image with another tag and ask for previews,
    each with the full name of the image."""
    environments: dict[str, str] = {}
    for family, kind in ctx.kinds.items():
        for service in await reads.resources.of_org(org, family):
            image = kind.image(service)
            if image is None or image.tag == image_to_deploy.tag or not kind.asks_for_previews(service):
                continue
            if await is_named(reads, org, image_to_deploy.image_name, image):
                environments.setdefault(service.parent, await whole_name(reads, org, image))
    return environments


async def find_tag_preview(reads: Reads, base: str, names: set[str], tag: str) -> Row | None:
    """Returns the preview of a tag in an environment; None without one. `names`: the names of the image."""
    for row in await previews_of(reads, base):
        stored = row.read(StoredPreview)
        if stored.image_tag == tag and stored.image_name in names:
            return row
    return None


async def _add(ctx: Context, tx: Tx, call: Call, base: Row, image: ImageToDeploy) -> Row:
    event = {"at": stamp(tx.now), "message": f"Tag {image.tag} of {image.image_name} is to be previewed"}
    spec = Preview(image_name=image.image_name, image_tag=image.tag)
    new = NewResource(preview, spec, base, call.actor, call, extras={"events": [event]})
    await create_in(ctx, tx, new)
    row = await tx.resources.get(new.id)
    assert row is not None
    return row


async def deploy_tag_again(ctx: Context, tx: Tx, row: Row) -> Row:
    """Has the tag of a preview deployed again, as it may stand for another image now."""
    fields: dict[str, object] = {"deployed_image_tag": "", **life_from(ctx, tx.now)}
    stored = row.read(StoredPreview)
    if stored.state is PreviewState.ENDED:
        fields |= {"state": PreviewState.PLANNED}
    changed = await change_preview(tx, row, fields, f"Tag {stored.image_tag} was sent again")
    await tend_soon(tx, changed)
    return changed
