"""Images that are there already, or are pulled: nothing is built."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from msgspec import UnsetType

from windlass.control.context.context import Context
from windlass.control.workloads.making import Making
from windlass.core.deploy.progress import BuildResult, BuiltArtifact
from windlass.core.deploy.workload import Artifact
from windlass.core.words.images import DOCKER_HUB, registry_host

_REGISTRIES: Final = uuid.UUID("7c2f0a54-1d5e-4a3c-9b1e-50c6f3a9e2d7")


async def prepare_image(ctx: Context, making: Making, name: str, tag: str) -> BuiltArtifact:
    """Makes sure that an image is on the engine of a service."""
    ref = f"{name}:{tag}"
    artifact = Artifact(kind="image", ref=ref, key=ref)
    making.say(f"The image is {ref}")
    place = await ctx.places.of(making.service.id)
    await place.engine.prepare(artifact, making.say)
    return BuiltArtifact(BuildResult(artifact), image_tag=tag)


def image_registry(name: str, id: str | UnsetType | None) -> Mapping[str, object]:
    """Returns the registry of an image, as answers show it."""
    host = registry_host(name)
    return {
        "id": id or str(uuid.uuid5(_REGISTRIES, host)),
        "name": host,
        "url": f"https://{host}",
        "kind": "DOCKER_HUB" if host == DOCKER_HUB else "GENERIC_CR",
    }
