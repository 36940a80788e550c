"""Jobs: an image or a repository build, whose runs are started by a timetable or by events."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from windlass.base.errors import Conflict
from windlass.control.context.context import Context
from windlass.control.context.neighbours import MainPort
from windlass.control.context.place import Place
from windlass.control.kinds.program_kind import MAX_CPU, MAX_MEMORY
from windlass.control.kinds.service_kind import (
    NO_IMAGES,
    FindAddress,
    Offer,
    PreviewSource,
    ServiceKind,
)
from windlass.control.records.job_outputs import BadOutput, JobOutputs, outputs_of, store_outputs
from windlass.control.records.previews import PreviewMark
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.branch_choice import BranchChoice, watch_created, watch_updated
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.builds import build
from windlass.control.workloads.deployed_commit import commit_fields, with_deployed_commit
from windlass.control.workloads.images import (
    ImageSource,
    fetch_image,
    prepare_image,
    registry_fields,
    shown_registry,
)
from windlass.core.declare.document import Document
from windlass.core.declare.job_schedules import CronSchedule, JobEvent, JobSchedule
from windlass.core.declare.resource import clash
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.core.declare.spec import Spec
from windlass.core.deploy.injected_variables import (
    BuiltIn,
    prefixes_of,
    with_compatible_keys,
    without_secrets,
)
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.core.deploy.stage_order import Precedence
from windlass.core.deploy.states import Do
from windlass.core.settings.values import SETTINGS_FIELD, changed_in
from windlass.core.words.due_times import UnknownZone, zone
from windlass.core.words.variables import UnresolvableVariable
from windlass.engines.job_plans import JobPlan, RunCommand, RunEvent
from windlass.engines.workload import Artifact, Workload
from windlass.families.job import (
    CRON,
    LIFECYCLE,
    ChosenJob,
    ForcedEvent,
    Job,
    JobDeployRequest,
    JobDocker,
    JobDockerShown,
    JobShown,
    job,
)
from windlass.store import Reads, Row, Tx

_EVENTS: Final = {
    "START": RunEvent.ON_START,
    "STOP": RunEvent.ON_STOP,
    "DELETE": RunEvent.ON_DELETE,
    "CRON": RunEvent.CRON,
}
_EVENT_OF: Final = {Do.RUN: RunEvent.ON_START, Do.STOP: RunEvent.ON_STOP} | dict.fromkeys(
    (Do.UNINSTALL, Do.DELETE), RunEvent.ON_DELETE
)


class JobKind(ServiceKind[Job]):
    family = job
    instead_of_manifests = ""
    precedence = Precedence.PREPARATION
    has_runs = True
    more_time = "raise max_duration_seconds"

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Job]) -> None:
        draft.give(maximum_cpu=MAX_CPU, maximum_memory=MAX_MEMORY, **await _shown_fields(tx, draft.spec))
        await watch_created(ctx, tx, draft, _branch_choice(draft.spec))
        if draft.copy_of and (outputs := await _outputs_for_copy(ctx, tx, draft.copy_of, draft.above)):
            try:
                await store_outputs(ctx, tx, draft.org, draft.above.id, draft.id, outputs)
            except BadOutput as error:
                raise Conflict(str(error)) from error

    def obstacle_of(self, place: Place, spec: Job) -> str:
        return f"source.image: {NO_IMAGES}" if spec.source.image and place.takes == "native" else ""

    async def updating(self, ctx: Context, tx: Tx, change: Change[Job]) -> None:
        if _type_of(change.spec) != _type_of(change.before):
            raise clash(
                "schedule", f"create another job: this one is {_type_of(change.before)}, and stays that"
            )
        await watch_updated(ctx, tx, change, _branch_choice(change.spec), _branch_choice(change.before))
        change.extras |= await _shown_fields(tx, change.spec)
        if (docker := change.spec.source.docker) and docker.git_repository:
            shown = change.row.read(JobShown).source.docker or JobDockerShown()
            repository = with_deployed_commit(docker.git_repository, shown.git_repository)
            source = {**msgspec.to_builtins(docker), "git_repository": repository}
            change.extras["source"] = {"docker": source}

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        if not isinstance(body, JobDeployRequest | ChosenJob):
            return ChosenVersion()
        return ChosenVersion(git_commit_id=body.git_commit_id or None, image_tag=body.image_tag or None)

    def deploys_new_commits(self, service: Row) -> bool:
        return _branch_choice(service.read(Job)).is_watched

    def check_version(self, service: Row, version: ChosenVersion) -> None:
        has_image = bool(service.read(Job).source.image)
        if version.image_tag and not has_image:
            raise clash("image_tag", "leave it out: the job is built from a repository")
        if version.git_commit_id and has_image:
            raise clash("git_commit_id", "leave it out: the job runs an image")

    def asked_event(self, service: Row, query: Spec | None) -> str:
        word = query.force_event if isinstance(query, ForcedEvent) else None
        if not word:
            return ""
        event = _EVENTS[word]
        if event not in (commands := _commands(service.read(Job))):
            raise Conflict(f"forceEvent: choose one of the events of the job: {_words_of(commands)}")
        return event

    def event_at(self, action: Do) -> str:
        return _EVENT_OF.get(action, "")

    def settings(self, version: ChosenVersion | Particulars) -> Mapping[str, object]:
        return {"source": {"image": {"tag": version.image_tag}}} if version.image_tag else {}

    def in_preview(self, service: Row, source: PreviewSource | None) -> Document | None:
        changes: Document = {"auto_deploy": False}
        if source is None:
            return changes
        if source.image_tag:
            return changes | {"source": {"image": {"tag": source.image_tag}}}
        return changes | {"source": {"docker": {"git_repository": source.changes}}}

    def deploys_new_tags(self, service: Row) -> bool:
        spec = service.read(Job)
        return bool(spec.auto_deploy and spec.source.image)

    def request_of_tag(self, tag: str) -> Spec:
        return JobDeployRequest(image_tag=tag)

    def image(self, service: Row) -> ImageSource | None:
        image = service.read(Job).source.image
        return ImageSource(str(image.image_name), str(image.tag), image.registry_id) if image else None

    def runs_in_preview(self, service: Row) -> bool:
        return not service.read(Job).schedule.cronjob

    def repository(self, service: Row) -> GitRepositoryRequest | None:
        return _repository(service.read(Job))

    def _as_application(self, service: Row) -> Row:
        """Returns the job in the form of an application with the same source, because builds read
        applications."""
        spec = service.read(Job)
        docker, command = spec.source.docker or JobDocker(), _first_command(_commands(spec))
        body = {
            "name": spec.name,
            "git_repository": _repository(spec),
            "dockerfile_path": docker.dockerfile_path or None,
            "dockerfile_raw": docker.dockerfile_raw or "",
            "docker_target_build_stage": docker.docker_target_build_stage or None,
            "entrypoint": shlex.join(command.entrypoint),
            "arguments": command.arguments,
            SETTINGS_FIELD: changed_in(service.body),
        }
        return replace(service, body=msgspec.json.encode(body))

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        spec = build_input.service.read(Job)
        if image := spec.source.image:
            place = await ctx.places.of(build_input.service.id)
            if why := self.obstacle_of(place, spec):
                raise UnresolvableVariable(why)
            source = ImageSource(str(image.image_name), str(image.tag), image.registry_id)
            return await prepare_image(ctx, build_input, source)
        return await build(ctx, replace(build_input, service=self._as_application(build_input.service)))

    async def fetch(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> None:
        if image := build_input.service.read(Job).source.image:
            await fetch_image(ctx, build_input, artifact, image.registry_id)

    def with_registry(self, service: Row, registry: Row) -> Mapping[str, object]:
        return {"source": {"image": {"registry": registry_fields(registry)}}}

    def service_type(self, service: Row) -> str:
        return _type_of(service.read(Job))

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        if service.read(Job).source.image:
            return True
        place = await ctx.places.of(service.id)
        return await place.builder.find(service.id, artifact.key) is not None

    async def workload(self, ctx: Context, service: Row, default_workload: Workload) -> Workload:
        if default_workload.artifact.static is not None:
            raise UnresolvableVariable(
                "source: choose a repository with a program: this one is a static site"
            )
        spec = service.read(Job)
        plan = _plan(spec)
        if default_workload.artifact.kind == "native" and not default_workload.artifact.command:
            _require_commands(plan)
        if plan.scheduled_at:
            _require_zone(plan.timezone)
        limit = spec.max_duration_seconds or default_workload.time_limit
        return replace(default_workload, job=plan, time_limit=float(limit))

    def deployed(self, service: Row, details: Particulars) -> Mapping[str, object]:
        """Returns the document fields that show the running commit."""
        if (commit := details.commit) is None or not service.read(Job).source.docker:
            return {}
        return {"source": {"docker": {"git_repository": commit_fields(commit)}}}

    def shown_version(self, service: Row, details: Particulars) -> Document:
        spec = service.read(Job)
        image = spec.source.image
        return {
            "commit": details.commit,
            "image_name": image.image_name if image else "",
            "tag": (details.image_tag or image.tag or "") if image else "",
            "schedule": _shown_schedule(spec.schedule, details.event),
            "job_type": _type_of(spec),
            "build_pod_name": None,
        }

    # Variables for other services of the environment

    def main_port(self, service: Row) -> MainPort | None:
        return None

    async def listed_variables(self, ctx: Context, reads: Reads, service: Row) -> list[BuiltIn]:
        outputs = without_secrets(await _outputs(ctx, reads, service))
        keys = {variable.key for variable in outputs}
        usual = await super().listed_variables(ctx, reads, service)
        return [*(variable for variable in usual if variable.key not in keys), *outputs]

    async def offer(self, ctx: Context, reads: Reads, environment: str, address: FindAddress) -> Offer:
        """Returns the outputs of the last run that wrote any."""
        variables: list[BuiltIn] = []
        for row in await reads.resources.of_parent(environment, self.family.name):
            variables += await _outputs(ctx, reads, row)
        return Offer(with_compatible_keys(variables))


async def _outputs_for_copy(ctx: Context, reads: Reads, original: Row, environment: Row) -> JobOutputs:
    """Returns the outputs with which a copy begins: without secrets where the code of a fork runs, which
    would get them as variables."""
    outputs = await outputs_of(ctx, reads, original.id)
    mark = environment.read(PreviewMark).preview
    if mark and mark.without_secrets:
        return {word: output for word, output in outputs.items() if not output.is_sensitive}
    return outputs


async def _outputs(ctx: Context, reads: Reads, service: Row) -> list[BuiltIn]:
    prefix, _ = prefixes_of(job.enum_value, service.id)
    return [
        BuiltIn(
            owner=service.id,
            key=prefix + word,
            value=output.value,
            secret=output.is_sensitive,
            description=output.description,
        )
        for word, output in (await outputs_of(ctx, reads, service.id)).items()
    ]


def _branch_choice(spec: Job) -> BranchChoice:
    repository = _repository(spec)
    is_watched = bool(spec.auto_deploy and repository)
    return BranchChoice(is_watched, repository, "source.docker.git_repository")


def _repository(spec: Job) -> GitRepositoryRequest | None:
    return (spec.source.docker and spec.source.docker.git_repository) or None


def _shown_schedule(schedule: JobSchedule, event: str) -> Document:
    """Returns a schedule for histories, in the forms of both versions."""
    cron = schedule.cronjob
    commands = {"on_start": schedule.on_start, "on_stop": schedule.on_stop, "on_delete": schedule.on_delete}
    shown: Document = {
        "event": RunEvent.CRON if cron else event or RunEvent.ON_START,
        "schedule_at": cron.scheduled_at if cron else None,
        "lifecycle_type": schedule.lifecycle_type or "GENERIC",
        **{name: _shown_command(command) for name, command in commands.items() if command},
    }
    if cron:
        shown["cron_job"] = {
            **_shown_command(cron),
            "scheduled_at": cron.scheduled_at,
            "timezone": cron.timezone,
        }
    return shown


def _shown_command(command: JobEvent | CronSchedule) -> Document:
    return {"arguments": command.arguments, "entrypoint": command.entrypoint or ""}


def _type_of(spec: Job) -> str:
    return CRON if spec.schedule.cronjob else LIFECYCLE


async def _shown_fields(reads: Reads, spec: Job) -> dict[str, object]:
    extras: dict[str, object] = {"job_type": _type_of(spec)}
    if image := spec.source.image:
        stored = msgspec.to_builtins(image)
        registry = await shown_registry(reads, str(image.image_name), image.registry_id)
        extras["source"] = {"image": {**stored, "registry": registry}}
    return extras


def _commands(spec: Job) -> dict[RunEvent, RunCommand]:
    schedule = spec.schedule
    parts = {
        RunEvent.ON_START: schedule.on_start,
        RunEvent.ON_STOP: schedule.on_stop,
        RunEvent.ON_DELETE: schedule.on_delete,
        RunEvent.CRON: schedule.cronjob,
    }
    return {event: _command(part) for event, part in parts.items() if part}


def _command(trigger: JobEvent | CronSchedule) -> RunCommand:
    return RunCommand(tuple(shlex.split(trigger.entrypoint or "")), tuple(trigger.arguments))


def _first_command(commands: Mapping[RunEvent, RunCommand]) -> RunCommand:
    return next(iter(commands.values()))


def _plan(spec: Job) -> JobPlan:
    cron = spec.schedule.cronjob or CronSchedule()
    return JobPlan(
        commands=_commands(spec),
        retries=spec.max_nb_restart,
        scheduled_at=cron.scheduled_at or "",
        timezone=cron.timezone,
        runs_missed=cron.missed_runs == "ONCE",
    )


def _require_commands(plan: JobPlan) -> None:
    for event, command in plan.commands.items():
        if not (command.entrypoint or command.arguments):
            where = "cronjob" if event is RunEvent.CRON else event.lower()
            raise UnresolvableVariable(
                f'schedule.{where}: set arguments, such as ["python", "job.py"], because the repository '
                "names no command"
            )


def _require_zone(name: str) -> None:
    try:
        zone(name)
    except UnknownZone as error:
        raise UnresolvableVariable(f"schedule.cronjob.timezone: {error}") from error


def _words_of(commands: Mapping[RunEvent, RunCommand]) -> str:
    return ", ".join(word for word, event in _EVENTS.items() if event in commands)


kind = JobKind()
