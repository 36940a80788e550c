"""Passes the pushes that a webhook received on to the services of the repository: checks the branch of each
service that a push may concern now, instead of at the next regular check.

A webhook has no other effect. The check decides what is deployed, from the state of the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.base import ids
from windlass.control.context.context import Context
from windlass.control.deploying.ledger import fence
from windlass.control.records.branch_watches import watch_branch
from windlass.control.records.git_webhooks import webhook_of_work
from windlass.control.records.previews import look_soon, previews_of, tend_soon
from windlass.control.services.deployment_rules import gives_previews
from windlass.control.services.git_webhooks import services_of_repository
from windlass.core.words.git_pushes import PushResult
from windlass.families.environment import environment
from windlass.store import Claim, Row, Tx
from windlass.store.tables.git_pushes import GitPushRow
from windlass.store.tables.git_webhooks import GitWebhookRow


async def pass_on_pushes(ctx: Context, claim: Claim) -> None:
    reads = ctx.store.reads
    webhook = await reads.git_webhooks.get(webhook_of_work(claim.id))
    if webhook is None:
        await ctx.store.write(lambda tx: tx.work.done(claim))
        return
    waiting = await reads.git_pushes.waiting(webhook.id)
    services = await services_of_repository(ctx, reads, webhook.org, webhook.repository)
    rows = [*_rows_of(ctx, webhook, waiting, services)]

    async def change(tx: Tx) -> None:
        await fence(tx, claim)
        await tx.git_pushes.settle(waiting, PushResult.PASSED_ON if services else PushResult.NO_SERVICE)
        await tx.git_pushes.add(rows)
        concerned = {row.service for row in rows if row.result == PushResult.RECEIVED}
        for service in services:
            if service.id in concerned:
                await watch_branch(tx, service.id, service.org, service.parent, tx.now)
        await _look_at_previews(tx, webhook, services)
        await tx.work.done(claim)

    await ctx.store.write(change)


async def _look_at_previews(tx: Tx, webhook: GitWebhookRow, services: Sequence[Row]) -> None:
    """Has the pull requests of the repository looked at, for the environments that give them previews."""
    is_any = False
    for id in sorted({service.parent for service in services}):
        base = await tx.resources.find(environment.name, id)
        if base is None:
            continue
        rows = await previews_of(tx, id)
        for row in rows:
            await tend_soon(tx, row)
        if rows or gives_previews(base):
            is_any = True
            await look_soon(tx, base)
    result = PushResult.PULL_REQUESTS_LOOKED_AT if is_any else PushResult.NO_PREVIEWS
    await tx.git_pushes.turn(webhook.id, PushResult.PULL_REQUEST, result)


def _rows_of(
    ctx: Context, webhook: GitWebhookRow, waiting_pushes: Sequence[GitPushRow], services: Sequence[Row]
) -> Iterator[GitPushRow]:
    """Yields a row for each push and each service. Only the newest push of a branch causes a check."""
    newest = {push.branch: push for push in waiting_pushes}
    for push in newest.values():
        for service in services:
            yield GitPushRow(
                ids.new_id(),
                webhook.id,
                service.id,
                push.delivery,
                push.arrived,
                push.event,
                push.branch,
                push.commit_id,
                _result_for(ctx, service, push),
                times=sum(other.times for other in waiting_pushes if other.branch == push.branch),
            )


def _result_for(ctx: Context, service: Row, push: GitPushRow) -> PushResult:
    kind = ctx.kinds[service.family]
    repository = kind.repository(service)
    if not kind.deploys_new_commits(service):
        return PushResult.AUTO_DEPLOY_OFF
    # Without a branch, the service follows the default branch, which the look finds out.
    is_other = push.branch and repository and repository.branch and repository.branch != push.branch
    return PushResult.OTHER_BRANCH if is_other else PushResult.RECEIVED
