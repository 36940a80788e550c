"""Applications: built from a git repository, then run."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.control.request.context import Call, Context
from windlass.control.workloads.builds import build
from windlass.control.workloads.kind import BuiltArtifact, Making
from windlass.control.workloads.programs import ProgramKind
from windlass.core.declare.document import Document
from windlass.core.deploy.progress import Particulars
from windlass.core.deploy.workload import Artifact
from windlass.families.application import Application, application
from windlass.families.database import database
from windlass.store.store import Row, Tx

_DEPLOYED = "deployed_commit"
"""The fields of a repository that say which commit runs begin so."""


class ApplicationKind(ProgramKind):
    family = application
    waits_for = frozenset({database.name})
    host_word = "app"

    async def updating(
        self, ctx: Context, tx: Tx, row: Row, before: Document, spec: Application, extras: Document
    ) -> None:
        await super().updating(ctx, tx, row, before, spec, extras)
        old, new = before["git_repository"], spec.git_repository
        if old["url"] == new.url:
            kept = {name: value for name, value in old.items() if name.startswith(_DEPLOYED)}
            extras["git_repository"] = {**msgspec.to_builtins(new), **kept}

    async def asks(
        self, ctx: Context, tx: Tx, call: Call, service: Row, body: Any
    ) -> tuple[Row, dict[str, Any]]:
        return service, {"git_commit_id": getattr(body, "git_commit_id", None) or None}

    async def make(self, ctx: Context, making: Making) -> BuiltArtifact:
        return await build(ctx, making.service, making.deployment, making.inputs, making.say)

    async def is_kept(self, ctx: Context, service: Row, artifact: Artifact) -> bool:
        place = await ctx.places.of(service.id)
        return await place.builder.find(service.id, artifact.key) is not None

    def deployed(self, document: Document, story: Particulars) -> Document:
        """The document shows which commit runs."""
        if (commit := story.commit) is None:
            return document
        shown = {
            f"{_DEPLOYED}_id": commit["git_commit_id"],
            f"{_DEPLOYED}_date": commit["created_at"],
            f"{_DEPLOYED}_contributor": commit["author_name"],
            f"{_DEPLOYED}_tag": commit["tag"],
        }
        return {**document, "git_repository": {**document["git_repository"], **shown}}


kind = ApplicationKind()
