"""The services that use a resource, such as a git token."""

from __future__ import annotations

from typing import Annotated, Final

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, example
from windlass.core.declare.resource import Shown


class AssociatedService(Shown):
    """A service that uses a resource."""

    project_id: Id
    project_name: Annotated[str, example("shop")]
    environment_id: Id
    environment_name: Annotated[str, example("production")]
    service_id: Id
    service_name: Annotated[str, example("web")]
    service_type: Annotated[str, example("APPLICATION")]


LIST_USERS: Final = get(
    "associatedServices", list[AssociatedService], "List the services that use it", paged=False
)
