"""Services that deploy new commits by themselves: each is a piece of work that comes again and again."""

from __future__ import annotations

from typing import Final

from windlass.store import Tx

AUTO_DEPLOY: Final = "auto deploy"
"""The kind of the work."""
NEXT_COMMIT: Final = ""
"""Stands for the commit that the next check finds: it counts as seen, because its branch was just chosen."""


def service_of_work(work: str) -> str:
    """Returns the id of the service whose branch is checked, from the id of the work."""
    return work.removeprefix(f"{AUTO_DEPLOY}:")


async def watch_branch(tx: Tx, service: str, org: str, environment: str, due: int) -> None:
    """Schedules checks of the branch of a service, the first when it is due, until its settings end them."""
    await tx.work.schedule(AUTO_DEPLOY, f"{AUTO_DEPLOY}:{service}", due, org, environment=environment)


async def skip_next_commit(tx: Tx, service: str) -> None:
    """Makes the next check record the newest commit without deploying it, because the branch was just
    chosen."""
    await tx.branch_heads.note(service, NEXT_COMMIT)
