"""Ends the instances of a service. A stop keeps the service's data, and an uninstall erases it.

A deletion also removes the service's records, once everything that was created for it is erased.
"""

from __future__ import annotations

from windlass.base.clock import SECOND
from windlass.builders.builder import BuildError
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.release import drain, end_up_to
from windlass.control.deploying.retry_later import run_when_available
from windlass.control.deploying.routes import all_endpoints, give_up_public_ports, refresh
from windlass.control.deploying.steps.job_commands import run_end_command
from windlass.control.deploying.steps.removal_run import RemovalFailed, run_before_removal
from windlass.core.deploy.states import Do, Progress
from windlass.engines.engine import EngineError


async def stop(ledger: Ledger) -> None:
    if not await run_end_command(ledger):
        return
    try:
        await run_before_removal(ledger)
        await run_when_available(ledger, lambda: end_all(ledger))
    except RemovalFailed as failed:
        await ledger.fail(str(failed), output=failed.output)
        return
    except EngineError as error:
        await ledger.fail(str(error))
        return
    await ledger.ctx.point("stopped")
    await _end(ledger)


async def uninstall(ledger: Ledger) -> None:
    ctx, service = ledger.ctx, ledger.service
    if not await run_end_command(ledger):
        return
    try:
        await run_before_removal(ledger)
        await run_when_available(ledger, lambda: end_all(ledger))
        await ctx.point("about to discard what it stored")
        await ledger.check_claim()
        await run_when_available(ledger, lambda: ledger.place.engine.discard(service.id))
        await ctx.sites.discard(service.id)
    except RemovalFailed as failed:
        await ledger.fail(str(failed), output=failed.output)
        return
    except EngineError as error:
        await ledger.fail(str(error))
        return
    await ctx.point("uninstalled")
    await _end(ledger)


async def _end(ledger: Ledger) -> None:
    await give_up_public_ports(ledger.ctx, ledger.service.id)
    await ledger.end()


async def end_all(ledger: Ledger) -> None:
    """Ends all instances. First new requests are routed away, then requests in progress finish."""
    ctx, service = ledger.ctx, ledger.service
    workload = await ledger.find_serving()
    await ledger.clear_serving()
    await ctx.point("about to route away")
    await refresh(ctx, service.id)
    if workload:
        await ctx.point("routed away")
        seen = await ledger.place.engine.observe(service.id)
        await drain(ledger.place, all_endpoints(workload, seen.instances), workload.grace)
        await ctx.point("drained to stop")
    grace = workload.grace if workload else ctx.settings.stop_seconds
    await end_up_to(ctx, service.id, ledger.deployment.number, grace)


async def delete(ledger: Ledger) -> None:
    ctx, service = ledger.ctx, ledger.service
    if not await run_end_command(ledger):
        return
    say = ledger.say
    try:
        await run_before_removal(ledger)
        say("Ending what runs")
        await run_when_available(ledger, lambda: end_all(ledger))
        await ctx.point("about to erase what it stored")
        await ledger.check_claim()
        say("Erasing what it stored")
        await run_when_available(ledger, lambda: ledger.place.engine.discard(service.id))
        await ctx.point("about to erase what was built")
        await run_when_available(ledger, lambda: ledger.place.builder.discard(service.id))
        await ledger.place.servers.discard(service.id)
        await ctx.sites.discard(service.id)
        await ctx.git.discard(service.id)
    except RemovalFailed as failed:
        say(f"Failed: {failed}")
        await ledger.fail(str(failed), output=failed.output)
        return
    except (EngineError, BuildError, OSError) as error:
        message = reason_of(error)
        say(f"Failed: {message}")
        await ledger.fail(message)
        return
    await ctx.point("about to delete")
    await ledger.delete()
    seconds = (ctx.clock.now() - ledger.deployment.created) / SECOND
    ctx.meters.deployments.observe(seconds, Do.DELETE.lower(), Progress.SUCCEEDED.lower())
    await ctx.point("deleted")


def reason_of(error: Exception) -> str:
    """Returns why a deletion failed, without file paths of this machine."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
