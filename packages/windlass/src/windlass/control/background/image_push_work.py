"""Passes the image pushes that a registry's webhook received on to services: deploys the tag of those with
`auto_deploy` that run the image.

A delivery is only a hint: the registry is asked for the tag, with its login, before anything is deployed. A
service follows its own tag, if that stands for another image now, and newer tags of the same form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import SECOND
from windlass.base.errors import Failure
from windlass.control.context.call import ITSELF
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.deployments import particulars
from windlass.control.records.previews import PreviewMark, StoredPreview, call_of
from windlass.control.records.registry_webhooks import webhook_of_work
from windlass.control.services.actions import deploy
from windlass.control.services.image_previews import deploy_tag_again
from windlass.control.workloads.images import name_in, running_digest, whole_name
from windlass.control.workloads.registries import open_registry, registry_settings
from windlass.core.deploy.states import ACTIONS_WITH_BUILD, ACTIONS_WITH_RELEASE
from windlass.core.words.image_pushes import ImagePushResult
from windlass.engines.image_names import newer_than, spelled_out, with_registry
from windlass.families.container_registry import ContainerRegistry, container_registry
from windlass.families.environment import environment
from windlass.families.preview import preview
from windlass.registries.refusals import Problem, RegistryFailure
from windlass.store import Claim, Reads, Row, Tx
from windlass.store.tables.image_pushes import MAX_KEPT_IMAGE_PUSHES, ImagePushRow

MAX_TAGS_AT_ONCE: Final = 20
"""The number of deliveries whose tags a registry is asked for before other work."""
ASK_SECONDS: Final = 30.0
"""Time limit for the tags of one look."""
_MAX_ATTEMPTS: Final = 6
_RETRY_PAUSE: Final = 5 * SECOND
_TOO_SLOW: Final = "it takes too long to answer"


class PushedImage(Struct, frozen=True):
    """A pushed tag, and what the registry says about it."""

    push: ImagePushRow
    """The newest delivery of the tag."""
    image: str
    """The full name of the image, in its canonical form."""
    digest: str = ""
    problem: ImagePushResult | None = None
    note: str = ""


class ImageUsers(Struct, frozen=True):
    """The services and previews of an organization that may follow the tags of an image, by their ids."""

    services: Sequence[str] = ()
    previews: Sequence[str] = ()


async def pass_on_image_pushes(ctx: Context, claim: Claim) -> None:
    reads = ctx.store.reads
    webhook = await reads.registry_webhooks.get(webhook_of_work(claim.id))
    registry = await reads.resources.find(container_registry.name, webhook.registry) if webhook else None
    if webhook is None or registry is None:
        await ctx.store.write(lambda tx: tx.work.done(claim))
        return
    waiting = await reads.image_pushes.waiting(webhook.id, MAX_TAGS_AT_ONCE)
    spec = registry_settings(ctx, registry)
    pushed = {(push.image, push.tag): PushedImage(push, _full(name_in(spec, push.image))) for push in waiting}
    users = await _users_of(ctx, reads, registry.org, {one.image for one in pushed.values()})
    asked = await _ask(ctx, spec, [one for one in pushed.values() if one.image in users])
    has_failed = any(one.problem is ImagePushResult.REGISTRY_FAILED for one in asked)
    if has_failed and claim.attempts < _MAX_ATTEMPTS:
        pause = _RETRY_PAUSE * 2**claim.attempts
        await ctx.store.write(lambda tx: tx.work.reschedule(claim, tx.now + pause, claim.attempts))
        return
    await ctx.point("about to deploy new tags")

    async def change(tx: Tx) -> None:
        await fence(tx, claim)
        known = {(one.push.image, one.push.tag) for one in asked}
        passed_on = [push for push in waiting if (push.image, push.tag) in known]
        await tx.image_pushes.settle(passed_on, ImagePushResult.PASSED_ON)
        await tx.image_pushes.settle(waiting, ImagePushResult.NO_SERVICE)
        rows = await _follow(ctx, tx, asked, users)
        await tx.image_pushes.add(rows[:MAX_KEPT_IMAGE_PUSHES])
        if len(waiting) == MAX_TAGS_AT_ONCE:
            await tx.work.reschedule(claim, tx.now)
        else:
            await tx.work.done(claim)

    await ctx.store.write(change)


def _full(name: str) -> str:
    return spelled_out(with_registry(name))


async def _users_of(ctx: Context, reads: Reads, org: str, images: set[str]) -> dict[str, ImageUsers]:
    """Returns the services and previews of images, without images that nothing uses."""
    services: dict[str, list[str]] = {}
    previews: dict[str, list[str]] = {}
    for family, kind in ctx.kinds.items():
        for row in await reads.resources.of_org(org, family):
            image = kind.image(row)
            if image and (name := _full(await whole_name(reads, org, image))) in images:
                services.setdefault(name, []).append(row.id)
    for row in await reads.resources.of_org(org, preview.name):
        previewed = row.read(StoredPreview).image_name
        if previewed and (name := _full(previewed)) in images:
            previews.setdefault(name, []).append(row.id)
    return {
        image: ImageUsers(services.get(image, ()), previews.get(image, ()))
        for image in services.keys() | previews.keys()
    }


async def _ask(
    ctx: Context, spec: ContainerRegistry, pushed_images: Sequence[PushedImage]
) -> list[PushedImage]:
    """Asks the registry for the digests of tags."""
    asked: list[PushedImage] = []
    until = asyncio.get_running_loop().time() + ASK_SECONDS
    for one in pushed_images:
        try:
            async with asyncio.timeout_at(until):
                client = await open_registry(ctx, spec)
                asked.append(replace(one, digest=await client.digest(one.push.image, one.push.tag)))
        except TimeoutError:
            asked.append(replace(one, problem=ImagePushResult.REGISTRY_FAILED, note=_TOO_SLOW))
        except RegistryFailure as failure:
            is_unknown = failure.problem is Problem.UNKNOWN_IMAGE
            problem = ImagePushResult.NOT_IN_REGISTRY if is_unknown else ImagePushResult.REGISTRY_FAILED
            asked.append(replace(one, problem=problem, note=str(failure)))
    return asked


async def _follow(
    ctx: Context, tx: Tx, pushed_images: Sequence[PushedImage], users: Mapping[str, ImageUsers]
) -> list[ImagePushRow]:
    """Deploys tags to the services and previews that follow them. Returns what was done."""
    rows: list[ImagePushRow] = []
    for image in dict.fromkeys(one.image for one in pushed_images):
        pushed = [one for one in pushed_images if one.image == image]
        for id in users[image].services:
            service = await tx.resources.get(id)
            if service is not None and not await _is_in_preview(ctx, tx, service):
                rows += await _follow_by_service(ctx, tx, service, pushed)
        for id in users[image].previews:
            rows += await _follow_by_preview(ctx, tx, id, pushed)
    return rows


async def _is_in_preview(ctx: Context, tx: Tx, service: Row) -> bool:
    """Returns whether a service belongs to a preview, which follows nothing by itself."""
    home = await tx.resources.find(environment.name, service.parent)
    return home is not None and bool(home.read(PreviewMark).preview)


async def _follow_by_service(
    ctx: Context, tx: Tx, service: Row, pushed_images: Sequence[PushedImage]
) -> list[ImagePushRow]:
    kind = ctx.kinds[service.family]
    image = kind.image(service)
    if image is None or await tx.deletions.at_or_above(service.id):
        return []
    there = {one.push.tag: one for one in pushed_images if one.problem is None}
    # The tags of one look may have several newer ones, of which the newest counts.
    chosen = next(iter(newer_than(image.tag, there)), image.tag if image.tag in there else "")
    rows = []
    for one in pushed_images:
        result, note = one.problem, one.note
        if not kind.deploys_new_tags(service):
            result, note = ImagePushResult.AUTO_DEPLOY_OFF, ""
        elif result is None and one.push.tag != chosen:
            result = ImagePushResult.OTHER_TAG
        elif result is None:
            result, note = await _deploy(ctx, tx, service, one, is_same=chosen == image.tag)
        rows.append(_row(one, result, service.id, note))
    return rows


async def _deploy(
    ctx: Context, tx: Tx, service: Row, pushed_image: PushedImage, *, is_same: bool
) -> tuple[ImagePushResult, str]:
    past = [row for row in await tx.deployments.latest(service.id, 20) if not particulars(row).command]
    if not past or past[0].action not in ACTIONS_WITH_RELEASE | ACTIONS_WITH_BUILD:
        return ImagePushResult.NOT_RUNNING, ""
    if is_same and await running_digest(tx, service) == pushed_image.digest:
        return ImagePushResult.ALREADY_KNOWN, ""
    home = await tx.resources.get(service.parent)
    assert home is not None
    call = replace(call_of(ctx, f"{service.family}.deploy", home.parent, service), origin=ITSELF)
    try:
        body = ctx.kinds[service.family].request_of_tag(pushed_image.push.tag)
        await deploy(ctx, tx, call, service, body)
    except Failure as failure:
        return ImagePushResult.REFUSED, failure.message
    return ImagePushResult.DEPLOYED, ""


async def _follow_by_preview(
    ctx: Context, tx: Tx, id: str, pushed_images: Sequence[PushedImage]
) -> list[ImagePushRow]:
    row = await tx.resources.find(preview.name, id)
    stored = row.read(StoredPreview) if row else None
    one = next((one for one in pushed_images if stored and one.push.tag == stored.image_tag), None)
    if row is None or stored is None or one is None or one.problem:
        return []
    await deploy_tag_again(ctx, tx, row)
    return [_row(one, ImagePushResult.PREVIEWED, "", stored.name)]


def _row(pushed_image: PushedImage, result: ImagePushResult, service: str, note: str) -> ImagePushRow:
    return replace(
        pushed_image.push,
        id=ids.new_id(),
        service=service,
        delivery="",
        digest=pushed_image.digest or pushed_image.push.digest,
        result=result,
        note=note,
        times=1,
    )
