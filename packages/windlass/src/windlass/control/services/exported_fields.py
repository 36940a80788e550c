"""Converts the document of a resource to the attributes of the Terraform provider's resource. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from msgspec import UNSET, Struct, to_builtins
from msgspec.structs import FieldInfo, fields

from windlass.core.declare.document import Document, value_at
from windlass.core.declare.exported import PORTS, UNREAD_GROUPS, WHOLE, Attribute, ExportedResource
from windlass.core.declare.fields import WITHOUT_EFFECT
from windlass.core.declare.spec import Spec
from windlass.core.declare.structs import extra_of, has_annotation, struct_of
from windlass.core.words.hcl import Expression, JsonCode

_EMPTY: Final[tuple[object, ...]] = (None, UNSET, "", [])
_MARKS_OF_DERIVED: Final = frozenset({"follows", "hidden"})
_OWN_ID: Final = "id"


class ExportInputs(Protocol):
    """The input variables of the exported files."""

    def outside(self, noun: str, id: str) -> Expression:
        """Returns the variable with the id of a resource that is not exported."""

    def secret(self, key: str) -> Expression:
        """Returns a new variable for a secret value of the present resource."""


class ExportedFields(NamedTuple):
    """The attributes of a resource that are fields of its document."""

    attributes: dict[str, object]
    unread: list[str]
    """The names of those that the provider reads differently, or not at all, when it imports the resource."""
    raised: dict[str, object]
    """Numbers below the least one that the provider takes, by the names of their attributes."""
    told: list[str]
    """What else the provider refuses."""


def attributes_of(resource: ExportedResource, document: Document, inputs: ExportInputs) -> ExportedFields:
    conversion = _Conversion(document, inputs)
    attributes = conversion.of(resource.attributes, document)
    unread = {
        name
        for name in attributes
        if name in UNREAD_GROUPS | resource.unread | conversion.raised.keys() | conversion.secrets
    }
    if _are_reordered(attributes.get(PORTS)):
        unread.add(PORTS)
    return ExportedFields(attributes, sorted(unread), conversion.raised, conversion.told)


def _are_reordered(ports: object) -> bool:
    """Returns whether the provider reads the ports in another order when it imports the resource."""
    if not isinstance(ports, list):
        return False
    return ports != sorted(ports, key=lambda port: (port["internal_port"], port["name"]))


class _Conversion:
    def __init__(self, document: Document, inputs: ExportInputs) -> None:
        self._document, self._inputs = document, inputs
        self.raised: dict[str, object] = {}
        self.told: list[str] = []
        self.secrets: set[str] = set()
        """The names of attributes with secret values."""

    def of(self, attributes: Iterable[Attribute], part: object) -> dict[str, object]:
        values = {attribute.name: self._value(attribute, part) for attribute in attributes}
        return {name: value for name, value in values.items() if value is not UNSET}

    def _value(self, attribute: Attribute, part: object) -> object:
        if attribute.secret_if and value_at(part, attribute.secret_if) is True:
            return self._inputs.secret(str(value_at(part, "key")))
        value = part if attribute.path == WHOLE else value_at(part, attribute.path)
        if value in _EMPTY and attribute.otherwise:
            value = self._otherwise(attribute.otherwise)
        if value in _EMPTY and attribute.default:
            value = attribute.default
        if value in _EMPTY or (attribute.is_map and not value):
            return self._empty(attribute, value)
        if attribute.refers:
            return self._reference(attribute.refers, value)
        if attribute.parts:
            return self._parts(attribute, value)
        if attribute.is_json and isinstance(value, dict):
            return JsonCode(value)
        return self._taken(attribute, value, part)

    def _parts(self, attribute: Attribute, value: object) -> object:
        items = value if isinstance(value, list) else [value]
        marks = [part.secret_if for part in attribute.parts if part.secret_if]
        if any(value_at(item, mark) is True for item in items for mark in marks):
            self.secrets.add(attribute.name)
        converted = [self.of(attribute.parts, item) for item in items]
        return converted if isinstance(value, list) else converted[0]

    def _taken(self, attribute: Attribute, value: object, part: object) -> object:
        """Returns the value, or the least number that the provider takes."""
        if attribute.hosts and not any(host in str(value).lower() for host in attribute.hosts):
            self.told.append(
                f"{attribute.name} = {value}: it takes addresses of {', '.join(attribute.hosts)}"
            )
        least = attribute.least
        if least is None or not isinstance(value, int) or value >= least:
            return value
        if attribute.lower_with and value_at(part, attribute.lower_with) not in _EMPTY:
            return value
        self.raised[attribute.name] = value
        return least

    def _empty(self, attribute: Attribute, value: object) -> object:
        if not attribute.is_required:
            return UNSET
        return {} if attribute.parts else value if value == [] else ""

    def _otherwise(self, path: str) -> object:
        found: object = self._document
        for step in path.split("."):
            if isinstance(found, list):
                found = found[int(step)] if len(found) > int(step) else UNSET
            else:
                found = value_at(found, step)
        return found

    def _reference(self, noun: str, value: object) -> object:
        if isinstance(value, list):
            return [self._inputs.outside(noun, str(value_at(item, "id"))) for item in value]
        return self._inputs.outside(noun, str(value))


def fields_left_out(resource: ExportedResource, declared: type[Spec], spec: Spec) -> Mapping[str, object]:
    """Returns the fields that differ from their defaults, and have no attribute of the provider."""
    exported = {*_exported_paths(resource.attributes, ""), *resource.repeated}
    return {
        path: value
        for path, value in _set_fields(declared, spec, "")
        if not any(_is_within(path, known) for known in exported)
    }


def _is_within(path: str, known: str) -> bool:
    return path == known or path.startswith(f"{known}.")


def _exported_paths(attributes: Iterable[Attribute], above: str) -> Iterator[str]:
    for attribute in attributes:
        path = above if attribute.path == WHOLE else f"{above}{attribute.path}"
        if attribute.parts:
            yield from _exported_paths(attribute.parts, path if attribute.path == WHOLE else f"{path}.")
        else:
            yield path


def _set_fields(declared: type[Struct], spec: Struct, above: str) -> Iterator[tuple[str, object]]:
    """Yields the paths and values of fields that act, and differ from their defaults. `declared`: the struct
    with the marks of the fields, which that of a stored document does not have."""
    for field in fields(declared):
        value, path = getattr(spec, field.name), f"{above}{field.encode_name}"
        if value in _EMPTY or value == field.default or not _acts(field):
            continue
        items = value if isinstance(value, list) else [value]
        inner = struct_of(field.type, in_lists=isinstance(value, list))
        if inner is None:
            yield path, to_builtins(value)
            continue
        for item in items:
            yield from _set_fields(inner, item, f"{path}.")


def _acts(field: FieldInfo) -> bool:
    """Returns whether a field is chosen by users, and has an effect."""
    is_derived = bool(_MARKS_OF_DERIVED & extra_of(field.type).keys())
    is_chosen = not is_derived and field.encode_name != _OWN_ID
    return is_chosen and not has_annotation(field.type, WITHOUT_EFFECT)
