"""Variables that Windlass itself sets for services."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, Maybe, absent, example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown
from windlass.core.declare.traits import has_variables


class InjectedVariableShown(Shown):
    """A variable that Windlass sets, such as the address of a database."""

    key: Annotated[str, example("ORDERS_URL")]
    value: Annotated[str | None, Meta(description="null for a secret"), example("8080")]
    is_secret: bool
    owner_id: Annotated[Id, Meta(description="Id of the resource that it describes")]
    service_name: Annotated[
        Maybe[str], Meta(description="Name of the service that it describes"), example("orders")
    ] = absent


_LIST_DESCRIPTION: Final = (
    "With the values that the next deployment would get: ids, and the addresses and passwords of services "
    "of the environment, which other variables mention as `{{KEY}}`. A variable that is declared under one "
    "of these keys wins."
)

of_all = Actions(
    has_variables,
    "Environment Variables",
    (
        get(
            "injectedVariable",
            list[InjectedVariableShown],
            "List the variables that Windlass sets",
            _LIST_DESCRIPTION,
            paged=False,
        ),
    ),
)
