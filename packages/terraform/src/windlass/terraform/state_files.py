"""Reads the outputs and resources in the state of a Terraform service. Does no I/O."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.core.deploy.injected_variables import output_word

HIDDEN_VALUE: Final = "(sensitive value)"
FORMAT_VERSION: Final = 4
"""The format version of state files, in use since 2019."""
MAX_OUTPUT_BYTES: Final = 64 * 1024
"""Maximum bytes of an output that other services get as a variable."""
MAX_OUTPUTS_BYTES: Final = 128 * 1024
"""Maximum bytes of all outputs of a state that other services get as variables."""
MAX_SHARED_OUTPUTS: Final = 1000
"""Maximum number of outputs of a state that other services get as variables."""
MAX_PARTS: Final = 500_000
"""Maximum number of lists and objects in a run's request. Other requests wait while it is parsed, and even a
short text may contain millions of them."""
MAX_VALUES: Final = 1_000_000
"""Maximum number of commas in such a request, which bounds the number of its values."""
_OUTPUT_NAME_PATTERN: Final = re.compile(r"[^\W\d][\w-]{0,199}\Z")
_ID_NAMESPACE: Final = uuid.UUID("8f3b8a0e-7c1d-4b9a-9a53-2e6d1c0f4b77")


class BadState(ValueError):
    """Raised if a text is not a Terraform state in a supported format."""


class StateOutput(Struct, frozen=True):
    name: str
    value: str
    """A string unchanged, any other value as JSON."""
    is_sensitive: bool


class StateResource(Struct, frozen=True):
    id: str
    resource_type: str
    name: str
    address: str
    provider: str
    mode: str
    attributes: Mapping[str, Any]


class StoredOutput(Struct, gc=False):
    value: Any = None
    sensitive: bool = False


class StoredInstance(Struct, gc=False):
    index_key: int | str | None = None
    deposed: str = ""


class StoredResource(Struct, gc=False):
    mode: str
    type: str
    name: str
    provider: str = ""
    module: str = ""
    instances: list[StoredInstance] = []


class StateFile(Struct):
    """The part of a state file that Windlass reads."""

    version: int
    serial: int = 0
    outputs: dict[str, StoredOutput] = {}
    resources: list[StoredResource] = []


class ShownResource(Struct):
    address: str
    values: dict[str, Any] | None = None
    sensitive_values: dict[str, Any] | bool | None = None


class ShownModule(Struct):
    resources: list[ShownResource] | None = None
    child_modules: list[ShownModule] | None = None


class ShownValues(Struct):
    outputs: dict[str, StoredOutput] | None = None
    root_module: ShownModule | None = None


class ShownState(Struct):
    """A state in the format of `terraform show -json`."""

    values: ShownValues | None = None


def check_parts(content: bytes) -> None:
    """Raises BadState if parsing the text would take too long."""
    if content.count(b"{") + content.count(b"[") > MAX_PARTS:
        raise BadState(f"it has more than {MAX_PARTS} lists and objects: divide the module")
    if content.count(b",") > MAX_VALUES:
        raise BadState(f"it has more than {MAX_VALUES} values: divide the module")


def read_state(content: bytes) -> StateFile:
    """Parses a state. Raises BadState with the reason if this is not possible."""
    check_parts(content)
    try:
        state = read_json(content, StateFile)
        outputs_of(state)
    except BadJson as error:
        raise BadState(f"it is no state of Terraform: {error}") from error
    except RecursionError as error:
        raise BadState("an output is nested too deep") from error
    if state.version != FORMAT_VERSION:
        raise BadState(f"it has the form {state.version}, and only {FORMAT_VERSION} is known")
    return state


class _SerialNumber(Struct):
    serial: int | None = None


def serial_of(content: bytes) -> int | None:
    """Returns the serial number by which Terraform orders states, or None if there is none."""
    try:
        return read_json(content, _SerialNumber).serial if content else None
    except BadJson:
        return None


def outputs_of(state: StateFile) -> list[StateOutput]:
    return [
        StateOutput(name, _text(output.value), output.sensitive)
        for name, output in sorted(state.outputs.items())
        if output.value is not None
    ]


def shared_outputs(state: StateFile) -> list[StateOutput]:
    """Returns the outputs that become variables of other services.

    Leaves out an output that cannot be an environment variable, because it would prevent the deployment of
    those services. Also leaves out an output whose variable name is already used.
    """
    shared: dict[str, StateOutput] = {}
    left = MAX_OUTPUTS_BYTES
    for output in outputs_of(state):
        size, variable = len(output.value.encode()), output_word(output.name)
        if len(shared) == MAX_SHARED_OUTPUTS:
            break
        is_possible = size <= min(MAX_OUTPUT_BYTES, left) and "\0" not in output.value
        if is_possible and _OUTPUT_NAME_PATTERN.match(output.name) and variable not in shared:
            shared[variable] = output
            left -= size
    return [*shared.values()]


def has_managed(state: StateFile) -> bool:
    """Returns whether there are resources to destroy."""
    return any(resource.mode == "managed" and resource.instances for resource in state.resources)


def resources_of(
    state: StateFile, service: str, attributes: Mapping[str, Mapping[str, Any]]
) -> Iterator[StateResource]:
    """Yields the resources in the state. `attributes` contains the attributes that may be shown, by resource
    address."""
    for resource in state.resources:
        for instance in resource.instances:
            if instance.deposed:
                continue
            address = _address(resource, instance)
            yield StateResource(
                id=str(uuid.uuid5(_ID_NAMESPACE, f"{service}/{address}")),
                resource_type=resource.type,
                name=resource.name,
                address=address,
                provider=_provider(resource.provider),
                mode="data" if resource.mode == "data" else "managed",
                attributes=attributes.get(address, {}),
            )


def shown_attributes(state: ShownState) -> dict[str, dict[str, Any]]:
    """Returns the attributes of all resources by address. Sensitive values are replaced."""
    return {
        resource.address: _without_sensitive(resource.values or {}, resource.sensitive_values or {})
        for resource in _resources_of(state)
    }


def sensitive_texts(state: ShownState) -> list[str]:
    """Returns all values that are sensitive in some place. They are hidden everywhere."""
    outputs = (state.values and state.values.outputs) or {}
    texts = [
        _text(output.value) for output in outputs.values() if output.sensitive and output.value is not None
    ]
    for resource in _resources_of(state):
        texts += _sensitive_in(resource.values or {}, resource.sensitive_values or {})
    return texts


def _resources_of(state: ShownState) -> Iterator[ShownResource]:
    if state.values and state.values.root_module:
        yield from _resources_below(state.values.root_module)


def _resources_below(module: ShownModule) -> Iterator[ShownResource]:
    yield from module.resources or ()
    for child in module.child_modules or ():
        yield from _resources_below(child)


def _without_sensitive(value: Any, sensitive: Any) -> Any:
    if sensitive is True:
        return HIDDEN_VALUE
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
    """Returns the address in a provider reference, such as
    `provider["registry.terraform.io/hashicorp/random"]`."""
    return text.partition('["')[2].partition('"]')[0] or text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
