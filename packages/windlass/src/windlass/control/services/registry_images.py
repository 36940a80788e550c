"""Lists the images and tags of container registries."""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.base.errors import Conflict, Failure, Unavailable
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.request.paths import target
from windlass.control.request.reading import paging, slice_of
from windlass.control.workloads.registries import open_registry, registry_settings
from windlass.engines.image_names import DOCKER_HUB, newest_first
from windlass.engines.registries import REGISTRY_KINDS, host_of
from windlass.families.container_registry import (
    ContainerRegistry,
    ImagesQuery,
    RegistryImage,
    container_registry,
)
from windlass.registries.client import RegistryClient
from windlass.registries.docker_hub import OFFICIAL_NAMESPACE, public_images, search_images
from windlass.registries.refusals import Problem, RegistryFailure

MAX_TAGS: Final = 10_000
MAX_IMAGES: Final = 10_000
_WITH_TAGS: Final = 100
"""Maximum number of images on a page whose tags are read."""
TIMEOUT: Final = 90
"""Time limit for reading the images of a page and their tags, in seconds."""
_AT_ONCE: Final = 4
"""Number of images whose tags are read concurrently."""


@reads(f"{container_registry.name}.images")
async def list_images(ctx: Context, call: Call) -> Reply:
    row, query = await target(ctx.store.reads, call), call.asked(ImagesQuery)
    spec = registry_settings(ctx, row)
    try:
        async with asyncio.timeout(TIMEOUT):
            return await _list(ctx, spec, call, query)
    except RegistryFailure as failure:
        raise failure_answer(failure) from failure
    except TimeoutError as error:
        raise Conflict(
            f"Ask for a smaller page, or for one image: the registry does not answer within {TIMEOUT} seconds"
        ) from error


async def _list(ctx: Context, spec: ContainerRegistry, call: Call, query: ImagesQuery) -> Reply:
    if query.imageName:
        image = await _one_image(await open_registry(ctx, spec), query, slice_of(call))
        return Reply(results([encode(image)], *paging(call), image.version_count))
    if host_of(spec.url or "") == DOCKER_HUB:
        return await _list_hub(ctx, spec, call, query)
    return await _catalogue(await open_registry(ctx, spec), spec, call, query)


def failure_answer(failure: RegistryFailure) -> Failure:
    """Returns the API's error for a failed request to a registry."""
    if failure.problem is Problem.RATE_LIMIT:
        return Unavailable(str(failure), {"retry-after": str(failure.retry_after)})
    return Conflict(str(failure))


async def _one_image(registry: RegistryClient, query: ImagesQuery, page: slice) -> RegistryImage:
    read = await registry.tags(query.imageName, MAX_TAGS)
    tags = newest_first(tag for tag in read.names if query.search in tag)
    return RegistryImage(
        image_name=query.imageName,
        versions=tags[page],
        is_complete=read.is_complete,
        version_count=len(tags),
    )


async def _list_hub(ctx: Context, spec: ContainerRegistry, call: Call, query: ImagesQuery) -> Reply:
    """Lists public images of Docker Hub: search results, or the images of the login's user."""
    if query.search:
        names, count = await search_images(ctx.out, query.search, *paging(call))
    else:
        names, count = await public_images(ctx.out, spec.config.username or OFFICIAL_NAMESPACE, *paging(call))
    images = [RegistryImage(image_name=name, versions=[], is_complete=False) for name in names]
    return Reply(results([encode(image) for image in images], *paging(call), count))


async def _catalogue(
    registry: RegistryClient, spec: ContainerRegistry, call: Call, query: ImagesQuery
) -> Reply:
    try:
        listed = await registry.images(MAX_IMAGES)
    except RegistryFailure as failure:
        if REGISTRY_KINDS[spec.kind].has_catalogue and failure.problem not in {
            Problem.RIGHT,
            Problem.NOT_A_REGISTRY,
        }:
            raise
        raise Conflict(
            "imageName: choose an image by its name: this registry lists none for this login"
        ) from failure
    names = sorted(name for name in listed.names if query.search in name)
    page = names[slice_of(call)]
    limit = asyncio.Semaphore(_AT_ONCE)

    async def read(name: str) -> RegistryImage:
        async with limit:
            return await _with_tags(registry, name)

    images = await asyncio.gather(*(read(name) for name in page[:_WITH_TAGS]))
    images += [RegistryImage(image_name=name, versions=[], is_complete=False) for name in page[_WITH_TAGS:]]
    return Reply(results([encode(image) for image in images], *paging(call), len(names)))


async def _with_tags(registry: RegistryClient, name: str) -> RegistryImage:
    try:
        read = await registry.tags(name, MAX_TAGS)
    except RegistryFailure as failure:
        # Registries list images whose tags were all deleted, or that this login may not read.
        if failure.problem in {Problem.UNKNOWN_IMAGE, Problem.RIGHT}:
            return RegistryImage(image_name=name, versions=[])
        raise
    return RegistryImage(
        image_name=name,
        versions=newest_first(read.names),
        is_complete=read.is_complete,
        version_count=len(read.names),
    )
