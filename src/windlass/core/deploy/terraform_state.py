"""The state of a Terraform service, as far as Windlass reads it: outputs and resources. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

HIDDEN: Final = "(sensitive value)"
FORM: Final = 4
"""The form of state files that the programs write since 2019."""
_IDS: Final = uuid.UUID("8f3b8a0e-7c1d-4b9a-9a53-2e6d1c0f4b77")


class BadState(ValueError):
    """A text is no state of a form that is known."""


class StateOutput(Struct, frozen=True):
    name: str
    value: str
    """A text as it is, anything else as JSON."""
    is_sensitive: bool


class StateResource(Struct, frozen=True):
    id: str
    resource_type: str
    name: str
    address: str
    provider: str
    mode: str
    attributes: Mapping[str, Any]


class StoredOutput(Struct):
    value: Any = None
    sensitive: bool = False


class StoredInstance(Struct):
    index_key: int | str | None = None
    deposed: str = ""
    attributes: dict[str, Any] | None = None
    sensitive_attributes: list[Any] = []


class StoredResource(Struct):
    mode: str
    type: str
    name: str
    provider: str = ""
    module: str = ""
    instances: list[StoredInstance] = []


class StateFile(Struct):
    """The part of a state file that is read."""

    version: int
    serial: int = 0
    lineage: str = ""
    outputs: dict[str, StoredOutput] = {}
    resources: list[StoredResource] = []


def read_state(content: bytes) -> StateFile:
    """Raises BadState with the reason."""
    try:
        state = msgspec.json.decode(content, type=StateFile)
    except msgspec.MsgspecError as error:
        raise BadState(f"it is no state of Terraform: {error}") from error
    if state.version != FORM:
        raise BadState(f"it has the form {state.version}, and only {FORM} is known")
    return state


def outputs_of(state: StateFile) -> list[StateOutput]:
    return [
        StateOutput(name, _text(output.value), output.sensitive)
        for name, output in sorted(state.outputs.items())
        if output.value is not None
    ]


def has_managed(state: StateFile) -> bool:
    """True if there is anything to destroy."""
    return any(resource.mode == "managed" and resource.instances for resource in state.resources)


def resources_of(
    state: StateFile, service: str, attributes: Mapping[str, Mapping[str, Any]]
) -> list[StateResource]:
    """Returns the resources, with the attributes that may be shown, by address."""
    return [
        StateResource(
            id=str(uuid.uuid5(_IDS, f"{service}/{address}")),
            resource_type=resource.type,
            name=resource.name,
            address=address,
            provider=_provider(resource.provider),
            mode="data" if resource.mode == "data" else "managed",
            attributes=attributes.get(address, {}),
        )
        for resource in state.resources
        for instance in resource.instances
        if not instance.deposed
        for address in [_address(resource, instance)]
    ]


def shown_attributes(shown: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the attributes of all resources by address, from what `show -json` answers; sensitive ones are
    replaced."""
    root = (shown.get("values") or {}).get("root_module") or {}
    return {
        str(resource["address"]): _without_sensitive(
            resource.get("values") or {}, resource.get("sensitive_values") or {}
        )
        for resource in _resources_below(root)
    }


def sensitive_texts(shown: Mapping[str, Any]) -> list[str]:
    """Returns the values that are sensitive somewhere: they are hidden wherever else they are."""
    values = shown.get("values") or {}
    texts = [
        _text(output.get("value"))
        for output in (values.get("outputs") or {}).values()
        if output.get("sensitive") and output.get("value") is not None
    ]
    for resource in _resources_below(values.get("root_module") or {}):
        texts += _sensitive_in(resource.get("values") or {}, resource.get("sensitive_values") or {})
    return texts


def _resources_below(module: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from module.get("resources") or ()
    for child in module.get("child_modules") or ():
        yield from _resources_below(child)


def _without_sensitive(value: Any, sensitive: Any) -> Any:
    if sensitive is True:
        return HIDDEN
    if isinstance(value, dict) and isinstance(sensitive, dict):
        return {name: _without_sensitive(item, sensitive.get(name)) for name, item in value.items()}
    if isinstance(value, list) and isinstance(sensitive, list):
        marks: Sequence[Any] = [*sensitive, *[None] * len(value)]
        return [_without_sensitive(item, mark) for item, mark in zip(value, marks, strict=False)]
    return value


def _sensitive_in(value: Any, sensitive: Any) -> Iterator[str]:
    if sensitive is True:
        if value is not None:
            yield _text(value)
    elif isinstance(value, dict) and isinstance(sensitive, dict):
        for name, item in value.items():
            yield from _sensitive_in(item, sensitive.get(name))
    elif isinstance(value, list) and isinstance(sensitive, list):
        for item, mark in zip(value, sensitive, strict=False):
            yield from _sensitive_in(item, mark)


def _address(resource: StoredResource, instance: StoredInstance) -> str:
    parts = [resource.module, "data" if resource.mode == "data" else "", resource.type, resource.name]
    key = instance.index_key
    index = "" if key is None else f"[{key}]" if isinstance(key, int) else f'["{key}"]'
    return ".".join(part for part in parts if part) + index


def _provider(text: str) -> str:
    """`provider["registry.terraform.io/hashicorp/random"]` → the address alone."""
    return text.partition('["')[2].partition('"]')[0] or text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
