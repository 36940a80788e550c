"""Services that deploy new commits by themselves: each is a piece of work that comes again and again."""

from __future__ import annotations

from typing import Final

from windlass.store import Tx

AUTO_DEPLOY: Final = "auto deploy"
"""The kind of the work."""
NEXT_COMMIT: Final = ""
"""Stands for the commit that is found next: its branch was just chosen, so that it is not new."""


def watched_service(work: str) -> str:
    """Returns the service that a piece of this work is for."""
    return work.removeprefix(f"{AUTO_DEPLOY}:")


async def watch_branch(tx: Tx, service: str, org: str, due: int) -> None:
    """Has the branch of a service looked at from then on, until its settings end that."""
    await tx.work.ask(AUTO_DEPLOY, f"{AUTO_DEPLOY}:{service}", due, org)


async def watch_another_branch(tx: Tx, service: str) -> None:
    """Has the newest commit of a branch count as seen, because the branch was just chosen."""
    await tx.branch_heads.note(service, NEXT_COMMIT)
