"""Containers and their tags: deploys a new tag to the containers of an image, lists tags, and checks
images."""

from __future__ import annotations

from urllib.parse import urlsplit

from windlass.base.errors import Conflict, Invalid
from windlass.builders.builder import BuildError
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.control.request.references import check_reference
from windlass.control.services.new_tags import deploy_new_tag
from windlass.control.services.registry_images import MAX_TAGS, failure_answer
from windlass.control.workloads.images import find_registry, name_in, public_registry, running_digest
from windlass.control.workloads.registries import open_registry
from windlass.engines.image_names import DOCKER_HUB, newer_than, registry_host
from windlass.families.container import (
    CheckedImage,
    Container,
    ImageCheck,
    ImageVersion,
    container,
)
from windlass.families.container_registry import container_registry
from windlass.registries.client import RegistryClient
from windlass.registries.refusals import Problem, RegistryFailure
from windlass.store import Tx

# A new tag


@writes("organization.containerDeploy")
async def deploy_image(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await deploy_new_tag(ctx, tx, call, container)


@reads(f"{container.name}.version")
async def list_versions(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    spec = service.read(Container)
    try:
        registry = await _registry_of(ctx, service.org, spec.image_name, spec.registry_id or None)
        image = _relative(spec.image_name, spec.registry_id or None)
        tags = await registry.tags(image, MAX_TAGS)
        versions = [ImageVersion(name=tag) for tag in newer_than(spec.tag, tags.names)]
        if (runs := await running_digest(ctx.store.reads, service)) and spec.tag in tags.names:
            digest = await registry.digest(image, spec.tag)
            versions += [ImageVersion(name=spec.tag, digest=digest)] if digest != runs else []
    except RegistryFailure as failure:
        raise failure_answer(failure) from failure
    return Reply(results([encode(version) for version in versions]))


# Checking an image


@reads("environment.checkContainerImage")
async def check_image(ctx: Context, call: Call) -> Reply:
    environment, asked = await target(ctx.store.reads, call), call.sent(ImageCheck)
    id = asked.registry_id or None
    if id:
        await check_reference(
            ctx.store.reads, "registry_id", container_registry.name, id, environment.org, call.actor
        )
    try:
        registry = await _registry_of(ctx, environment.org, asked.image_name, id)
        digest = await registry.digest(_relative(asked.image_name, id), asked.tag)
    except RegistryFailure as failure:
        if failure.problem is Problem.UNKNOWN_IMAGE:
            raise Invalid(f"image_name: {failure}") from failure
        raise failure_answer(failure) from failure
    spec = await find_registry(ctx, environment.org, id)
    image = f"{name_in(spec, asked.image_name)}:{asked.tag}"
    return Reply(encode(CheckedImage(image=image, digest=digest)))


async def _registry_of(ctx: Context, org: str, image_name: str, id: str | None) -> RegistryClient:
    """Returns the registry of an image: the registry with this id, or the public registry in the image's
    name."""
    try:
        registry = await find_registry(ctx, org, id)
    except BuildError as error:
        raise Conflict(str(error)) from error
    return await open_registry(ctx, registry or public_registry(image_name))


def _relative(image_name: str, id: str | None) -> str:
    """Returns the name of an image within its registry."""
    host = registry_host(image_name)
    if id or host == DOCKER_HUB:
        return image_name.rpartition("docker.io/")[2] if not id else image_name
    return urlsplit(f"//{image_name}").path.lstrip("/")
