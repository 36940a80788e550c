"""The history of variables and secrets: each change with its author, and the values before and after."""

from typing import Annotated, Final, Literal

from msgspec import Meta, field

from windlass.core.declare.actions import get
from windlass.core.declare.audit_query import Token
from windlass.core.declare.fields import Id, Key, Maybe, Timestamp, absent, example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown, Spec
from windlass.core.declare.traits import has_variables


class VariableHistoryQuery(Spec):
    """Selects changes of variables."""

    key: Annotated[
        Maybe[Key], Meta(description="Only changes of variables with this key, before or after the change")
    ] = absent
    is_secret: Annotated[Maybe[bool], Meta(description="True: only secrets; false: only variables")] = absent
    page_size: Annotated[int, Meta(ge=1, le=200, description="Number of changes")] = 50
    continue_token: Annotated[Token, Meta(description="From the previous answer, for older changes")] = field(
        default="", name="continueToken"
    )


class VariableHistoryEntry(Shown):
    """One change of a variable or secret."""

    number: Annotated[int, Meta(description="Its number in the audit"), example(1482)]
    timestamp: Timestamp
    change: Annotated[Literal["ADD", "CHANGE", "REMOVE"], example("CHANGE")]
    variable_id: Id
    key: Annotated[str, Meta(description="Its key after the change"), example("COLOUR")]
    former_key: Annotated[
        Maybe[str], Meta(description="Its key before the change, if that was different"), example("COLOR")
    ] = absent
    is_secret: bool
    scope: Annotated[str, Meta(description="The level to which it belongs"), example("APPLICATION")]
    level_id: Annotated[Id, Meta(description="Id of this level")]
    variable_type: Annotated[str, Meta(description="VALUE, FILE, ALIAS or OVERRIDE"), example("VALUE")]
    alias_of: Annotated[
        Maybe[str], Meta(description="For an alias: the key that it refers to"), example("COLOUR_OF_SHOP")
    ] = absent
    value: Annotated[
        str | None,
        Meta(description="The value after the change; null if it was removed, and for a secret"),
        example("red"),
    ] = None
    former_value: Annotated[
        str | None,
        Meta(description="The value before the change; null if there was none, and for a secret"),
        example("blue"),
    ] = None
    changed: Annotated[
        list[str],
        Meta(description="Names of the fields that a CHANGE changed; includes `value` for a secret"),
        example(["value"]),
    ] = []
    changed_by: Annotated[
        str, Meta(description="Name of the token, or address of the person"), example("Ada Lovelace")
    ]
    origin: Annotated[str, Meta(description="The kind of client that made the change"), example("CLI")]
    address: Annotated[
        str, Meta(description="Address of the client; empty if Windlass made it"), example("203.0.113.7")
    ] = ""


class VariableHistory(Shown):
    """Changes of variables and secrets, the newest first."""

    changes: list[VariableHistoryEntry]
    continue_token: Annotated[
        Maybe[str],
        Meta(description="For the next request, which gets older changes; left out if there are none"),
        example("1473"),
    ] = field(default=absent, name="continueToken")
    is_complete: Annotated[
        bool,
        Meta(description="False if the audit has deleted old events, so that changes may be missing"),
    ] = True


_DESCRIPTION: Final = (
    "Changes of variables and secrets at this level and the levels above, newest first: who made them, when, "
    "and the values before and after. Values of secrets are never shown. The history is read from the audit, "
    "as far back as that reaches, and only for levels whose events the caller may read."
)

of_all = Actions(
    has_variables,
    "Environment Variables",
    (
        get(
            "variableHistory",
            VariableHistory,
            "List the changes of variables and secrets",
            _DESCRIPTION,
            query=VariableHistoryQuery,
        ),
    ),
)
