"""Applications: built from a git repository or an uploaded folder, then run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.control.context.context import Context
from windlass.control.kinds.program_kind import ProgramKind, program
from windlass.control.kinds.service_kind import PreviewSource
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.application_settings import with_settings
from windlass.control.workloads.automatic_ports import (
    remark_on_ports,
    settle_ports,
    shown_ports,
    with_automatic_port,
)
from windlass.control.workloads.branch_choice import BranchChoice, watch_created, watch_updated
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.builds import build
from windlass.control.workloads.deployed_commit import commit_fields, with_deployed_commit
from windlass.control.workloads.repositories import ask_for_copy, holder_fact, push_url
from windlass.core.declare.document import Document
from windlass.core.declare.resource import clash
from windlass.core.declare.shapes import PUSHED_REPOSITORY
from windlass.core.declare.spec import Spec
from windlass.core.declare.traits import DeployRequest
from windlass.core.deploy.automatic_port import marked_as_automatic
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.core.settings.values import AdvancedValues
from windlass.engines.workload import Artifact, Workload
from windlass.families.application import (
    GIT_SOURCE,
    Application,
    ApplicationShown,
    ChosenApplication,
    application,
)
from windlass.store import Row, Tx


class ApplicationKind(ProgramKind[Application]):
    family = application
    instead_of_manifests = ""
    host_word = "app"
    has_short_results = True

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Application]) -> None:
        settle_ports(draft.spec, None, is_full=draft.is_full)
        draft.give(push_url=push_url(ctx, draft.id))
        await super().creating(ctx, tx, draft)
        _check_branch(draft.spec)
        await watch_created(ctx, tx, draft, _branch_choice(draft.spec))

    async def created(self, ctx: Context, tx: Tx, draft: Draft[Application]) -> None:
        original = draft.copy_of
        if original is not None and takes_pushes(draft.spec):
            await ask_for_copy(tx, draft.id, original.id, original.org)

    async def updating(self, ctx: Context, tx: Tx, change: Change[Application]) -> None:
        settle_ports(change.spec, change.row.read(ApplicationShown), is_full=change.is_full)
        await super().updating(ctx, tx, change)
        if not change.before.auto_deploy:
            _check_branch(change.spec)
        await watch_updated(ctx, tx, change, _branch_choice(change.spec), _branch_choice(change.before))
        if takes_pushes(change.spec) and not takes_pushes(change.before):
            await tx.facts.set(holder_fact(change.row.id), b"")
        change.extras["push_url"] = push_url(ctx, change.row.id)
        if new := change.spec.git_repository:
            shown = change.row.read(ApplicationShown).git_repository
            change.extras["git_repository"] = with_deployed_commit(new, shown)

    def shown_version(self, service: Row, details: Particulars) -> Document:
        return {"build_pod_name": "", **({"commit": details.commit} if details.commit else {})}

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        if not isinstance(body, DeployRequest | ChosenApplication):
            return ChosenVersion()
        return ChosenVersion(git_commit_id=body.git_commit_id or None, upload=body.upload_id or None)

    def needs_upload(self, service: Row) -> bool:
        return service.read(Application).source != GIT_SOURCE

    def deploys_new_commits(self, service: Row) -> bool:
        spec = service.read(Application)
        # A push deploys by itself.
        return bool(spec.auto_deploy and spec.source == GIT_SOURCE) and not takes_pushes(spec)

    def in_preview(self, service: Row, source: PreviewSource | None) -> Document | None:
        changes = super().in_preview(service, source)
        return changes if changes is None or source is None else changes | {"git_repository": source.changes}

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        return await build(ctx, build_input)

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        place = await ctx.places.of(service.id)
        return await place.builder.find(service.id, artifact.key) is not None

    async def compute(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> Workload:
        workload = await super().compute(ctx, build_input, artifact)
        if build_input.service.read(Application).automatic_port:
            build_input.say(remark_on_ports(workload))
        return workload

    async def workload(self, ctx: Context, service: Row, default_workload: Workload) -> Workload:
        spec = with_automatic_port(service.read(Application), default_workload)
        workload = with_settings(spec, program(spec, default_workload, AdvancedValues(service.body)))
        return marked_as_automatic(workload) if spec.automatic_port else workload

    def frozen(self, service: Row, workload: Workload) -> Mapping[str, object]:
        """Returns the document fields that show the chosen port."""
        shown = service.read(ApplicationShown)
        if not shown.automatic_port or not all(port.automatic for port in workload.ports):
            return {}
        ports = msgspec.to_builtins(shown_ports(workload, shown.ports))
        return {} if ports == msgspec.to_builtins(shown.ports) else {"ports": ports}

    def release_settings(self, settings: Document) -> Document:
        """Leaves out an automatic port, because each deployment chooses it."""
        if not settings.get("automatic_port"):
            return settings
        return {name: value for name, value in settings.items() if name != "ports"}

    def deployed(self, service: Row, details: Particulars) -> Mapping[str, object]:
        """Returns the document fields that show the running commit."""
        if (commit := details.commit) is None or not service.read(Application).git_repository:
            return {}
        return {"git_repository": commit_fields(commit)}


def takes_pushes(spec: Application) -> bool:
    """Returns whether an application is built from what is pushed to it."""
    return bool(spec.git_repository and spec.git_repository.url == PUSHED_REPOSITORY)


def _check_branch(spec: Application) -> None:
    if spec.auto_deploy and spec.source != GIT_SOURCE:
        raise clash("auto_deploy", "leave it out: an application that is built from uploads has no branch")


def _branch_choice(spec: Application) -> BranchChoice:
    return BranchChoice(bool(spec.auto_deploy) and not takes_pushes(spec), spec.git_repository or None)


kind = ApplicationKind()
