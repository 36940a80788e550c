"""The environments of previews: copies them, deploys commits in them, and tells how they are.

A copy differs from its original: services of the repository are built from the pull request, nothing is
deployed by other commits, public databases are private, and jobs of a timetable are not started. Domains of
users belong to the original. A copy for a fork has no secrets, neither its own nor those of levels above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from windlass.base.errors import Failure
from windlass.control.context.context import Context
from windlass.control.kinds.service_kind import PreviewSource
from windlass.control.records.deployments import accept, name_of, status_of
from windlass.control.records.links import links_of
from windlass.control.records.names import refuse_outside
from windlass.control.records.previews import (
    PREVIEW_MODE,
    StoredPreview,
    call_of,
    change_preview,
    environment_of,
    life_from,
)
from windlass.control.request.deleting import delete_row
from windlass.control.services.actions import deploy, stop, was_begun, with_group
from windlass.control.services.cloning import EnvironmentCopy, copy_environment
from windlass.control.services.environments import services_of
from windlass.control.services.git_webhooks import key_of_service
from windlass.control.services.preview_commits import is_shown
from windlass.control.workloads.images import is_named
from windlass.core.declare.document import Document
from windlass.core.deploy.states import STATES_WITHOUT_INSTANCES, State, is_failure
from windlass.core.words.previews import PreviewState
from windlass.families.environment import environment
from windlass.families.variable import secret
from windlass.store import Reads, Row, Tx

_SHORT_COMMIT_LENGTH: Final = 12


async def is_switched(ctx: Context, reads: Reads, service: Row, preview: StoredPreview) -> bool:
    """Returns whether a service of the original has another version in its preview: it runs the image of the
    tag; or it is of the repository of the pull request, and of the branch into which that is to be merged, if
    there is one."""
    if preview.image_tag:
        image = ctx.kinds[service.family].image(service)
        return image is not None and await is_named(reads, service.org, str(preview.image_name), image)
    repository = ctx.kinds[service.family].repository(service)
    if repository is None or key_of_service(ctx, service) != preview.repository:
        return False
    return not preview.target_branch or repository.branch in (None, UNSET, "", preview.target_branch)


async def make_environment(ctx: Context, tx: Tx, base: Row, row: Row) -> Row:
    """Copies the environment for a preview, and deploys it. Returns the changed preview."""
    stored = row.read(StoredPreview)
    call = call_of(ctx, "environment.clone", base.parent, base)
    above = await tx.resources.get(base.parent)
    assert above is not None
    switched = {
        _key_of(service)
        for service in await services_of(ctx, tx, base)
        if await is_switched(ctx, tx, service, stored)
    }
    source = PreviewSource(stored.head_branch, stored.source_url, stored.image_tag or "")

    def changes(service: Row) -> Document | None:
        is_other = _key_of(service) in switched
        return ctx.kinds[service.family].in_preview(service, source if is_other else None)

    copy = EnvironmentCopy(
        {"name": await _free_name(tx, base.parent, stored.name, row.id)},
        changes,
        {"mode": PREVIEW_MODE, "preview": _mark(base, row, stored)},
        environment_of(row.id),
        with_secrets=not stored.is_fork,
    )
    made = await copy_environment(ctx, tx, call, base, above, copy)
    left_out = await _secrets_of(ctx, tx, base) if stored.is_fork else []
    row = await change_preview(
        tx,
        row,
        {"preview_environment_id": made.id, "missing_secrets": left_out},
        f"The environment {name_of(made)} is made, as a copy of {name_of(base)}",
    )
    return await _deploy_services(ctx, tx, made, row, await services_of(ctx, tx, made), switched)


def _mark(base: Row, row: Row, preview: StoredPreview) -> Document:
    mark: Document = {"id": row.id, "environment_id": base.id, "url": preview.url}
    if preview.pull_request:
        mark["pull_request"] = preview.pull_request
    return mark | {"without_secrets": preview.is_fork}


async def _free_name(tx: Tx, project: str, name: str, id: str) -> str:
    taken = await tx.resources.named(project, environment.name, name.casefold())
    return f"{name}-{id[:4]}" if taken else name


async def _secrets_of(ctx: Context, tx: Tx, base: Row) -> list[str]:
    """Returns the keys of all secrets that the services of an environment have."""
    levels = [*await tx.tree.above(base.id), *await services_of(ctx, tx, base)]
    rows = [row for level in levels for row in await tx.resources.of_parent(level.id, secret.name)]
    return sorted({row.name or "" for row in rows})


async def deploy_newest(ctx: Context, tx: Tx, environment: Row, row: Row) -> Row:
    """Deploys the newest commit of a preview, or its tag, in its environment. If the environment was stopped,
    all of its services are deployed."""
    stored = row.read(StoredPreview)
    services = await services_of(ctx, tx, environment)
    switched = {_key_of(service) for service in services if await is_shown(ctx, tx, service, stored)}
    is_stopped = stored.state is PreviewState.STOPPED
    chosen = [service for service in services if is_stopped or _key_of(service) in switched]
    return await _deploy_services(ctx, tx, environment, row, chosen, switched)


def _key_of(service: Row) -> tuple[str, str]:
    """Returns what a service and its copy have in common."""
    return service.family, name_of(service)


async def _deploy_services(
    ctx: Context, tx: Tx, environment: Row, row: Row, services: Sequence[Row], switched: set[tuple[str, str]]
) -> Row:
    stored = row.read(StoredPreview)
    skipped: list[str] = []
    group = ""
    left_out = await tx.deployment_stages.skipped(environment.id)
    for service in services:
        kind = ctx.kinds[service.family]
        is_left_out = service.id in left_out and _key_of(service) not in switched
        if is_left_out or not kind.runs_in_preview(service):
            continue
        own = call_of(ctx, f"{service.family}.deploy", environment.parent, service)
        call = replace(own, group=group)
        try:
            if _key_of(service) in switched and not stored.image_tag:
                await refuse_outside(ctx, tx, service)
                chosen = kind.new_commit(service, stored.commit_id)
                deployment, _ = await accept(tx, service, kind.deploys_by, call, chosen)
            else:
                deployment, _ = await deploy(ctx, tx, call, service, None)
            group = with_group(call, deployment).group
        except Failure as failure:
            skipped.append(f"{name_of(service)} is not deployed: {failure.message}")
    if stored.image_tag:
        what, version = f"Tag {stored.image_tag}", {"deployed_image_tag": stored.image_tag}
    else:
        what = f"Commit {stored.commit_id[:_SHORT_COMMIT_LENGTH]}"
        version = {"deployed_commit_id": stored.commit_id}
    fields = {"state": PreviewState.DEPLOYING, **version, **life_from(ctx, tx.now)}
    return await change_preview(tx, row, fields, ". ".join([f"{what} is deployed", *skipped]))


async def stop_environment(ctx: Context, tx: Tx, environment: Row, row: Row, event: str = "") -> Row:
    for service in reversed(await services_of(ctx, tx, environment)):
        if await was_begun(tx, service):
            call = call_of(ctx, f"{service.family}.stop", environment.parent, service)
            await stop(ctx, tx, call, service, None)
    event = event or f"Stopped: nothing new came for {ctx.settings.preview_quiet_hours} hours"
    return await change_preview(tx, row, {"state": PreviewState.STOPPED}, event)


async def delete_environment(ctx: Context, tx: Tx, environment: Row) -> None:
    """Begins the deletion of a preview's environment, unless it is under way."""
    if await tx.deletions.at_or_above(environment.id) is None:
        call = call_of(ctx, "environment.delete", environment.parent, environment)
        await delete_row(ctx, tx, call, environment, at_once=False)


async def state_of(ctx: Context, reads: Reads, environment: Row) -> PreviewState:
    """Returns how the environment of a preview is."""
    states = []
    for service in await services_of(ctx, reads, environment):
        if ctx.kinds[service.family].runs_in_preview(service):
            is_open = bool(await reads.deployments.open(service.id))
            status = await status_of(reads, service)
            at_rest = State.DEPLOYED if status.sleep else status.state  # the next request wakes it
            states.append(at_rest if not is_open else "")
    if "" in states:
        return PreviewState.DEPLOYING
    if any(is_failure(state) for state in states):
        return PreviewState.FAILED
    if states and all(State(state) in STATES_WITHOUT_INSTANCES for state in states):
        return PreviewState.STOPPED
    return PreviewState.RUNNING


async def address_of(ctx: Context, reads: Reads, environment: Row, preview: StoredPreview) -> str:
    """Returns the address of the first public service: one with the commit or tag of the preview, if there is
    any."""
    services = await services_of(ctx, reads, environment)
    shown = {service.id for service in services if await is_shown(ctx, reads, service, preview)}
    for service in sorted(services, key=lambda one: one.id not in shown):
        if links := await links_of(ctx, reads, service):
            return str(links[0]["url"])
    return ""
