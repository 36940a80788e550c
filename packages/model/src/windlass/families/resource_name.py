"""Resolves paths of names to ids of resources."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, example
from windlass.core.declare.registry import Paging, StandaloneOperation
from windlass.core.declare.resource import Shown


class Naming(Paging):
    family: Annotated[
        str, Meta(max_length=64, description="The kind of resource, as in paths: `application`")
    ] = "organization"
    path: Annotated[
        str,
        Meta(
            max_length=2048,
            description=(
                "Its name or id, after those of its parents: `shop/production/web`. Missing or empty parts "
                "may be anything: `web`, `shop//web`"
            ),
        ),
    ] = ""
    below: Annotated[
        str,
        Meta(
            max_length=64,
            description="The kind of parent, if several are possible, as for `secret`: as in paths",
        ),
    ] = ""


class ResourceName(Shown):
    id: Id
    family: Annotated[str, example("application")]
    name: Annotated[str, example("web")]
    path: Annotated[
        str, Meta(description="Its name, after the names of its parents"), example("shop/production/web")
    ]
    organization_id: Id


_FIND_DESCRIPTION: Final = (
    "Finds all resources with this name, in the token's own organization unless the path begins with "
    "another one. A 404 names the part of the path that does not exist. Names are compared as at creation. "
    "A limited token finds only resources, by names, that it may see."
)

find = StandaloneOperation(
    path="/resource",
    group="Names",
    action=get(
        "findResources", list[ResourceName], "Find resources by name", _FIND_DESCRIPTION, query=Naming
    ),
)
