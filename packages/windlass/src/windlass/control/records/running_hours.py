"""The work that follows the running hours of an environment."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from windlass.base.clock import MINUTE
from windlass.core.declare.deployment_rules import DeploymentRule, hours_of_rule
from windlass.core.words.running_hours import RunningHours
from windlass.store import Row, Tx

HOURS_WORK: Final = "running hours"


class _WithRule(Struct):
    deployment_rule: DeploymentRule | UnsetType | None = UNSET


def environment_of_work(work: str) -> str:
    return work.removeprefix(f"{HOURS_WORK}:")


def hours_of(row: Row) -> RunningHours | None:
    """Returns the running hours of an environment; None if it runs at all hours."""
    rule = row.read(_WithRule).deployment_rule
    return hours_of_rule(rule) if rule else None


async def schedule_hours(tx: Tx, row: Row) -> None:
    """Schedules the next change by the running hours of an environment. Nothing changes before that."""
    work = f"{HOURS_WORK}:{row.id}"
    await tx.work.delete_of(work)
    if hours := hours_of(row):
        due = hours.next_change(tx.now // MINUTE) * MINUTE
        await tx.work.schedule(HOURS_WORK, work, due, row.org)
