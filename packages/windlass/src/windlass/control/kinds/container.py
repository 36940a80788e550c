"""Containers: an image that is pulled unless the engine has it, and that runs unchanged."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.control.context.context import Context
from windlass.control.kinds.program_kind import ProgramKind
from windlass.control.kinds.service_kind import PreviewSource
from windlass.control.request.behaviour import Change, Draft
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.images import (
    ImageSource,
    fetch_image,
    prepare_image,
    registry_fields,
    shown_registry,
)
from windlass.core.declare.document import Document
from windlass.core.declare.spec import Spec
from windlass.core.deploy.progress import BuiltArtifact, ChosenVersion, Particulars
from windlass.engines.workload import Artifact
from windlass.families.container import ChosenContainer, Container, ContainerDeployRequest, container
from windlass.store import Row, Tx


class ContainerKind(ProgramKind[Container]):
    family = container
    instead_of_manifests = ""
    image_field = "image_name"
    host_word = "app"

    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Container]) -> None:
        await super().creating(ctx, tx, draft)
        draft.give(registry=await shown_registry(tx, draft.spec.image_name, draft.spec.registry_id))

    async def updating(self, ctx: Context, tx: Tx, change: Change[Container]) -> None:
        await super().updating(ctx, tx, change)
        spec = change.spec
        change.extras["registry"] = await shown_registry(tx, spec.image_name, spec.registry_id)

    def image(self, service: Row) -> ImageSource:
        return _source(service)

    def deploys_new_tags(self, service: Row) -> bool:
        return bool(service.read(Container).auto_deploy)

    def request_of_tag(self, tag: str) -> Spec:
        return ContainerDeployRequest(image_tag=tag)

    def in_preview(self, service: Row, source: PreviewSource | None) -> Document | None:
        changes = super().in_preview(service, source)
        return changes if changes is None or source is None else changes | {"tag": source.image_tag}

    def asked_version(self, body: Spec | None) -> ChosenVersion:
        tag = body.image_tag if isinstance(body, ContainerDeployRequest | ChosenContainer) else None
        return ChosenVersion(image_tag=tag or None)

    def settings(self, version: ChosenVersion | Particulars) -> Mapping[str, object]:
        return {"tag": version.image_tag} if version.image_tag else {}

    async def make(self, ctx: Context, build_input: BuildInput) -> BuiltArtifact:
        """Pulls the image before the old generation ends. Nothing is built."""
        return await prepare_image(ctx, build_input, _source(build_input.service))

    async def fetch(self, ctx: Context, build_input: BuildInput, artifact: Artifact) -> None:
        await fetch_image(ctx, build_input, artifact, build_input.service.read(Container).registry_id)

    def shown_version(self, service: Row, details: Particulars) -> Document:
        spec = service.read(Container)
        return {
            "image_name": spec.image_name,
            "tag": details.image_tag or spec.tag,
            "arguments": spec.arguments,
            "entrypoint": spec.entrypoint or "",
        }

    def with_registry(self, service: Row, registry: Row) -> Mapping[str, object]:
        return {"registry": registry_fields(registry)}


def _source(service: Row) -> ImageSource:
    spec = service.read(Container)
    return ImageSource(spec.image_name, spec.tag, spec.registry_id)


kind = ContainerKind()
