"""Clusters and their engines. A connection is checked when its cluster is created or changed, and on
request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from windlass.base.encryption import Encryption
from windlass.base.errors import Conflict, Invalid
from windlass.base.fair_share import apply_to_each
from windlass.control.context.call import Call, Reply, encode, prepares, reads, results
from windlass.control.context.context import Context
from windlass.control.context.place import EngineAccess
from windlass.control.deploying.restored_database import OLDER_DATABASE_REASON
from windlass.control.records.ports import PORT_PREFIX, PortOwner, share_refusal
from windlass.control.records.reachability import LOST_SERVER_REASON
from windlass.control.records.stored_clusters import lock_in, place_of
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.hidden_fields import decrypt_hidden, decrypt_with
from windlass.control.request.paths import parent_of, parent_to_create_in, target
from windlass.control.request.permissions import visible_below
from windlass.control.request.references import check_addresses
from windlass.control.services.cluster_registries import (
    SHARED_LOGIN_ADVICE,
    build_registry,
    check_registries,
    has_shared_login,
)
from windlass.core.declare.document import Document, merge_patched, replace_spec, sent_in
from windlass.core.declare.resource import Spec, Verb
from windlass.core.declare.stored import NamedDocument, rewritten
from windlass.core.deploy.states import State
from windlass.families.cluster import Cluster, ClusterReadinessStatus, ClusterShown, ClusterStatus, cluster
from windlass.families.environment import environment
from windlass.families.project_deployment_rule import project_deployment_rule
from windlass.store import FIRST_PLACE, NO_SURROUNDINGS, Reads, Row, Tx, cluster_topic, queue_of, queues_of


async def find_access(ctx: Context, id: str) -> EngineAccess | None:
    row = await ctx.store.reads.resources.find(cluster.name, id)
    if row is None:
        return None
    access = replace(access_in(ctx.encryption, row), registry=await build_registry(ctx, row))
    if access.place in {"", ctx.ownership.place}:
        return access
    owner = await ctx.store.reads.owners.get(access.place)
    return replace(access, surroundings=owner.surroundings if owner else NO_SURROUNDINGS)


def access_in(encryption: Encryption, row: Row) -> EngineAccess:
    """Returns the access data for the engine of a cluster's row."""
    return access_of(row.id, row.org, row.read(Cluster), decrypt_with(encryption, row))


def access_of(id: str, org: str, spec: Cluster, hidden: Mapping[str, str]) -> EngineAccess:
    return EngineAccess(
        cluster=id,
        org=org,
        name=spec.name,
        engine=spec.engine or "",
        is_elsewhere=spec.is_elsewhere,
        address=spec.engine_address or "",
        ca_certificate=spec.engine_ca_certificate or "",
        certificate=spec.engine_certificate or "",
        key=hidden.get("engine_key", ""),
        config=hidden.get("kubeconfig", ""),
        allow_from=tuple(spec.allow_from),
        router_port=spec.router_port or 0,
        engine_id=spec.engine_id or "",
        place=place_of(spec),
    )


_ENGINE_ID = "engine_id"
_CREDENTIALS = ("engine_key", "kubeconfig")
_MAX_SHOWN_NAMES = 5
_SERVES_ONE = (
    "Follow `windlass doctor` to have several organizations deploy here: services of this machine are not "
    "kept apart well enough for them ({0}), so only one may"
)
_UNSAVED_ID = "new"
"""Placeholder for the id of a cluster that is not stored yet."""


# Connecting


@prepares(f"{cluster.name}.{Verb.CREATE}")
async def check_new(ctx: Context, call: Call) -> None:
    """Connects to the engine of a new cluster before it is stored, so that the response contains any
    errors."""
    parent, spec = await parent_to_create_in(ctx.store.reads, call), call.sent(Cluster)
    cluster.normalise(spec)
    access = access_of(_UNSAVED_ID, parent.org, spec, _credentials(spec))
    await ctx.places.check_port(access)
    if engine_id := await _connect(ctx, access, access.engine_id):
        spec.engine_id = engine_id


@prepares(*(f"{cluster.name}.{verb}" for verb in (Verb.UPDATE, Verb.PATCH)))
async def check_changed(ctx: Context, call: Call) -> None:
    """Connects to a changed engine address, or with changed credentials, before they are stored."""
    row = await target(ctx.store.reads, call)
    before: Document = msgspec.json.decode(row.body)
    hidden, changes = decrypt_hidden(ctx, row), sent_in(call.sent(Spec))
    merge = merge_patched if call.operation.handler.endswith(f".{Verb.PATCH}") else replace_spec
    spec = merge(cluster, before, hidden, changes)
    assert isinstance(spec, Cluster)
    cluster.normalise(spec)
    check_addresses(cluster, before | hidden, spec, changes)
    access = access_of(row.id, row.org, spec, _credentials(spec))
    former = access_of(row.id, row.org, row.read(Cluster), hidden)
    is_key_sent = any(changes.get(name) for name in _CREDENTIALS)
    if access.router_port != former.router_port:
        await ctx.places.check_port(access)
    without_effect = {"name": former.name, "router_port": former.router_port, "allow_from": former.allow_from}
    if replace(access, **without_effect) != former or is_key_sent:
        expected = str(changes.get("engine_id") or ("" if is_key_sent else former.engine_id))
        if engine_id := await _connect(ctx, access, expected):
            setattr(call.body, _ENGINE_ID, engine_id)


def _credentials(spec: Cluster) -> Mapping[str, str]:
    return {"engine_key": spec.engine_key, "kubeconfig": spec.kubeconfig}


async def _connect(ctx: Context, access: EngineAccess, expected: str) -> str:
    """Returns the id of the engine. Raises Invalid if the engine cannot be used, or has another id than
    expected."""
    engine_id = await ctx.places.identity(access)
    if expected and engine_id and engine_id != expected:
        field = "kubeconfig" if access.config else "engine_key"
        raise Invalid(
            f"engine_id: leave it out and send {field} again if the "
            f"engine was replaced on purpose: the engine at {access.address or 'its address'} has another id"
        )
    return engine_id


def shown_fields(row: Row) -> Mapping[str, object]:
    """Returns the fields of an environment that describe its cluster."""
    spec = row.read(Cluster)
    return {
        "cluster_name": spec.name,
        "cloud_provider": {"provider": spec.cloud_provider, "cluster": row.id},
    }


@behaves(cluster)
class Clusters(Behaviour[Cluster]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Cluster]) -> None:
        await _check_place(ctx, tx, draft.spec)
        await check_registries(tx, draft.org, draft.spec)
        first = await tx.resources.first(draft.org, cluster.name) is None
        draft.give(is_default=first, **_connection_fields(draft.spec))
        await give_queue(tx, draft.id, draft.spec)
        await _hold_port(ctx, tx, draft.org, draft.id, draft.spec)
        tx.nudge(cluster_topic(draft.id))

    async def updating(self, ctx: Context, tx: Tx, change: Change[Cluster]) -> None:
        if not change.before.engine:
            change.before.engine = change.row.read(Cluster).engine
            change.spec.engine = change.spec.engine or change.before.engine
        await check_registries(tx, change.row.org, change.spec)
        if _engine_of(change.before) != _engine_of(change.spec):
            await _check_place(ctx, tx, change.spec)
            await self._refuse_to_leave(ctx, tx, change)
        change.extras |= _connection_fields(change.spec)
        await tx.work.remove_queue(change.row.id)
        await give_queue(tx, change.row.id, change.spec)
        await _hold_port(ctx, tx, change.row.org, change.row.id, change.spec)
        tx.nudge(cluster_topic(change.row.id))

    async def _refuse_to_leave(self, ctx: Context, tx: Tx, change: Change[Cluster]) -> None:
        """Refuses a change of the engine while services have anything stored on the current engine.

        Disconnecting a cluster gives up the remaining data of deleted services there.
        """
        if names := await _services_in_use(ctx, tx, change.row.id):
            raise Conflict(
                "Uninstall or delete the services of this cluster before changing engine, place or "
                f"engine_address: what they store is on the current engine ({_list_names(names)})"
            )
        left = await tx.deletions.left_on(change.row.id)
        if left and change.before.is_elsewhere and change.spec.engine:
            raise Conflict(_left_behind(left))
        for service in left:
            await tx.deletions.record_erased(service)

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Updates the cluster name in the environments of the cluster."""
        for env in await tx.links.users_of_family(row.id, environment.name):
            await tx.resources.rewrite(env.id, rewritten(env.body, shown_fields(row)))

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        using = await tx.links.users_of_family(row.id, environment.name)
        if rules := await tx.links.users_of_family(row.id, project_deployment_rule.name):
            names = sorted({each.read(NamedDocument).name for each in rules})
            raise Conflict(
                f"Choose another cluster in the deployment rules of projects first: {len(rules)} name this "
                f"one ({_list_names(names)})"
            )
        if using:
            names = sorted(env.read(NamedDocument).name for env in using)
            raise Conflict(
                f"{len(using)} environments run on this cluster: delete them first ({_list_names(names)})"
            )
        left = await tx.deletions.left_on(row.id)
        if left and row.read(Cluster).is_elsewhere:
            raise Conflict(_left_behind(left))
        if len(await tx.resources.of_parent(row.parent, cluster.name)) == 1:
            raise Conflict("This is the only cluster of the organization: add another before deleting it")
        if row.read(ClusterShown).is_default:
            await self._default_to_next(tx, row)
        await tx.work.remove_queue(row.id)
        tx.nudge(cluster_topic(row.id))

    async def _default_to_next(self, tx: Tx, row: Row) -> None:
        heir = next(
            other for other in await tx.resources.of_parent(row.parent, cluster.name) if other.id != row.id
        )
        await tx.resources.rewrite(heir.id, rewritten(heir.body, {"is_default": True}))


async def _check_place(ctx: Context, tx: Tx, spec: Cluster) -> None:
    """Raises Invalid for a machine whose server was never started."""
    place = place_of(spec)
    if place in {"", FIRST_PLACE, ctx.ownership.place} or await tx.owners.get(place):
        return
    raise Invalid(
        f"place: start the server of the machine first, with WINDLASS_PLACE={place}: none was started with "
        "this name yet"
    )


async def give_queue(tx: Tx, id: str, spec: Cluster) -> None:
    """Gives a cluster its own queue of deployments if its engine is on another machine.

    A slow or unreachable engine then does not delay other deployments. A cluster on the machine of another
    server gets the queue of that machine.
    """
    if spec.is_elsewhere:
        await tx.work.add_queue(id, queue_of(id))
    elif (place := place_of(spec)) not in {"", FIRST_PLACE}:
        await tx.work.add_queue(id, queues_of(place).deployments)


async def _hold_port(ctx: Context, tx: Tx, org: str, cluster: str, spec: Cluster) -> None:
    """Reserves the router port of a cluster in the same table as the public ports of services. Raises Invalid
    if the port is taken."""
    wanted = f"{PORT_PREFIX}{spec.router_port}" if spec.router_port else ""
    held = await tx.names.of(cluster)
    if wanted and wanted not in {row.name for row in held}:
        if await tx.names.reserve(wanted, cluster) is None:
            raise Invalid(
                f"router_port: choose another port than {spec.router_port}: a service or another cluster has "
                f"it"
            )
        if advice := await share_refusal(ctx.settings, tx, PortOwner(org, "", cluster), wanted):
            raise Invalid(f"router_port: {advice}")
    for row in held:
        if row.name != wanted:
            await tx.names.release(row)


def _engine_of(spec: Cluster) -> tuple[str, str, str]:
    return spec.engine or "", place_of(spec), spec.engine_address or ""


def _connection_fields(spec: Cluster) -> Mapping[str, object]:
    """Returns the fields of the document that show whether the cluster has an engine."""
    if spec.engine:
        return {"status": "DEPLOYED", "deployment_status": "UP_TO_DATE", "has_access": True}
    return {"status": "READY", "deployment_status": "NEVER_DEPLOYED", "has_access": False}


async def _services_in_use(ctx: Context, reads: Reads, id: str) -> list[str]:
    """Returns the names of services that have anything stored on the cluster, or are being deployed there."""
    names: list[str] = []
    for service in await reads.statuses.on_cluster(id):
        row, status = await reads.resources.get(service), await reads.statuses.get(service)
        if row is None or status is None or row.family not in ctx.kinds:
            continue
        # A failed or cancelled deployment may have left a volume or an image.
        if status.state != State.READY or status.deployed_at or await reads.deployments.open(service):
            names.append(row.read(NamedDocument).name)
    return sorted(names)


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_SHOWN_NAMES]) + (", …" if len(names) > _MAX_SHOWN_NAMES else "")


def _left_behind(services: Sequence[str]) -> str:
    return (
        "Start the engine of this cluster, and try again in ten minutes: what deleted services stored "
        f"there is not erased yet (services: {len(services)}). To give it up, disconnect the cluster first: "
        "set engine and the fields that go with it to null"
    )


@reads("cluster.status")
async def status(ctx: Context, call: Call) -> Reply:
    return Reply(encode(await status_of(ctx, await target(ctx.store.reads, call))))


@reads("cluster.listStatus")
async def list_statuses(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    org = await parent_of(source, call)
    rows = await visible_below(source, call.actor, org, cluster)
    if rows is None:
        rows = await source.resources.of_parent(org.id, cluster.name)
    statuses = await apply_to_each(partial(status_of, ctx), rows)
    return Reply(results([*map(encode, statuses)]))


@reads("cluster.isReady")
async def is_ready(ctx: Context, call: Call) -> Reply:
    found = await status_of(ctx, await target(ctx.store.reads, call))
    return Reply(encode(ClusterReadinessStatus(is_ready=found.is_deployed and not found.cluster_lock)))


async def status_of(ctx: Context, row: Row) -> ClusterStatus:
    place = await ctx.places.at(row.id)
    message = place.refusal
    if place.is_connected and place.elsewhere is None:
        message = await place.engine.problem()
    if place.machine in ctx.ownership.lost:
        message = LOST_SERVER_REASON
    if not message and row.id in ctx.places.newer:
        message = OLDER_DATABASE_REASON
    answers = place.is_connected and not message
    word = "DEPLOYED" if answers else "DEPLOYMENT_ERROR" if place.is_connected else "READY"
    if answers and place.elsewhere is None and (why := await place.engine.why_one_organization()):
        message = _SERVES_ONE.format(why)
    if answers and has_shared_login(row.read(Cluster)):
        message = ". ".join(filter(None, (message, SHARED_LOGIN_ADVICE)))
    return ClusterStatus(
        cluster_id=row.id,
        status=word,
        is_deployed=answers,
        is_connected=place.is_connected,
        runs_images=place.is_connected and place.takes == "image",
        message=message or ctx.places.remarks.get(row.id, ""),
        cluster_lock=lock_in(row, ctx.clock.now()) or UNSET,
    )
