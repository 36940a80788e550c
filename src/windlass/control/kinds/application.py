"""Applications: built from a git repository, then run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from windlass.base.errors import Conflict, Invalid, Missing
from windlass.control.context.context import Context
from windlass.control.kinds.program_kind import ProgramKind, program
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.application_settings import with_settings
from windlass.control.workloads.automatic_ports import (
    remark_on_ports,
    settle_ports,
    shown_ports,
    with_automatic_port,
)
from windlass.control.workloads.builds import build
from windlass.control.workloads.making import Making
from windlass.control.workloads.uploads import commit_of, find_upload
from windlass.core.declare.spec import Spec
from windlass.core.declare.traits import DeployRequest
from windlass.core.deploy.automatic_port import marked_as_automatic
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.core.deploy.workload import Artifact, Workload
from windlass.families.application import GIT, Application, ApplicationShown, ChosenApplication, application
from windlass.families.database import database
from windlass.families.upload import READY, UploadShown, upload
from windlass.store import Row, Tx

_DEPLOYED = "deployed_commit"
"""The fields of a repository that say which commit runs begin so."""


class ApplicationKind(ProgramKind[Application]):
    family = application
    waits_for = frozenset({database.name})
    host_word = "app"

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Application]) -> None:
        settle_ports(draft.spec, None, is_full=draft.is_full)
        await super().creating(ctx, tx, draft)

    async def updating(self, ctx: Context, tx: Tx, change: Change[Application]) -> None:
        settle_ports(change.spec, change.row.read(ApplicationShown), is_full=change.is_full)
        await super().updating(ctx, tx, change)
        new, before = change.spec.git_repository, change.before.git_repository
        if new and before and before.url == new.url:
            stored = msgspec.to_builtins(change.row.read(ApplicationShown).git_repository)
            kept = {name: value for name, value in stored.items() if name.startswith(_DEPLOYED)}
            change.extras["git_repository"] = {**msgspec.to_builtins(new), **kept}

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        asked = body.git_commit_id if isinstance(body, DeployRequest | ChosenApplication) else None
        return ChosenVersion(git_commit_id=asked or None)

    async def find_version(self, tx: Tx, service: Row, body: Spec | None) -> ChosenVersion:
        version, name = self.asked_version(body), service.read(Application).name
        id = body.upload_id if isinstance(body, DeployRequest | ChosenApplication) else None
        if id:
            return replace(version, git_commit_id=await _named_upload(tx, service, id, version))
        if service.read(Application).source == GIT:
            return version
        row = await find_upload(tx, service.id, version.git_commit_id)
        if row is None and version.git_commit_id:
            raise Conflict(
                f"git_commit_id: choose a version that is kept, or upload the folder of {name} again"
            )
        if row is None:
            raise Conflict(f"Upload a folder first, with windlass up: {name} has no upload that is complete")
        return replace(version, git_commit_id=commit_of(row).git_commit_id)

    async def make(self, ctx: Context, making: Making) -> BuiltArtifact:
        return await build(ctx, making)

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        place = await ctx.places.of(service.id)
        return await place.builder.find(service.id, artifact.key) is not None

    async def compute(self, ctx: Context, making: Making, artifact: Artifact) -> Workload:
        workload = await super().compute(ctx, making, artifact)
        if making.service.read(Application).automatic_port:
            making.say(remark_on_ports(workload))
        return workload

    async def workload(self, ctx: Context, service: Row, usual: Workload) -> Workload:
        spec = with_automatic_port(service.read(Application), usual)
        workload = with_settings(spec, program(spec, usual))
        return marked_as_automatic(workload) if spec.automatic_port else workload

    def frozen(self, service: Row, workload: Workload) -> Mapping[str, object]:
        """The document shows the port that was chosen."""
        shown = service.read(ApplicationShown)
        if not shown.automatic_port or not all(port.automatic for port in workload.ports):
            return {}
        ports = msgspec.to_builtins(shown_ports(workload, shown.ports))
        return {} if ports == msgspec.to_builtins(shown.ports) else {"ports": ports}

    def deployed(self, service: Row, details: Particulars) -> Mapping[str, object]:
        """The document shows which commit runs."""
        if (commit := details.commit) is None or not service.read(Application).git_repository:
            return {}
        shown = {
            f"{_DEPLOYED}_id": commit.git_commit_id,
            f"{_DEPLOYED}_date": commit.created_at,
            f"{_DEPLOYED}_contributor": commit.author_name,
            f"{_DEPLOYED}_tag": commit.tag,
        }
        return {"git_repository": shown}


async def _named_upload(tx: Tx, service: Row, id: str, version: ChosenVersion) -> str:
    """Returns the digest of the upload that the body of a deploy names."""
    if version.git_commit_id:
        raise Invalid("upload_id: leave out either this or git_commit_id")
    row = await tx.resources.find(upload.name, id)
    if row is None or row.parent != service.id:
        raise Missing("upload_id: choose an upload of this application: it has none with this id")
    if row.read(UploadShown).state != READY:
        raise Conflict("upload_id: complete the upload first")
    return commit_of(row).git_commit_id


kind = ApplicationKind()
