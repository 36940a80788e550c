"""Schedules the checks of branches for services with automatic deployments: one recurring work item for each
service."""

from __future__ import annotations

from typing import Final

from windlass.store import Tx

AUTO_DEPLOY: Final = "auto deploy"
"""The kind of work that checks a branch."""
NEXT_COMMIT: Final = ""
"""A placeholder for the commit that the next check finds. The branch was just chosen, so that commit is not
deployed."""


def service_of_work(work: str) -> str:
    """Returns the service id in the id of a work item."""
    return work.removeprefix(f"{AUTO_DEPLOY}:")


async def watch_branch(tx: Tx, service: str, org: str, environment: str, due_at: int) -> None:
    """Schedules branch checks of a service, the first one at `due_at`. They recur until the service's
    settings end them."""
    await tx.work.schedule(AUTO_DEPLOY, f"{AUTO_DEPLOY}:{service}", due_at, org, environment=environment)


async def skip_next_commit(tx: Tx, service: str) -> None:
    """Marks the commit that the next check finds as seen, because the branch was just chosen."""
    await tx.branch_heads.record(service, NEXT_COMMIT)
