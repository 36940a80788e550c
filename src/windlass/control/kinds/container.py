"""Containers: an image that is there already, or is pulled, then run as it is."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.control.context.context import Context
from windlass.control.kinds.program_kind import ProgramKind
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.images import image_registry, prepare_image
from windlass.control.workloads.making import Making
from windlass.core.declare.spec import Spec
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.families.container import ChosenContainer, Container, ContainerDeployRequest, container
from windlass.families.database import database
from windlass.families.job import job
from windlass.store import Tx


class ContainerKind(ProgramKind[Container]):
    family = container
    waits_for = frozenset({database.name, job.name})
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
        return await prepare_image(ctx, making, spec.image_name, spec.tag)


def _registry(spec: Container) -> Mapping[str, object]:
    return image_registry(spec.image_name, spec.registry_id)


kind = ContainerKind()
