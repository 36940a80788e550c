"""Groups of labels and annotations, which services show in full."""

from __future__ import annotations

from typing import Final

from windlass.base.errors import Conflict
from windlass.base.fair_share import apply_to_each
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.request.behaviour import Behaviour, behaves
from windlass.control.request.references import show_in_lists
from windlass.control.services.container_registries import services_that_use, visible_users
from windlass.core.declare.document import Document
from windlass.core.declare.resource import Spec
from windlass.core.declare.stored import NamedDocument
from windlass.families.annotations_group import annotations_group
from windlass.families.environment import EnvironmentShown
from windlass.families.labels_group import labels_group
from windlass.store import Row, Tx

_MAX_NAMED_SERVICES: Final = 5


@behaves(labels_group, annotations_group)
class Groups(Behaviour[Spec]):
    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        await show_in_lists(ctx, tx, row)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        names = sorted(name_of(service) for service in await services_that_use(ctx, tx, row))
        if names:
            shown = ", ".join(names[:_MAX_NAMED_SERVICES])
            more = ", …" if len(names) > _MAX_NAMED_SERVICES else ""
            raise Conflict(
                f"Remove it from the services that use it first: {len(names)} use it ({shown}{more})"
            )


@reads("*.associatedItems")
async def list_items(ctx: Context, call: Call) -> Reply:
    users = await visible_users(ctx, call)
    described = await apply_to_each(lambda service: _describe(ctx, service), users)
    return Reply(results([*map(encode, described)]))


async def _describe(ctx: Context, service: Row) -> Document:
    reads = ctx.store.reads
    _, environment, project, *_ = await reads.tree.above(service.id)
    place = environment.read(EnvironmentShown)
    return {
        "cluster_id": place.cluster_id,
        "cluster_name": place.cluster_name,
        "project_id": project.id,
        "project_name": project.read(NamedDocument).name,
        "environment_id": environment.id,
        "environment_name": environment.read(NamedDocument).name,
        "item_id": service.id,
        "item_name": name_of(service),
        "item_type": ctx.kinds[service.family].service_type(service),
    }
