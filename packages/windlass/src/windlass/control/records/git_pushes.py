"""Records the result of a branch check in the pushes that caused it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from windlass.base import ids
from windlass.core.words.git_pushes import PushResult
from windlass.store import Row, Tx
from windlass.store.tables.git_pushes import GitPushRow

_RECORDED_RESULTS: Final = frozenset(
    {PushResult.DEPLOYED, PushResult.NO_WATCHED_PATH, PushResult.NOT_RUNNING}
)
"""Results of checks that are recorded even if no webhook has announced the commit."""


class LookedAt(NamedTuple):
    branch: str
    head: str
    result: PushResult


async def record_look(tx: Tx, service: Row, pending: Sequence[GitPushRow], check_result: LookedAt) -> None:
    """Sets the results of the pushes that were received before the check. If none of them announced the
    commit, records that the check found it."""
    elsewhere = [push for push in pending if push.branch not in {"", check_result.branch}]
    here = [push for push in pending if push.branch in {"", check_result.branch}]
    of_head = [push for push in here if push.commit_id in {"", check_result.head}]
    others = [push for push in here if push.commit_id not in {"", check_result.head}]
    await tx.git_pushes.settle(of_head[:1], check_result.result)
    # The newest push has caused what was done; earlier ones announced the same commit.
    await tx.git_pushes.settle(of_head[1:], PushResult.ALREADY_KNOWN)
    await tx.git_pushes.settle(others, PushResult.OTHER_COMMIT, f"it is at {check_result.head[:12]}")
    await tx.git_pushes.settle(elsewhere, PushResult.OTHER_BRANCH)
    if not of_head and check_result.result in _RECORDED_RESULTS:
        webhook = others[0].webhook if others else ""
        row = GitPushRow(
            ids.new_id(),
            webhook,
            service.id,
            "",
            tx.now,
            "",
            check_result.branch,
            check_result.head,
            check_result.result,
        )
        await tx.git_pushes.add([row])
