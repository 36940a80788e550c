"""Variables and secrets of all levels at one path; each request names the level."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import delete, get, post, put
from windlass.core.declare.fields import (
    SERVICE_OR_ABOVE,
    Id,
    Key,
    Maybe,
    Note,
    Text,
    Timestamp,
    absent,
    example,
    refers,
)
from windlass.core.declare.registry import Actions, AnyOf, Paging, StandaloneOperation
from windlass.core.declare.resource import Shown, Spec
from windlass.families.variable import (
    Import,
    Interpolates,
    Levelled,
    LevelWord,
    MountPath,
    ValueWithMentions,
    VariableImport,
    is_variable,
)

_OPERATION_GROUP: Final = "Variables"

LevelName = Annotated[
    LevelWord, Meta(description="The kind of resource that the id is of"), example("APPLICATION")
]
LevelId = Annotated[
    Id,
    refers(SERVICE_OR_ABOVE),
    Meta(description="Id of the project, the environment or the service at which it is"),
    example("db01511f-abe4-5113-a2dc-90c7f2efb14a"),
]
SecretManager = Annotated[
    Id | None, Meta(description="Must be left out or null: Windlass reads no secret manager")
]


class VariablesQuery(Paging):
    parent_id: Annotated[
        Id, refers(SERVICE_OR_ABOVE), Meta(description="Id of a project, an environment or a service")
    ]
    scope: Maybe[LevelName] = absent
    is_secret: Annotated[
        bool | None, Meta(description="true lists only secrets, false only others; without it, both")
    ] = None


class NewVariable(Spec):
    """A variable or a secret, with the level at which it is created."""

    key: Key
    value: ValueWithMentions
    is_secret: Annotated[bool, Meta(description="True if its value is never answered, and masked in logs")]
    variable_scope: LevelName
    variable_parent_id: LevelId
    mount_path: Maybe[MountPath] = absent
    description: Annotated[Note | None, example("Where the orders are kept")] = ""
    enable_interpolation_in_file: Interpolates = None
    secret_manager_access_id: SecretManager = None


class VariableEdit(Spec):
    key: Key
    value: Annotated[
        Text | None, Meta(description="A secret keeps its value if this is left out or null"), example("8080")
    ] = None
    description: Annotated[Note | None, example("Where the orders are kept")] = ""
    enable_interpolation_in_file: Interpolates = None
    secret_manager_access_id: SecretManager = None


class AliasAtLevel(Spec):
    key: Annotated[Key, example("PRIMARY_DATABASE_URL")]
    alias_scope: LevelName
    alias_parent_id: LevelId
    description: Annotated[Note | None, example("The name that the framework expects")] = ""
    enable_interpolation_in_file: Interpolates = None


class OverrideAtLevel(Spec):
    value: ValueWithMentions
    override_scope: LevelName
    override_parent_id: LevelId
    description: Annotated[Note | None, example("Another one for this level")] = ""
    enable_interpolation_in_file: Interpolates = None


class ImportQuery(Spec):
    service_id: Annotated[Id, refers(SERVICE_OR_ABOVE), Meta(description="Id of a service")]
    service_type: Maybe[LevelName] = absent


class DerivedFrom(Shown):
    """The variable or secret that this one overrides or aliases."""

    id: Id
    key: str
    value: str | None = None
    mount_path: str = ""
    scope: str
    variable_type: str


class AnyVariable(Levelled):
    """A variable or a secret."""

    id: Id
    created_at: Timestamp
    updated_at: Timestamp
    key: Annotated[str, example("DATABASE_URL")]
    value: Annotated[
        str | None, Meta(description="null, of a secret"), example("postgresql://orders:5432/orders")
    ] = None
    mount_path: Maybe[str] = absent
    is_secret: bool
    overridden_variable: Maybe[DerivedFrom] = absent
    aliased_variable: Maybe[DerivedFrom] = absent
    enable_interpolation_in_file: Maybe[bool] = absent


any_variable = AnyOf("variable", is_variable, "variable")

listing = StandaloneOperation(
    path="/variable",
    group=_OPERATION_GROUP,
    action=get(
        "listVariables",
        list[AnyVariable],
        "List the variables and secrets that a resource sees",
        "Those of the resource itself, then those that it inherits, the nearest first. Values of secrets are "
        "null.",
        query=VariablesQuery,
    ),
)
creation = StandaloneOperation(
    path="/variable",
    group=_OPERATION_GROUP,
    action=post(
        "createVariable",
        AnyVariable,
        "Create a variable or a secret",
        "With `mount_path` it is a file.",
        body=NewVariable,
        status=201,
        also=(404, 409),
    ),
)
importing = StandaloneOperation(
    path="/variable/import",
    group=_OPERATION_GROUP,
    action=post(
        "importVariables",
        VariableImport,
        "Import variables and secrets of a service",
        "Imports variables and secrets, at the service and the levels above it: all or nothing.",
        body=Import,
        query=ImportQuery,
        status=201,
        also=(404, 409),
    ),
)

actions = Actions(
    any_variable,
    _OPERATION_GROUP,
    (
        put(
            "edit",
            AnyVariable,
            "Replace its key, value and description",
            "A field that is left out is reset, except the value of a secret, and the path of a file.",
            suffix="",
            body=VariableEdit,
        ),
        delete("delete", "Delete it", "Its aliases and overrides are deleted, too.", suffix=""),
        post(
            "alias",
            AnyVariable,
            "Give the value another key at a level",
            id="createVariableAlias",
            body=AliasAtLevel,
            status=201,
        ),
        post(
            "override",
            AnyVariable,
            "Give the key another value at a lower level",
            id="createVariableOverride",
            body=OverrideAtLevel,
            status=201,
        ),
    ),
)
