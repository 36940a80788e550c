"""Environment variables and secrets: at project, environment and service level, inherited downwards."""

from typing import Annotated

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.fields import Id, Key, Maybe, Note, Text, absent, hidden
from windlass.core.resource import Action, Family, Shown, Spec
from windlass.core.traits import has_variables

MountPath = Annotated[str, Meta(max_length=1024, pattern=r"^/[^\x00-\x1f]*\Z", description="Makes it a file")]


class VariableValue(Spec):
    value: Text = ""
    description: Note | None = ""
    enable_interpolation_in_file: bool | None = None


class VariableAlias(Spec):
    key: Key
    description: Note | None = ""
    enable_interpolation_in_file: bool | None = None


class Variable(Spec):
    key: Key
    value: Text = ""
    mount_path: Maybe[MountPath] = absent
    description: Note | None = ""
    enable_interpolation_in_file: bool | None = None


class Secret(Spec):
    key: Key
    value: Annotated[Text, hidden()] = ""
    mount_path: Maybe[MountPath] = absent
    description: Note | None = ""
    enable_interpolation_in_file: bool | None = None


class OriginalVariable(Shown):
    """The variable that this one overrides or stands for."""

    id: Id
    key: str
    value: Maybe[str] = absent
    mount_path: str = ""
    scope: str
    variable_type: str


class Levelled(Shown):
    description: str = ""
    scope: str
    variable_type: str
    owned_by: str = "WINDLASS"
    service_id: Maybe[Id] = absent
    service_name: Maybe[str] = absent
    service_type: Maybe[str] = absent


class VariableShown(Levelled):
    overridden_variable: Maybe[OriginalVariable] = absent
    aliased_variable: Maybe[OriginalVariable] = absent


class SecretShown(Levelled):
    overridden_secret: Maybe[OriginalVariable] = absent
    aliased_secret: Maybe[OriginalVariable] = absent


def settle(spec: Variable | Secret) -> None:
    spec.description = spec.description or ""


def _derived(name: str, body: type[Spec]) -> Action:
    return Action(
        name=name,
        method="POST",
        suffix=f"/{name}",
        need=Scope.WRITE,
        summary=f"{name.capitalize()} at this level",
        body=body,
        answers_itself=True,
        status=201,
    )


# Another value under the same key, or the same value under another key.
derived = (_derived("override", VariableValue), _derived("alias", VariableAlias))

variable = Family(
    "environmentVariable",
    Variable,
    parent=has_variables,
    shown=VariableShown,
    title="EnvironmentVariable",
    group="Environment Variables",
    param="variable_id",
    nested=True,
    names="key",
    exact_names=True,
    settle=settle,
    actions=derived,
)

secret = Family(
    "secret",
    Secret,
    parent=has_variables,
    shown=SecretShown,
    title="Secret",
    group="Secrets",
    param="secret_id",
    nested=True,
    names="key",
    exact_names=True,
    settle=settle,
    actions=derived,
    about="The value can be replaced, never read.",
)
