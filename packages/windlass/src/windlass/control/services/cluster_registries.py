"""The registries of a cluster: one to which builds are pushed, and the login with which nodes pull."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.base.errors import Invalid
from windlass.control.context.context import Context
from windlass.control.workloads.registries import login_of, registry_settings, why_not_for_builds
from windlass.engines.registries import REGISTRY_KINDS, BuildRegistry, LoginSource, full_name, host_of
from windlass.families.cluster import Cluster
from windlass.families.container_registry import ContainerRegistry, container_registry
from windlass.store import Reads, Row

SHARED_LOGIN_ADVICE = (
    "Set registry_pull_id to a container registry with a login that may only pull: the nodes have the login "
    "that pushes, and charts of this cluster can read it"
)


def has_shared_login(spec: Cluster) -> bool:
    """Returns whether the nodes of a cluster pull with the login that pushes."""
    return spec.pulls_builds and (spec.registry_pull_id or spec.registry_id) == spec.registry_id


async def build_registry(ctx: Context, row: Row) -> BuildRegistry | None:
    """Returns the registry for images that are built for a cluster, with its logins; None if there is none,
    or if one of its logins cannot be used. The login that pushes never stands in for one that pulls."""
    spec = row.read(Cluster)
    pushed = await _settings_of(ctx, row.org, spec.registry_id or "")
    if pushed is None or why_not_for_builds(pushed):
        return None
    found = BuildRegistry(full_name(pushed.url or "", spec.registry_path), await login_of(ctx, pushed))
    if has_shared_login(spec):
        return found
    pulled = await _settings_of(ctx, row.org, spec.registry_pull_id or "")
    if pulled is None or why_not_for_pulls(pulled, pushed):
        return None
    return replace(found, pull_login=await login_of(ctx, pulled))


async def _settings_of(ctx: Context, org: str, id: str) -> ContainerRegistry | None:
    row = id and await ctx.store.reads.resources.find(container_registry.name, id)
    return registry_settings(ctx, row) if row and row.org == org else None


async def check_registries(reads: Reads, org: str, spec: Cluster) -> None:
    """Raises Invalid for registries that cannot have the images of a cluster."""
    if spec.registry_pull_id and not spec.registry_id:
        raise Invalid("registry_id: is required with registry_pull_id: nothing is pushed without it")
    pushed, pulled = [
        row.read(ContainerRegistry)
        if id and (row := await reads.resources.get(id)) is not None and row.org == org
        else None
        for id in (spec.registry_id, spec.registry_pull_id)
    ]
    if pushed and (why := why_not_for_builds(pushed)):
        raise Invalid(f"registry_id: {why}")
    is_other = spec.registry_pull_id != spec.registry_id
    if pushed and pulled and is_other and (why := why_not_for_pulls(pulled, pushed)):
        raise Invalid(f"registry_pull_id: {why}")


def why_not_for_pulls(spec: ContainerRegistry, pushed: ContainerRegistry) -> str:
    """Returns why nodes cannot pull the images of one registry with the login of another; empty if they
    can."""
    if why := why_not_for_builds(spec):
        return why
    if host_of(spec.url or "") != host_of(pushed.url or ""):
        return f"choose one with the host of registry_id, {host_of(pushed.url or '')}"
    if REGISTRY_KINDS[spec.kind].login is LoginSource.CONFIG and not spec.config.username:
        return "choose one with a login: without it, the nodes would have none"
    return ""
