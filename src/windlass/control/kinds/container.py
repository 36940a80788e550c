"""Containers: an image that is there already, or is pulled, then run as it is."""

from __future__ import annotations

import uuid
from typing import Any, Final

from windlass.control.request.behaviour import Draft
from windlass.control.request.changing import apply_changes
from windlass.control.request.context import Call, Context
from windlass.control.workloads.kind import BuiltArtifact, Making
from windlass.control.workloads.programs import ProgramKind
from windlass.core.declare.document import Document
from windlass.core.deploy.progress import BuildResult, Particulars
from windlass.core.deploy.workload import Artifact
from windlass.core.words.images import DOCKER_HUB, registry_host
from windlass.families.container import Container, container
from windlass.families.database import database
from windlass.store.store import Row, Tx

_REGISTRIES: Final = uuid.UUID("7c2f0a54-1d5e-4a3c-9b1e-50c6f3a9e2d7")


class ContainerKind(ProgramKind):
    family = container
    waits_for = frozenset({database.name})
    image_field = "image_name"

    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        await super().creating(ctx, tx, draft)
        draft.give(registry=_registry(draft.spec))

    async def updating(
        self, ctx: Context, tx: Tx, row: Row, before: Document, spec: Container, extras: Document
    ) -> None:
        await super().updating(ctx, tx, row, before, spec, extras)
        extras["registry"] = _registry(spec)

    async def asks(
        self, ctx: Context, tx: Tx, call: Call, service: Row, body: Any
    ) -> tuple[Row, dict[str, Any]]:
        """A tag to deploy is the tag of the container from now on, whether or not it comes up."""
        tag = getattr(body, "image_tag", None) or None
        if tag is None:
            return service, {}
        await apply_changes(ctx, tx, call, service, {"tag": tag})
        return await tx.get(service.id) or service, {"image_tag": tag}

    def settings(self, document: Document, story: Particulars) -> Document:
        return {**document, "tag": story.image_tag} if story.image_tag else document

    async def make(self, ctx: Context, making: Making) -> BuiltArtifact:
        """Nothing is built. The image is on the engine before anything of the older generation ends."""
        document = making.document
        ref = f"{document['image_name']}:{document['tag']}"
        artifact = Artifact(kind="image", ref=ref, key=ref)
        making.say(f"The image is {ref}")
        place = await ctx.places.of(making.service.id)
        await place.engine.prepare(artifact, making.say)
        return BuiltArtifact(BuildResult(artifact), image_tag=document["tag"])


def _registry(spec: Container) -> Document:
    host = registry_host(spec.image_name)
    return {
        "id": spec.registry_id or str(uuid.uuid5(_REGISTRIES, host)),
        "name": host,
        "url": f"https://{host}",
        "kind": "DOCKER_HUB" if host == DOCKER_HUB else "GENERIC_CR",
    }


kind = ContainerKind()
