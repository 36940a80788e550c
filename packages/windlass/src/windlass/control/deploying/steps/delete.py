"""Takes away all that was made for a service, and then the service itself."""

from __future__ import annotations

from windlass.base.clock import SECOND
from windlass.builders.builder import BuildError
from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.patience import when_back
from windlass.control.deploying.steps.job_commands import run_end_command
from windlass.control.deploying.steps.removal_run import RemovalFailed, run_before_removal
from windlass.control.deploying.steps.stop import end_all
from windlass.core.deploy.states import Do, Progress
from windlass.engines.engine import EngineError


async def delete(ledger: Ledger) -> None:
    ctx, service = ledger.ctx, ledger.service
    if not await run_end_command(ledger):
        return
    say = ledger.say
    try:
        await run_before_removal(ledger)
        say("Ending what runs")
        await when_back(ledger, lambda: end_all(ledger))
        await ctx.point("about to erase what it stored")
        await ledger.check_claim()
        say("Erasing what it stored")
        await when_back(ledger, lambda: ledger.place.engine.discard(service.id))
        await ctx.point("about to erase what was built")
        await when_back(ledger, lambda: ledger.place.builder.discard(service.id))
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
    """Says why a deletion failed, without paths of this machine."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
