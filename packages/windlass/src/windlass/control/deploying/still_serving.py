"""Says which version of a service serves after a deployment that failed or was cancelled."""

from __future__ import annotations

from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.records.deployments import name_of, particulars
from windlass.core.deploy.states import OUTPUT_FOLLOWS, RELEASES, Do
from windlass.engines.engine import EngineError
from windlass.engines.workload import Phase
from windlass.store import DeploymentRow, Row, StatusRow


async def still_serving(
    ctx: Context, place: Place, service: Row, status: StatusRow, deployment: DeploymentRow
) -> str:
    """Returns the sentence that belongs below the message; empty for deployments that release nothing."""
    if Do(deployment.action) not in RELEASES:
        return ""
    serving = await ctx.store.reads.deployments.get(status.serving) if status.serving else None
    if serving is None:
        return f"No version of {name_of(service)} serves now"
    try:
        instances = (await place.engine.observe(service.id)).of(serving.number).instances
    except EngineError as error:
        return (
            f"{_version(serving)} is to serve as before, but its engine does not say whether it runs: {error}"
        )
    if status.instances and not any(instance.phase is Phase.RUNNING for instance in instances):
        return f"{_version(serving)} is to serve as before, but none of its instances runs now"
    return f"{_version(serving)} still serves"


def _version(deployment: DeploymentRow) -> str:
    """Names the version of a deployment: v3 (174e685, deployment 01999f…)."""
    details = particulars(deployment)
    short = details.image_tag or (details.commit_id or "")[:7]
    return f"v{deployment.number} ({', '.join(filter(None, (short, f'deployment {deployment.id}')))})"


def with_remarks(failure: str, serving: str = "", output: str = "") -> str:
    """Returns the message of a deployment: the reason first, and the last lines of the service at the end."""
    apart = "\n" if "\n" in failure else ". "
    reason = apart.join(filter(None, (failure.rstrip(".") if serving else failure, serving)))
    return f"{reason}{OUTPUT_FOLLOWS}{output}" if output else reason
