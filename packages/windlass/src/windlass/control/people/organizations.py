"""Organizations, their first clusters, and the available roles."""

from __future__ import annotations

from windlass.base.errors import Conflict, Forbidden
from windlass.control.context.call import Call, Reply, encode, reads, writes
from windlass.control.context.context import Context
from windlass.control.people.tokens import issue
from windlass.control.records.recording import record
from windlass.control.request.behaviour import Behaviour, Draft, behaves
from windlass.control.request.changing import check_tag
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.deleting import purge
from windlass.control.request.paths import target
from windlass.control.request.reading import page_of, with_fields
from windlass.core.access import ROLE_IDS, SCOPE_MEANINGS, Actor, ResourceLocation, Scope, may, may_below
from windlass.core.words.events import Event
from windlass.families.cluster import THIS_MACHINE, Cluster, cluster
from windlass.families.environment import environment
from windlass.families.organization import Organization, organization
from windlass.store import Row, Tx

NO_PARENT = ""
"""The parent of organizations, which have none."""


@reads("organization.list")
async def list_organizations(ctx: Context, call: Call) -> Reply:
    """Returns the caller's organization as an object. Its `results` are all organizations that the caller may
    see."""
    orgs = [org for org in call.actor.organizations if may(call.actor, Scope.READ, ResourceLocation(org))]
    rows = [row for org in orgs if (row := await ctx.store.reads.resources.find(organization.name, org))]
    listed = page_of(call, [row.body for row in sorted(rows, key=lambda row: row.pos)])
    home = next((row for row in rows if row.id == call.actor.home), None)
    return Reply(home.body[:-1] + b"," + listed.body[1:] if home else listed.body)


@writes("organization.create")
async def create_organization(ctx: Context, tx: Tx, call: Call) -> Reply:
    if not any(
        may_below(call.actor, call.operation.need, ResourceLocation(org)) for org in call.actor.organizations
    ):
        raise Forbidden("Use a token that is not limited to parts of an organization to create another")
    # Each organization has a share of the machine, so that others would multiply theirs.
    first = await tx.resources.first(NO_PARENT, organization.name)
    if first is None or not may_below(call.actor, call.operation.need, ResourceLocation(first.id)):
        raise Forbidden(
            "Ask an Admin of the first organization of this installation: only they create others, because "
            "each organization gets a share of the machine"
        )
    reply, token = await found_organization(ctx, tx, call.sent(Organization), call.actor, call)
    return Reply(with_fields(reply.body, {"admin_token": token}), reply.tag)


async def found_organization(
    ctx: Context,
    tx: Tx,
    spec: Organization,
    actor: Actor,
    call: Call | None = None,
    *,
    with_token: bool = True,
) -> tuple[Reply, str | None]:
    """Creates an organization with a cluster and an Admin token, without which it would be inaccessible."""
    new = NewResource(organization, spec, None, actor, call)
    reply = await create_in(ctx, tx, new)
    above = await tx.resources.find(organization.name, new.id)
    assert above is not None
    local = Cluster(name="local", engine=THIS_MACHINE)
    await create_in(ctx, tx, NewResource(cluster, local, above, actor, call))
    token = await issue(ctx, tx, above, "admin", Scope.ADMIN, actor) if with_token else None
    return reply, token


@writes("organization.delete")
async def delete_organization(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    check_tag(call, row)
    if len(await tx.resources.of_parent(NO_PARENT, organization.name)) == 1:
        raise Conflict("Create another organization first: the only one of an installation cannot be deleted")
    await _refuse_elsewhere(tx, row)
    await purge(ctx, tx, row)
    await record(ctx, tx, Event.DELETED, row, call.actor, call, old_body=row.body)
    return Reply()


async def _refuse_elsewhere(tx: Tx, org: Row) -> None:
    """Refuses to delete an organization with environments on other hosts: nothing could remove them later."""
    for row in await tx.resources.of_parent(org.id, cluster.name):
        spec = row.read(Cluster)
        if spec.is_elsewhere and await tx.links.users_of_family(row.id, environment.name):
            raise Conflict(
                f"Delete the environments on the cluster {spec.name} first: they are on another host, and "
                "nothing could remove them afterwards"
            )


@reads("organization.availableRole")
async def available_roles(ctx: Context, call: Call) -> Reply:
    await target(ctx.store.reads, call)
    roles = [
        {"id": id, "name": scope.word, "description": SCOPE_MEANINGS[scope]} for scope, id in ROLE_IDS.items()
    ]
    return page_of(call, [encode(role) for role in roles])


@behaves(organization)
class Organizations(Behaviour[Organization]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Organization]) -> None:
        kept = ctx.settings.audit_retention_days
        draft.give(organization_plan={"plan": draft.spec.plan, "audit_logs_retention_in_days": kept})
