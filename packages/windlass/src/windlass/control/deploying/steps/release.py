"""Releases a new generation: it starts beside the old one, serves once it is healthy, and replaces it.

A release that fails or is cancelled is removed, and the old generation keeps serving.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from typing import Final

from windlass.builders.builder import BuildError
from windlass.control.deploying.first_page_check import check_first_page
from windlass.control.deploying.freezing import freeze
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.release import (
    LAST_LINES,
    ReleaseFailed,
    apply,
    bring_up,
    last_output,
    retire_others,
    take_down,
)
from windlass.control.deploying.routes import refresh
from windlass.control.deploying.sites import remove_former
from windlass.control.deploying.steps.job_commands import cancel_awaited_run
from windlass.control.deploying.steps.one_off import abandon_one_off
from windlass.control.deploying.steps.release_command import release_output, run_release_command
from windlass.control.records.deployments import has_switched, particulars
from windlass.control.records.kept_builds import kept_builds, may_have_built
from windlass.control.records.sealed_workload import decrypt_workload
from windlass.core.deploy.automatic_port import with_port
from windlass.core.deploy.scaling import count_of
from windlass.core.deploy.states import Progress
from windlass.core.words.variables import UnresolvableVariable
from windlass.engines.engine import EngineError, ListensElsewhere
from windlass.engines.start_remedies import LOOKED_AT, remedy_of, with_remedy
from windlass.engines.workload import Workload

_MAX_EARLIER_DEPLOYMENTS: Final = 5
"""Maximum number of earlier deployments whose advice is not given again."""


async def release(ledger: Ledger) -> None:
    ctx, service = ledger.ctx, ledger.service
    old = await ledger.find_serving()
    try:
        new = await freeze(ledger)
    except (UnresolvableVariable, EngineError, BuildError) as error:
        await ledger.fail(str(error))
        return
    if has_switched(ledger.deployment, ledger.status):
        # The step was interrupted after the switch. The keep step, which follows, reports problems since
        # then.
        seen = await refresh(ctx, service.id)
    else:
        count = count_of(new, ledger.status.instances or new.instances)
        healthy = await _bring_up(ledger, new, old, count)
        if healthy is None or not await ledger.switch(new := healthy, count):
            return
        await ctx.point("switched")
        seen = await refresh(ctx, service.id)
        await ctx.point("routed")
    await retire_others(ctx, new, new.generation, known_instances=seen)
    await ledger.succeed(await check_first_page(ctx, new, seen))
    await prune(ledger)
    await remove_former(ctx, new, old)


async def _bring_up(
    ledger: Ledger, new_workload: Workload, old_workload: Workload | None, count: int
) -> Workload | None:
    """Returns the workload once all instances are healthy, with the port on which the program listens.
    Returns None if the deployment failed; the old generation then serves."""
    failure, has_moved = particulars(ledger.deployment).message, False
    while not failure:
        try:
            await run_release_command(ledger, new_workload)
            await bring_up(
                ledger.ctx, new_workload, old_workload, count, ledger.check_claim, ledger.note_waiting
            )
            return new_workload
        except ListensElsewhere as elsewhere:
            if not has_moved:
                new_workload, has_moved = await _take_over(ledger, new_workload, elsewhere), True
                continue
            failure = str(elsewhere)  # the program chooses another port at each start
        except ReleaseFailed as failed:
            failure = str(failed)
        await ledger.give_up(failure)
    await _take_down(ledger, new_workload, old_workload, count, failure)
    return None


async def _take_over(ledger: Ledger, workload: Workload, elsewhere: ListensElsewhere) -> Workload:
    """Ends the instances and freezes the workload again with the port on which the program listens. The
    caller then starts them again. An interruption before the freeze repeats this; after the freeze, the
    repeated step starts the instances with the new port."""
    ctx = ledger.ctx
    ledger.say(
        f"{workload.name} listens on port {elsewhere.port}, and not on the one that Windlass chose: "
        f"it is started again with port {elsewhere.port}. To choose yourself: {elsewhere}"
    )
    await apply(ctx, workload, 0, ledger.check_claim)
    return await ledger.refreeze(with_port(workload, elsewhere.port))


async def _take_down(
    ledger: Ledger, new_workload: Workload, old_workload: Workload | None, count: int, failure: str
) -> None:
    ctx = ledger.ctx
    await take_down(ctx, new_workload, old_workload, count, ledger.check_claim)
    of_command = await release_output(ledger)
    output = (
        of_command or await last_output(ctx, new_workload.service, new_workload.deployment, LOOKED_AT)
    ).splitlines()
    if of_command and (remedy := remedy_of("", "the release command", output)):
        failure = f"{remedy}. {failure}"
    former = await _former_failures(ledger)
    await ledger.fail(
        with_remedy(failure, new_workload.name, output, former), output="\n".join(output[-LAST_LINES:])
    )


async def _former_failures(ledger: Ledger) -> list[str]:
    """Returns the messages of the failed deployments since the last one that succeeded."""
    number = ledger.deployment.number - 1
    rows = await ledger.ctx.store.reads.deployments.ended(ledger.service.id, _MAX_EARLIER_DEPLOYMENTS, number)
    failed = takewhile(lambda row: row.status == Progress.FAILED, rows)
    return [particulars(row).message for row in failed]


async def prune(ledger: Ledger) -> None:
    """Removes builds that are no longer needed. Safe only here, because the holder of the claim is the only
    worker that builds for this service. Skipped without a build, because the call may be slow. Builds that an
    unavailable builder could not remove are removed after the next build."""
    ctx, service = ledger.ctx, ledger.service
    await ctx.point("about to prune")
    if await may_have_built(ctx, service.id):
        with suppress(BuildError):
            await ledger.place.builder.prune(service.id, await kept_builds(ctx, service.id))
    await ctx.point("pruned")


async def abandon(ledger: Ledger) -> None:
    """Removes a deployment that was cancelled. The earlier version keeps serving."""
    deployment = ledger.deployment
    if particulars(deployment).command:
        await abandon_one_off(ledger)
        return
    await cancel_awaited_run(ledger)
    workload = decrypt_workload(ledger.ctx, deployment)
    old = await ledger.find_serving()
    if workload and deployment.status == Progress.DEPLOYING:
        await take_down(ledger.ctx, workload, old, ledger.status.instances, ledger.check_claim)
    await ledger.ctx.point("abandoned")
    await ledger.cancel()
