"""The deployment rules of environments: whether pull requests get previews, and when they run."""

from __future__ import annotations

import re
import uuid
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Forbidden, Missing
from windlass.control.context.call import Call, Reply, encode, reads, writes
from windlass.control.context.context import Context
from windlass.control.records.previews import PREVIEW_MODE, PreviewMark, look_soon
from windlass.control.records.recording import record
from windlass.control.records.running_hours import schedule_hours
from windlass.control.request.hidden_fields import decrypt_hidden, encrypt_hidden
from windlass.control.request.paths import target
from windlass.control.request.permissions import allows, allows_below
from windlass.core.access import Actor, Scope
from windlass.core.declare.deployment_rules import DeploymentRule, check_hours
from windlass.core.words.events import Event
from windlass.families.deployment_rule import EnvironmentDeploymentRule
from windlass.families.environment import environment
from windlass.families.project import project
from windlass.store import Reads, Row, Tx

_RULE: Final = "deployment rule"
_WORD_PATTERN: Final = re.compile(r"[a-z]{1,20}\Z")
"""A word such as `current`, which stands for the id of the rule: an environment has exactly one."""


class _Ruled(Struct):
    """The fields of an environment's document that are about its rule."""

    created_at: str
    updated_at: str
    deployment_rule: DeploymentRule | UnsetType | None = UNSET


def rule_of(row: Row) -> DeploymentRule:
    """Returns the rule of an environment; the default one if it was never set."""
    return row.read(_Ruled).deployment_rule or DeploymentRule()


def gives_previews(row: Row) -> bool:
    rule = rule_of(row)
    return rule.auto_preview or rule.on_demand_preview


@reads("environment.deploymentRule")
async def read_rule(ctx: Context, call: Call) -> Reply:
    return _reply(await target(ctx.store.reads, call))


@writes("environment.editDeploymentRule")
async def replace_rule(ctx: Context, tx: Tx, call: Call) -> Reply:
    row, rule = await target(tx, call), call.sent(DeploymentRule)
    check_hours(rule)
    if call.ids[-1] != _rule_id_of(row) and not _WORD_PATTERN.match(call.ids[-1]):
        raise Missing("No deployment rule with this id was found: read the rule of the environment first")
    if rule.auto_preview or rule.on_demand_preview:
        if row.read(PreviewMark).preview:
            raise Conflict("Choose the environment of which this one is a preview: previews have none")
        await require_previews(tx, call.actor, row)
    if rule.auto_stop:
        await _require_deploy(tx, call.actor, row)
    if rule == rule_of(row):
        return _reply(row)
    document = msgspec.json.decode(row.body)
    document |= {
        "deployment_rule": msgspec.to_builtins(rule),
        "updated_at": stamp(max(tx.now, row.created)),
    }
    tag = ids.new_tag()
    sealed = encrypt_hidden(ctx, row.org, row.id, tag, decrypt_hidden(ctx, row))
    new = replace(row, tag=tag, body=encode(document), sealed=sealed)
    await tx.resources.change(new)
    await record(ctx, tx, Event.UPDATED, new, call.actor, call, old_body=row.body, new_body=new.body)
    if gives_previews(new):
        await look_soon(tx, new)
    await schedule_hours(tx, new)
    return _reply(new)


async def _require_deploy(tx: Tx, actor: Actor, row: Row) -> None:
    """Raises Forbidden unless the caller may stop and start the services of the environment."""
    if not await allows(tx, actor, Scope.DEPLOY, row):
        raise Forbidden(
            "Use a token with the scope Deploy for the environment: its running hours stop and start services"
        )


async def require_previews(reads: Reads, actor: Actor, base: Row) -> None:
    """Raises Forbidden unless the caller may create previews of an environment: copy it inside its project,
    with its secrets, and deploy the copy."""
    above = await reads.resources.find(project.name, base.parent)
    assert above is not None
    for need in (Scope.WRITE, Scope.DEPLOY):
        if not await allows_below(reads, actor, need, above, environment.name, PREVIEW_MODE):
            raise Forbidden(
                "Use a token with the scopes Write and Deploy for the project: previews are environments "
                "in it"
            )


def _rule_id_of(row: Row) -> str:
    return str(uuid.uuid5(uuid.UUID(row.id), _RULE))


def _reply(row: Row) -> Reply:
    ruled = row.read(_Ruled)
    rule = EnvironmentDeploymentRule(
        id=_rule_id_of(row),
        created_at=ruled.created_at,
        updated_at=ruled.updated_at,
        **msgspec.structs.asdict(rule_of(row)),
    )
    return Reply(encode(rule))
