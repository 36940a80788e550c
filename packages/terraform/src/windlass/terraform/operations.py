"""API operations of Terraform services: resources, outputs, plans, the lock on the state, and state
versions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

from windlass.base.clock import SECOND, stamp
from windlass.base.errors import Conflict
from windlass.base.fair_share import FairShare
from windlass.base.subprocesses import in_thread
from windlass.control.context.call import Call, Reply, encode, prepares, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, particulars
from windlass.control.records.recording import emit_asked
from windlass.control.request.deleting import delete
from windlass.control.request.paths import target
from windlass.control.services.actions import SERVICE_ACTIONS, was_begun
from windlass.core.declare.document import Document
from windlass.core.deploy.injected_variables import output_word, prefixes_of
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS, Progress
from windlass.core.words.events import Event
from windlass.core.words.masking import Mask
from windlass.launch.terraform import PLAN_ONLY
from windlass.store import NEVER, Reads, Tx
from windlass.store.tables.plans import StoredPlan
from windlass.store.tables.terraform import StateVersion
from windlass.terraform.families.shapes import TerraformRemoval
from windlass.terraform.families.state_shapes import PlanQuery, RestoreRequest
from windlass.terraform.families.terraform import Terraform, terraform
from windlass.terraform.inputs import keeps_state, output_mask
from windlass.terraform.kind import programs_of
from windlass.terraform.run_programs import image_versions
from windlass.terraform.state_files import (
    StateOutput,
    outputs_of,
    resources_of,
    shared_outputs,
)
from windlass.terraform.states import (
    add_version,
    attributes_of,
    content_of,
    describe_lock,
    newest_state,
    plan_record,
    present_state,
)

MAX_LISTED_PLANS_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of the listed plans of a service, except a single one."""
MAX_LISTED_RESOURCES: Final = 20_000
"""Maximum number of resources of a state that are listed."""


@prepares("terraform.create", "terraform.update", "terraform.patch")
async def look_for_programs(ctx: Context, call: Call) -> None:
    """Reads the versions of the machine's programs before the transaction begins. The transaction must not
    wait for other programs."""
    await in_thread(programs_of(ctx).find_all)


@reads("listTerraformVersions")
async def list_versions(ctx: Context, call: Call) -> Reply:
    if ctx.places.local.takes == "image":
        versions = image_versions(ctx.settings)
    else:
        programs = await in_thread(programs_of(ctx).find_all)
        versions = [(program.engine, program.version) for program in programs]
    return Reply(results([encode({"engine": engine, "version": version}) for engine, version in versions]))


@writes("terraform.delete")
async def delete_or_uninstall(ctx: Context, tx: Tx, call: Call) -> Reply:
    if not call.asked(TerraformRemoval).resources_only:
        return await delete(ctx, tx, call)
    service = await target(tx, call)
    if await was_begun(tx, service):
        await SERVICE_ACTIONS["uninstall"](ctx, tx, call, service, None)
    return Reply()


# Resources and outputs


@reads("terraform.terraformResources")
async def list_resources(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    version, state = await newest_state(ctx, source, service.id)
    if version is None or state is None:
        return Reply(results([]))
    at = stamp(version.created)
    attributes = await attributes_of(ctx, source, version)
    mask, share = output_mask(ctx, service, state), FairShare()
    bodies: list[bytes] = []
    for resource in resources_of(state, service.id, attributes):
        if len(bodies) == MAX_LISTED_RESOURCES:
            raise Conflict(
                "Remove resources from the module, into one of their own: the state has more than "
                f"{MAX_LISTED_RESOURCES:,} resources, and no more are listed"
            )
        shown = {**asdict(resource), "address": mask.text(resource.address), "extracted_at": at}
        bodies.append(encode(shown))
        await share.pause()
    return Reply(results(bodies))


@reads("terraform.output")
async def list_outputs(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    _, state = await newest_state(ctx, source, service.id)
    if state is None:
        return Reply(results([]))
    _, prefix = prefixes_of(terraform.enum_value, service.id)
    shared = {output.name for output in shared_outputs(state)}
    mask = output_mask(ctx, service, state)
    share, bodies = FairShare(), list[bytes]()
    for output in outputs_of(state):
        bodies.append(encode(_shown_output(output, prefix, shared, mask)))
        await share.pause()
    return Reply(results(bodies))


def _shown_output(output: StateOutput, prefix: str, shared: Collection[str], mask: Mask) -> Document:
    shown: Document = {
        "name": output.name,
        "variable": prefix + output_word(output.name) if output.name in shared else "",
        "sensitive": output.is_sensitive,
    }
    return shown if output.is_sensitive else {**shown, "value": mask.text(output.value)}


# Plans


@reads("terraform.plan")
async def list_plans(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    asked = call.asked(PlanQuery).deployment_id
    bodies, left = list[bytes](), MAX_LISTED_PLANS_BYTES
    async for plan in source.plans.each(service.id, None if asked is UNSET else asked):
        body = encode(await _shown_plan(ctx, source, plan))
        left -= len(body)
        if bodies and left < 0:  # the newest plan is always listed: it is the one that can be applied
            break
        bodies.append(body)
    return Reply(results(bodies))


async def _shown_plan(ctx: Context, reads: Reads, plan: StoredPlan) -> Document:
    record, planned = plan_record(ctx, plan), await reads.deployments.get(plan.deployment)
    only_planned = (
        planned is not None
        and planned.status == Progress.SUCCEEDED
        and particulars(planned).sub_action == PLAN_ONLY
    )
    return {
        "deployment_id": plan.deployment,
        "created_at": stamp(plan.created),
        "added": plan.added,
        "changed": plan.changed,
        "destroyed": plan.destroyed,
        "applicable": only_planned and record.state == await present_state(reads, plan.service),
        "resources": record.resources,
        "text": record.text,
    }


# The state


@reads("terraform.lock")
async def read_lock(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    lock = await source.terraform.lock(service.id)
    if lock is None:
        return Reply(encode({"is_locked": False}))
    holder = await source.deployments.get(lock.deployment)
    return Reply(
        encode(
            {
                "is_locked": True,
                "lock_id": lock.id,
                "operation": lock.operation,
                "owner": lock.owner,
                "deployment_id": lock.deployment,
                "created_at": stamp(lock.created),
                "age_seconds": max(0, ctx.clock.now() - lock.created) // SECOND,
                "is_running": holder is not None and holder.status in OPEN_STATES_OF_DEPLOYMENTS,
            }
        )
    )


@reads("terraform.stateVersion")
async def list_state_versions(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    versions = await source.terraform.versions(service.id, NEVER)
    return Reply(results([encode(_shown_version(version, versions[0])) for version in versions]))


@writes("terraform.restoreState")
async def restore_state(ctx: Context, tx: Tx, call: Call) -> Reply:
    service, number = await target(tx, call), call.sent(RestoreRequest).number
    if not keeps_state(service.read(Terraform)):
        raise Conflict(
            "backend: go to the backend of the module to restore it: Windlass does not keep this state"
        )
    if await tx.deployments.open(service.id):
        raise Conflict("Wait for the end of the deployment that waits or is under way, or cancel it")
    if locked := await describe_lock(tx, service.id, tx.now):
        raise Conflict(locked)
    version = await tx.terraform.version(service.id, number)
    if version is None:
        raise Conflict("number: choose one that GET …/stateVersion lists")
    content = _with_next_serial(await content_of(ctx, tx, version), await _newest_serial(ctx, tx, service.id))
    restored = await add_version(ctx, tx, service, version.deployment, content, restored=number)
    data = {
        "name": name_of(service),
        "environment_id": service.parent,
        "number": restored.number,
        "restored_from": number,
    }
    await emit_asked(ctx, tx, Event.STATE_RESTORED, service, call, data)
    return Reply(encode(_shown_version(restored, restored)))


async def _newest_serial(ctx: Context, tx: Tx, service: str) -> int:
    _, state = await newest_state(ctx, tx, service)
    return state.serial if state else 0


def _with_next_serial(content: bytes, newest_serial: int) -> bytes:
    """Returns the state with the next serial number, which makes all existing plans stale."""
    if not content:
        return content
    # The other fields remain as raw JSON, because numbers may have more digits than Python's parser keeps.
    document = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    document["serial"] = msgspec.Raw(msgspec.json.encode(newest_serial + 1))
    return msgspec.json.encode(document)


def _shown_version(version: StateVersion, newest_version: StateVersion) -> Document:
    shown: Document = {
        "number": version.number,
        "created_at": stamp(version.created),
        "deployment_id": version.deployment,
        "bytes": version.bytes,
        "is_current": version.number == newest_version.number,
    }
    return {**shown, "restored_from": version.restored} if version.restored else shown
