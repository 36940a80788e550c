"""Images of services: their registry, the digest of a tag, and the pull.

A tag is resolved to a digest when a service is deployed. The deployment stores the digest, so that later
starts use the same image. Service kinds call `prepare_image` and `fetch_image`.
"""

from __future__ import annotations

from msgspec import Struct, UnsetType

from windlass.builders.builder import BuildError
from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars, status_of
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.registries import login_of, open_registry, registry_settings
from windlass.core.declare.document import Document
from windlass.core.deploy.progress import BuildResult, BuiltArtifact
from windlass.engines.image_names import (
    DOCKER_HUB,
    NOT_ITS_OWN,
    public_registry_id,
    registry_host,
    with_registry,
)
from windlass.engines.registries import (
    ImageRef,
    PullRequest,
    RegistryLogin,
    digest_of,
    full_name,
    host_of,
    parse_ref,
)
from windlass.engines.tag_pulling import TagPulling
from windlass.engines.workload import Artifact
from windlass.families.container_registry import (
    ContainerRegistry,
    Kind,
    RegistryConfig,
    container_registry,
)
from windlass.registries.refusals import RegistryFailure
from windlass.store import Reads, Row


class ImageSource(Struct, frozen=True):
    """The image in the settings of a service."""

    image_name: str
    """The name relative to the registry. Without a registry, the name contains the host, or the image is from
    Docker Hub."""
    tag: str
    registry_id: str | UnsetType | None = None


async def prepare_image(ctx: Context, build_input: BuildInput, image: ImageSource) -> BuiltArtifact:
    """Pulls an image to the engine, with the digest that its tag has now.

    A deployment that repeats an earlier one uses the earlier digest. Raises BuildError and EngineError.
    """
    registry = await find_registry(ctx, build_input.service.org, image.registry_id)
    name, built = name_in(registry, image.image_name), ctx.settings.build_registry
    if built and built.holds(name):
        raise BuildError(f"image_name: {NOT_ITS_OWN}")
    login = await _login(ctx, registry)
    org = build_input.service.org
    request = PullRequest(f"{name}:{image.tag}", login, is_registered=registry is not None, org=org)
    build_input.say(f"The image is {request.ref}")
    place = await ctx.places.of(build_input.service.id)
    ref = await _find_repeated(ctx, build_input, request)
    if not ref:
        ref = await place.engine.resolve(request, build_input.say)
        if isinstance(place.engine, TagPulling) and not parse_ref(ref).digest:
            ref = await _with_digest(ctx, build_input, registry, image, ref)
        if digest := parse_ref(ref).digest:
            build_input.say(f"Its tag stands for {digest}")
    artifact = Artifact(kind="image", ref=ref, key=ref)
    await place.engine.prepare(artifact, build_input.say, login, org, build_input.service.id)
    return BuiltArtifact(BuildResult(artifact), image_tag=image.tag)


async def _with_digest(
    ctx: Context, build_input: BuildInput, registry: ContainerRegistry | None, image: ImageSource, ref: str
) -> str:
    """Returns an image reference with the digest that its tag has now; the tag itself if the registry does
    not answer to this server. Other machines may reach it."""
    try:
        client = await open_registry(ctx, registry or public_registry(image.image_name))
        digest = await client.digest(image.image_name, image.tag)
    except RegistryFailure as failure:
        build_input.say(
            "The image is pulled by its tag, so that a later start or a rollback may use another one: "
            f"{failure}"
        )
        return ref
    return str(ImageRef(parse_ref(ref).name, digest=digest))


async def fetch_image(
    ctx: Context, build_input: BuildInput, artifact: Artifact, registry_id: str | UnsetType | None
) -> None:
    """Makes sure that the engine has the image of an earlier deployment. The login of the current registry is
    used if the image is from this registry."""
    registry = await find_registry(ctx, build_input.service.org, registry_id)
    is_from_there = registry is not None and host_of(registry.url or "") == parse_ref(artifact.ref).host
    login = await _login(ctx, registry) if is_from_there else None
    place = await ctx.places.of(build_input.service.id)
    await place.engine.prepare(
        artifact, build_input.say, login, build_input.service.org, build_input.service.id
    )


async def find_registry(
    ctx: Context, org: str, registry_id: str | UnsetType | None
) -> ContainerRegistry | None:
    """Returns the registry of an image with its secrets; None if the registry was deleted."""
    if not registry_id:
        return None
    row = await ctx.store.reads.resources.find(container_registry.name, registry_id)
    if row is None:
        return None
    if row.org != org:
        raise BuildError("registry_id: choose a registry of this organization: this one is of another")
    return registry_settings(ctx, row)


async def _login(ctx: Context, registry: ContainerRegistry | None) -> RegistryLogin | None:
    try:
        return await login_of(ctx, registry) if registry else None
    except RegistryFailure as failure:
        raise BuildError(f"registry_id: {failure}") from failure


async def _find_repeated(ctx: Context, build_input: BuildInput, request: PullRequest) -> str:
    """Returns the image reference of the deployment that this one repeats, if the name and tag are the same;
    empty otherwise."""
    earlier_id = particulars(build_input.deployment).of
    earlier = await ctx.store.reads.deployments.get(earlier_id) if earlier_id else None
    details = particulars(earlier) if earlier else None
    if details is None or details.made is None:
        return ""
    ref, asked = parse_ref(details.made.artifact.ref), parse_ref(request.ref)
    return str(ref) if ref.digest and (ref.name, details.image_tag) == (asked.name, asked.tag) else ""


async def whole_name(reads: Reads, org: str, image: ImageSource) -> str:
    """Returns the full name of an image, with its registry's host. Decrypts no login."""
    id = image.registry_id
    row = await reads.resources.find(container_registry.name, id) if id else None
    is_own = row is not None and row.org == org
    return name_in(row.read(ContainerRegistry) if row and is_own else None, image.image_name)


async def running_digest(reads: Reads, service: Row) -> str:
    """Returns the digest of the image that serves; empty without one."""
    status = await status_of(reads, service)
    serving = await reads.deployments.get(status.serving) if status.serving else None
    build = particulars(serving).made if serving else None
    return digest_of(build.artifact.ref) if build else ""


async def is_named(reads: Reads, org: str, name: str, image: ImageSource) -> bool:
    """Returns whether a name is that of an image, either relative to its registry or in full."""
    if name == image.image_name:
        return True
    return with_registry(name) == with_registry(await whole_name(reads, org, image))


def name_in(registry: ContainerRegistry | None, image_name: str) -> str:
    """Returns the full name of an image for engines, with the registry's host."""
    return full_name(registry.url or "", image_name) if registry else image_name


def public_registry(image_name: str) -> ContainerRegistry:
    """Returns the public registry of an image that uses no registry of the organization. It needs no
    login."""
    host = registry_host(image_name)
    kind: Kind = "DOCKER_HUB" if host == DOCKER_HUB else "GENERIC_CR"
    return ContainerRegistry(name=host, kind=kind, url=f"https://{host}", config=RegistryConfig())


# Fields of documents


async def shown_registry(reads: Reads, image_name: str, registry_id: str | UnsetType | None) -> Document:
    """Returns the registry of an image, as shown in the service's document."""
    row = await reads.resources.find(container_registry.name, registry_id) if registry_id else None
    return registry_fields(row) if row else _public_registry(image_name, registry_id)


def registry_fields(registry: Row) -> Document:
    spec = registry.read(ContainerRegistry)
    return {"id": registry.id, "name": spec.name, "url": spec.url, "kind": spec.kind}


def _public_registry(image_name: str, registry_id: str | UnsetType | None) -> Document:
    """Returns the public registry of an image, as shown in the service's document."""
    registry = public_registry(image_name)
    id = registry_id or public_registry_id(image_name)
    return {"id": id, "name": registry.name, "url": registry.url, "kind": registry.kind}
