"""Containers: an image that is there already, or is pulled, then run as it is."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from windlass.control.context.context import Context
from windlass.control.kinds.program_kind import ProgramKind
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.making import Making
from windlass.core.declare.spec import Spec
from windlass.core.deploy.progress import BuildResult, BuiltArtifact, ChosenVersion, Particulars
from windlass.core.deploy.workload import Artifact
from windlass.core.words.images import DOCKER_HUB, registry_host
from windlass.families.container import ChosenContainer, Container, ContainerDeployRequest, container
from windlass.families.database import database
from windlass.families.terraform import terraform
from windlass.store import Tx

_REGISTRIES: Final = uuid.UUID("7c2f0a54-1d5e-4a3c-9b1e-50c6f3a9e2d7")


class ContainerKind(ProgramKind[Container]):
    family = container
    waits_for = frozenset({database.name, terraform.name})
    image_field = "image_name"

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Container]) -> None:
        await super().creating(ctx, tx, draft)
        draft.give(registry=_registry(draft.spec))

    async def updating(self, ctx: Context, tx: Tx, change: Change[Container]) -> None:
        await super().updating(ctx, tx, change)
        change.extras["registry"] = _registry(change.spec)

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        tag = body.image_tag if isinstance(body, ContainerDeployRequest | ChosenContainer) else None
        return ChosenVersion(image_tag=tag or None)

    def settings(self, version: ChosenVersion | Particulars) -> Mapping[str, object]:
        return {"tag": version.image_tag} if version.image_tag else {}

    async def make(self, ctx: Context, making: Making) -> BuiltArtifact:
        """Makes sure that the image is on the engine before the older generation ends; nothing is built."""
        spec = making.service.read(Container)
        ref = f"{spec.image_name}:{spec.tag}"
        artifact = Artifact(kind="image", ref=ref, key=ref)
        making.say(f"The image is {ref}")
        place = await ctx.places.of(making.service.id)
        await place.engine.prepare(artifact, making.say)
        return BuiltArtifact(BuildResult(artifact), image_tag=spec.tag)


def _registry(spec: Container) -> Mapping[str, object]:
    host = registry_host(spec.image_name)
    return {
        "id": spec.registry_id or str(uuid.uuid5(_REGISTRIES, host)),
        "name": host,
        "url": f"https://{host}",
        "kind": "DOCKER_HUB" if host == DOCKER_HUB else "GENERIC_CR",
    }


kind = ContainerKind()
