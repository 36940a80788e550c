"""The services that use a variable or secret, and those that a change of it makes out of date."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, Key, Maybe, absent, example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown, Spec
from windlass.core.declare.traits import has_variables


class VariableUseQuery(Spec):
    """Selects a variable."""

    key: Annotated[
        Maybe[Key],
        Meta(description="Key of a variable or secret that is seen here; without it, the list is empty"),
        example("COLOUR"),
    ] = absent


class VariableUseOfService(Shown):
    """A service that sees the variable."""

    service_id: Id
    service_name: Annotated[str, example("web")]
    service_type: Annotated[str, example("APPLICATION")]
    environment_id: Id
    is_overridden: Annotated[
        bool, Meta(description="True if the service gets another value under this key, from a nearer level")
    ]
    used_in: Annotated[
        list[str],
        Meta(
            description="Keys of other variables of the service that contain its value: they mention it, "
            "are aliases of it, or mention such a variable"
        ),
        example(["PAGE_TITLE"]),
    ]
    becomes_out_of_date: Annotated[
        bool,
        Meta(
            description="True if the service was deployed, and a change of the variable makes it "
            "OUT_OF_DATE, so that it keeps the present value until its next deployment"
        ),
    ]
    restarts: Annotated[
        bool,
        Meta(
            description="True if the service runs, and a change of the variable makes it OUT_OF_DATE, so "
            "that its next deployment replaces what runs"
        ),
    ]


class VariableUse(Shown):
    """A variable or secret, and the services that see it."""

    key: Annotated[str, example("COLOUR")]
    scope: Annotated[
        Maybe[str],
        Meta(description="The level to which it belongs, or BUILT_IN; left out if there is none"),
        example("ENVIRONMENT"),
    ] = absent
    level_id: Annotated[
        Maybe[Id], Meta(description="Id of this level; left out if Windlass sets the variable")
    ] = absent
    is_secret: bool = False
    services: list[VariableUseOfService]
    is_complete: Annotated[
        bool,
        Meta(
            description="False if there are further services: too many, or ones that the caller may not see"
        ),
    ] = True


_DESCRIPTION: Final = (
    "The services that see a variable: those of the level to which it belongs. Each has the keys of its "
    "other variables that use the value, and whether a change would make it OUT_OF_DATE. A variable that "
    "Windlass sets makes only services OUT_OF_DATE whose own variables use it."
)

of_all = Actions(
    has_variables,
    "Environment Variables",
    (
        get(
            "variableUse",
            VariableUse,
            "List the services that use a variable or secret",
            _DESCRIPTION,
            query=VariableUseQuery,
        ),
    ),
)
