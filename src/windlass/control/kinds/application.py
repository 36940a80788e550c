"""Applications: built from a git repository, then run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.control.context.context import Context
from windlass.control.kinds.program_kind import ProgramKind
from windlass.control.request.behaviour import Change
from windlass.control.workloads.application_settings import with_settings
from windlass.control.workloads.builds import build
from windlass.control.workloads.making import Making
from windlass.core.declare.spec import Spec
from windlass.core.declare.traits import DeployRequest
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.core.deploy.workload import Artifact, Workload
from windlass.families.application import Application, ApplicationShown, ChosenApplication, application
from windlass.families.database import database
from windlass.store import Row, Tx

_DEPLOYED = "deployed_commit"
"""The fields of a repository that say which commit runs begin so."""


class ApplicationKind(ProgramKind[Application]):
    family = application
    waits_for = frozenset({database.name})
    host_word = "app"

    async def updating(self, ctx: Context, tx: Tx, change: Change[Application]) -> None:
        await super().updating(ctx, tx, change)
        new = change.spec.git_repository
        if change.before.git_repository.url == new.url:
            stored = msgspec.to_builtins(change.row.read(ApplicationShown).git_repository)
            kept = {name: value for name, value in stored.items() if name.startswith(_DEPLOYED)}
            change.extras["git_repository"] = {**msgspec.to_builtins(new), **kept}

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        asked = body.git_commit_id if isinstance(body, DeployRequest | ChosenApplication) else None
        return ChosenVersion(git_commit_id=asked or None)

    async def make(self, ctx: Context, making: Making) -> BuiltArtifact:
        return await build(ctx, making)

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        place = await ctx.places.of(service.id)
        return await place.builder.find(service.id, artifact.key) is not None

    async def workload(self, ctx: Context, service: Row, usual: Workload) -> Workload:
        return with_settings(service.read(Application), await super().workload(ctx, service, usual))

    def deployed(self, details: Particulars) -> Mapping[str, object]:
        """The document shows which commit runs."""
        if (commit := details.commit) is None:
            return {}
        shown = {
            f"{_DEPLOYED}_id": commit.git_commit_id,
            f"{_DEPLOYED}_date": commit.created_at,
            f"{_DEPLOYED}_contributor": commit.author_name,
            f"{_DEPLOYED}_tag": commit.tag,
        }
        return {"git_repository": shown}


kind = ApplicationKind()
