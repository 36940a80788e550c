"""The deployment rules of projects, which new environments follow."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, to_builtins

from windlass.base.errors import Conflict, Forbidden
from windlass.control.context.call import Call, Reply, writes
from windlass.control.context.context import Context
from windlass.control.records.recording import emit_asked
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.paths import target
from windlass.control.request.permissions import allows, allows_below
from windlass.core.access import Actor, Scope
from windlass.core.declare.deployment_rules import DeploymentRule
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.families.cluster import cluster
from windlass.families.environment import Environment, environment
from windlass.families.project_deployment_rule import (
    ProjectDeploymentRule,
    RulesInOrder,
    project_deployment_rule,
)
from windlass.store import Row, Tx

MAX_RULES: Final = 100
"""The number of rules of a project, all of which are read for each new environment."""
_DEFAULT_MODE: Final = "DEVELOPMENT"
_HOURS: Final = ("auto_stop", "timezone", "start_time", "stop_time", "weekdays")


class _RulePlace(Struct):
    wildcard: str
    priority_index: int = 0


@behaves(project_deployment_rule)
class ProjectDeploymentRules(Behaviour[ProjectDeploymentRule]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[ProjectDeploymentRule]) -> None:
        rules = await _rules_of(tx, draft.above)
        if len(rules) >= MAX_RULES:
            raise Conflict(f"Delete a rule first: the project has {MAX_RULES}, which is the most")
        await _require_deploy(tx, draft.actor, draft.above, draft.spec)
        last = max((row.read(_RulePlace).priority_index for row in rules), default=-1)
        draft.give(priority_index=last + 1)
        await _choose_cluster(tx, draft.org, draft.spec)

    async def updating(self, ctx: Context, tx: Tx, change: Change[ProjectDeploymentRule]) -> None:
        project = await tx.resources.get(change.row.parent)
        assert project is not None
        await _require_deploy(tx, change.actor, project, change.spec)
        await _choose_cluster(tx, change.row.org, change.spec)


async def _choose_cluster(tx: Tx, org: str, rule: ProjectDeploymentRule) -> None:
    if not rule.cluster_id:
        first = await tx.resources.first(org, cluster.name)
        if first is None:
            raise Conflict("cluster_id: the organization has no cluster yet; create one first")
        rule.cluster_id = first.id


async def _require_deploy(tx: Tx, actor: Actor, project: Row, rule: ProjectDeploymentRule) -> None:
    if rule.auto_stop and not await allows(tx, actor, Scope.DEPLOY, project):
        raise Forbidden(
            "Use a token with the scope Deploy for the project: running hours stop and start services"
        )


async def _rules_of(tx: Tx, project: Row) -> list[Row]:
    """Returns the rules of a project in their order."""
    rows = await tx.resources.of_parent(project.id, project_deployment_rule.name)
    return sorted(rows, key=lambda row: (row.read(_RulePlace).priority_index, row.created, row.id))


@writes("project.orderRules")
async def order_rules(ctx: Context, tx: Tx, call: Call) -> Reply:
    project = await target(tx, call)
    wanted = call.sent(RulesInOrder).project_deployment_rule_ids_in_order
    rules = {row.id: row for row in await _rules_of(tx, project)}
    if sorted(wanted) != sorted(rules):
        raise Conflict(
            "project_deployment_rule_ids_in_order: send the id of each rule of the project once; it has "
            f"{len(rules)}"
        )
    if wanted != [*rules]:
        for place, id in enumerate(wanted):
            await tx.resources.rewrite(id, rewritten(rules[id].body, {"priority_index": place}))
        await emit_asked(ctx, tx, Event.UPDATED, project, call, {"rules": wanted})
    return Reply()


async def rule_for(tx: Tx, draft: Draft[Environment]) -> ProjectDeploymentRule | None:
    """Returns the first rule of the project that matches the name of a new environment; None for a copy, and
    if none matches."""
    if draft.copy_of is not None:
        return None
    for row in await _rules_of(tx, draft.above):
        if matches(row.read(_RulePlace).wildcard, draft.spec.name):
            return row.read(ProjectDeploymentRule)
    return None


def matches(wildcard: str, name: str) -> bool:
    """Returns whether a name matches a pattern in which * stands for any letters, and ? for one.

    A letter of the pattern takes one step, whatever the name and the other letters are: a regular expression
    could take as many steps as there are ways to divide the name among the stars.
    """
    pattern, text = wildcard.casefold(), name.casefold()
    places: dict[str, int] = {}
    """The places of each letter in the text, as bits of a number."""
    for place, letter in enumerate(text):
        places[letter] = places.get(letter, 0) | 1 << place
    all_ends = (2 << len(text)) - 1
    ends = 1
    """The lengths of the beginnings of the text that the pattern so far can stand for, as bits."""
    for letter in pattern:
        if letter == "*":
            ends = all_ends & -(ends & -ends)  # the shortest one and all longer ones
        else:
            ends = (ends if letter == "?" else ends & places.get(letter, 0)) << 1 & all_ends
        if not ends:
            return False
    return bool(pattern) and bool(ends >> len(text))


async def apply_rule(tx: Tx, draft: Draft[Environment], rule: ProjectDeploymentRule) -> None:
    """Gives a new environment the mode and the running hours of a rule. Raises Forbidden unless the caller
    may create environments of this mode."""
    if draft.spec.mode == _DEFAULT_MODE and rule.mode != _DEFAULT_MODE:
        if not await allows_below(tx, draft.actor, Scope.WRITE, draft.above, environment.name, rule.mode):
            raise Forbidden(
                f"Choose another name, or use a token that may create environments of the mode {rule.mode}: "
                "a rule of the project gives this mode to the name"
            )
        draft.spec.mode = rule.mode
    if rule.auto_stop:
        hours = {name: getattr(rule, name) for name in _HOURS}
        draft.give(deployment_rule=to_builtins(DeploymentRule(**hours)))
