"""Families that use everything that a declaration can say, with handlers for their actions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.request.changing import apply_changes
from windlass.control.request.paths import parent_of, resource_at, target
from windlass.core.access import Scope
from windlass.core.declare.actions import WORD_PARAMETER, Itself, delete, get, post, put
from windlass.core.declare.fields import Id, Name, Text
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Family, Shown, Spec, Verb
from windlass.core.words.audit import AuditWords
from windlass.families import find_declarations, registry_of
from windlass.families.cluster import cluster
from windlass.families.deployment_history import service
from windlass.families.environment import environment
from windlass.families.organization import organization
from windlass.families.project import project
from windlass.store import Tx


class ProjectRule(Spec):
    name: Name
    priority: Annotated[int, Meta(ge=0, le=9)] = 0


class EnvironmentRule(Spec):
    name: Name
    wildcard: Text = ""


class Order(Spec):
    first: Id


class AwsCredentials(Spec):
    name: Name


class Tier(Spec):
    name: Name
    note: Text = ""


class Note(Shown):
    """The result of a handler, for a test to look at."""

    id: Id
    family: str
    word: str = ""


project_rule = Family(
    "projectRule",
    ProjectRule,
    parent=project,
    segment="rule",
    param="rule_id",
    nested=True,
    actions=(put("order", None, "Choose the first", on_collection=True, body=Order),),
)
environment_rule = Family(
    "environmentRule", EnvironmentRule, parent=environment, segment="rule", param="rule_id", nested=True
)
tencent_credentials = Family(
    "tencentCredentials",
    AwsCredentials,
    parent=organization,
    segment="tencent/credentials",
    param="credentials_id",
    nested=True,
    verbs=frozenset({Verb.CREATE, Verb.LIST, Verb.READ, Verb.DELETE}),
    audit=AuditWords(sub_target="CLOUD_PROVIDER_CREDENTIALS", is_part=True),
)
tier = Family(
    "tier",
    Tier,
    parent=environment,
    created_status=200,
    actions=(
        put(
            "addService",
            Itself,
            "Add a service",
            suffix="/service/{service_id}",
            ids={"service_id": "service"},
        ),
        put(
            "moveBefore",
            list[Itself],
            "Move it before another",
            suffix="/moveBefore/{other_id}",
            ids={"other_id": "tier"},
            paged=False,
        ),
        get("region", Note, "Read a region", suffix="/region/{region}", ids={"region": WORD_PARAMETER}),
        post("run", Note, "Run it", need=Scope.DEPLOY),
        delete("lock", "Take the lock away"),
    ),
)
of_services = Actions(service, "Tiers", (get("tier", Note, "Read its tier"),))
of_clusters = Actions(cluster, "Seals", (get("seal", Note, "Read its seal", unnested=True),))

EVERYTHING = registry_of(
    *find_declarations(), project_rule, environment_rule, tencent_credentials, tier, of_services, of_clusters
)


@writes("projectRule.order")
async def order(ctx: Context, tx: Tx, call: Call) -> Reply:
    await parent_of(tx, call)
    return Reply()


@writes("tier.addService")
async def add_service(ctx: Context, tx: Tx, call: Call) -> Reply:
    row, added = await target(tx, call), await resource_at(tx, call, call.operation.ids[-1])
    return await apply_changes(ctx, tx, call, row, {"note": f"{added.family} {added.id}"})


@writes("tier.moveBefore")
async def move_before(ctx: Context, tx: Tx, call: Call) -> Reply:
    moved, other = await target(tx, call), await resource_at(tx, call, call.operation.ids[-1])
    return Reply(results([moved.body, other.body]))


@writes("tier.run", "tier.lock")
async def do_nothing(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    return Reply(encode({"id": row.id, "family": row.family}) if call.operation.answer else b"")


@reads("tier.region")
async def region(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    return Reply(encode({"id": row.id, "family": row.family, "word": call.ids[1]}))


@reads("service.tier", "cluster.seal")
async def found(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    return Reply(encode({"id": row.id, "family": row.family}))
