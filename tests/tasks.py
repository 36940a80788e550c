"""A made-up kind of service that runs once: a shell script, run to its end.

    async with make_world(**with_tasks()) as world: ...

On an engine that runs images the script runs in the box of the Docker tests, else on the machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.engines.dockers import BOX
from windlass.base.subprocesses import in_thread
from windlass.control.context.context import Context
from windlass.control.kinds import find_kinds as declared_kinds
from windlass.control.kinds import kinds_of
from windlass.control.kinds.service_kind import ServiceKind
from windlass.control.workloads.build_input import BuildInput
from windlass.core.declare.fields import Mebibytes, Millicores, Name, Text
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.core.declare.traits import deployable, has_deployments, has_logs, has_variables
from windlass.core.deploy.progress import BuildResult, BuiltArtifact
from windlass.engines.workload import Artifact, Workload
from windlass.families import find_declarations as declared_families
from windlass.families import registry_of
from windlass.families.environment import environment
from windlass.store import Row


class TaskSpec(Spec):
    name: Name
    script: Text = "echo done"
    max_duration_seconds: int = 600
    cpu: Millicores = 100
    memory: Mebibytes = 64


class TaskShown(Shown):
    environment: Owner
    service_type: str = "TASK"


task = Family(
    "task",
    TaskSpec,
    parent=environment,
    shown=TaskShown,
    traits=(deployable(runs_once=True), has_deployments, has_logs, has_variables),
)


class TaskKind(ServiceKind[TaskSpec]):
    family = task

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        place = await ctx.places.of(build_input.service.id)
        if place.engine.takes == "image":
            artifact = Artifact(kind="image", ref=BOX, key=BOX)
        else:
            folder = Path(ctx.settings.data_dir, "tasks")
            await in_thread((folder / "app").mkdir, 0o755, True, True)
            artifact = Artifact(kind="native", ref=str(folder), key="task")
        build_input.say("Nothing is built")
        return BuiltArtifact(BuildResult(artifact))

    async def workload(self, ctx: Context, service: Row, usual: Workload) -> Workload:
        spec = service.read(TaskSpec)
        return replace(usual, command=("/bin/sh", "-c", spec.script), time_limit=spec.max_duration_seconds)


def with_tasks() -> dict[str, Any]:
    """The parameters for `install` and `make_world` that add tasks to the usual families."""
    return {
        "families": registry_of(*declared_families(), task),
        "kinds": kinds_of(*declared_kinds(), TaskKind()),
    }


def run_of(deployment: Any) -> tuple[int | None, str, list[str]]:
    """Exit code, reason and last lines."""
    run = deployment["run"]
    return run["exit_code"], run["reason"], run["output"]
