"""Environment variables and secrets: at project, environment and service level, inherited downwards."""

from typing import Annotated, Any

from msgspec import Meta

from windlass.core.declare.actions import Itself, post
from windlass.core.declare.fields import (
    Id,
    Key,
    Maybe,
    Note,
    Text,
    absent,
    example,
    hidden,
    kept,
    shaped,
)
from windlass.core.declare.resource import Family, Shown, Spec, Trait
from windlass.core.declare.shapes import PATH_OF_FILE
from windlass.core.declare.traits import has_variables
from windlass.core.deploy.injected_variables import placeholder
from windlass.core.words.audit import AuditWords

MountPath = Annotated[str, Meta(max_length=1024, pattern=PATH_OF_FILE, description="Makes it a file")]


_VALUE_DESCRIPTION = Meta(description="{{NAME}} in it stands for the value of another variable")
ValueWithMentions = Annotated[Text, _VALUE_DESCRIPTION, example("postgresql://orders-copy:5432/orders")]
Interpolates = Annotated[
    bool | None, Meta(description="In a file, replace {{NAME}} by the value of that variable")
]
is_variable = Trait(name="is_variable")
"""Resources with this trait are variables or secrets."""


class VariableValue(Spec):
    value: ValueWithMentions = ""
    description: Annotated[Note | None, example("Another one for this level")] = ""
    enable_interpolation_in_file: Interpolates = None


class VariableAlias(Spec):
    key: Annotated[Key, example("PRIMARY_DATABASE_URL")]
    description: Annotated[Note | None, example("The name that the framework expects")] = ""
    enable_interpolation_in_file: Interpolates = None


class Variable(Spec):
    """Environment variables: at project, environment and service level, inherited downwards."""

    key: Key
    value: Annotated[Text, _VALUE_DESCRIPTION, example("postgresql://orders:5432/orders")] = ""
    mount_path: Maybe[MountPath] = absent
    description: Annotated[Note | None, example("Where the orders are kept")] = ""
    enable_interpolation_in_file: Interpolates = None


class Secret(Spec):
    """Secrets: variables whose values are never returned, and are masked in logs."""

    key: Annotated[Key, example("PAYMENT_KEY")]
    value: Annotated[
        Text, _VALUE_DESCRIPTION, hidden(sent_to=()), example("correct horse battery staple")
    ] = ""
    # Kept if it is omitted, because existing clients cannot send it when they replace a secret.
    mount_path: Maybe[Annotated[MountPath, kept()]] = absent
    description: Annotated[Note | None, example("Key of the payment provider")] = ""
    enable_interpolation_in_file: Interpolates = None


LevelWord = Annotated[
    str,
    Meta(
        max_length=64,
        # The handler validates levels, so that additional kinds of services are accepted.
        pattern=shaped(r"^[A-Z][A-Z0-9_]*\Z", "must be a level, such as PROJECT, ENVIRONMENT or APPLICATION"),
    ),
]
Level = Annotated[
    LevelWord, Meta(description="Level at which it is created: this one, or one above"), example("PROJECT")
]


class Importing(Spec):
    name: Annotated[Key, example("PORT")]
    value: Annotated[Text, example("8080")]
    scope: Level
    is_secret: bool


class Import(Spec):
    overwrite: Annotated[
        bool, Meta(description="True if existing variables get the new value; otherwise they are skipped")
    ] = False
    vars: Annotated[
        list[Importing],
        Meta(
            min_length=1,
            max_length=1000,
            description='Such as [{"name": "PORT", "value": "1", "scope": "PROJECT", "is_secret": false}]',
        ),
    ]


class Imported(Shown):
    name: Annotated[str, example("PORT")]
    value: Maybe[str] = absent
    scope: Annotated[str, example("APPLICATION")]
    is_secret: bool


class VariableImport(Shown):
    total_variables_to_import: int
    successful_imported_variables: list[Imported]


class OriginalVariable(Shown):
    """The variable that this one overrides or aliases."""

    id: Id
    key: str
    value: Maybe[str] = absent
    mount_path: str = ""
    scope: str
    variable_type: str


class Levelled(Shown):
    description: str = ""
    scope: Annotated[str, example("APPLICATION")]
    variable_type: Annotated[str, example("VALUE")]
    owned_by: str = "WINDLASS"
    service_id: Maybe[Id] = absent
    service_name: Maybe[str] = absent
    service_type: Maybe[str] = absent


class VariableShown(Levelled):
    description: Annotated[str, example("Where the orders are kept")] = ""
    overridden_variable: Maybe[OriginalVariable] = absent
    aliased_variable: Maybe[OriginalVariable] = absent


class SecretShown(Levelled):
    description: Annotated[str, example("Key of the payment provider")] = ""
    overridden_secret: Maybe[OriginalVariable] = absent
    aliased_secret: Maybe[OriginalVariable] = absent


def normalise(spec: Variable | Secret) -> None:
    spec.description = spec.description or ""


def in_full(document: dict[str, Any]) -> dict[str, Any]:
    """Replaces the value of an alias by the key of its target, and some built-in values by placeholders."""
    if aliased := document.get("aliased_variable"):
        return {**document, "value": aliased["key"]}
    if document["scope"] == "BUILT_IN" and (instead := placeholder(document["key"])):
        return {**document, "value": instead}
    return document


# An override has another value under the same key; an alias the same value under another key.
derived = (
    post("override", Itself, "Give the key another value at a lower level", body=VariableValue, status=201),
    post("alias", Itself, "Give the value another key at a lower level", body=VariableAlias, status=201),
)

import_all = post(
    "import",
    VariableImport,
    "Create many at once",
    "All or nothing. Variables and secrets, at this level and those above.",
    on_collection=True,
    body=Import,
    status=201,
)

variable = Family(
    "environmentVariable",
    Variable,
    parent=has_variables,
    shown=VariableShown,
    group="Environment Variables",
    param="variable_id",
    nested=True,
    names="key",
    audit=AuditWords(sub_target="VARIABLE", is_part=True),
    normalise=normalise,
    in_full=in_full,
    traits=(is_variable,),
    actions=(*derived, import_all),
)

secret = Family(
    "secret",
    Secret,
    parent=has_variables,
    shown=SecretShown,
    nested=True,
    names="key",
    audit=AuditWords(sub_target="SECRET", is_part=True),
    normalise=normalise,
    traits=(is_variable,),
    actions=derived,
    about="The value can be replaced, never read.",
)


def is_secret(family: str) -> bool:
    return family == secret.name
