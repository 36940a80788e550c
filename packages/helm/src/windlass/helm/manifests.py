"""Compares the objects of a release before and after a deployment. Does no I/O.

Manifests are the output of charts, so that a server reads them in a process with limits (`base.bounded`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from msgspec import Struct

from windlass.helm.chart_error import ChartError

UNCHANGED: Final = "none"
MAX_DIFFERENCE: Final = 16 * 1024
"""Maximum length of the shown difference of one object."""
_SECRET_FIELDS: Final = ("data", "stringData")
_LIST: Final = "List"
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Objects = dict[tuple[str, str, str], Mapping[str, Any]]


class ObjectChange(Struct, frozen=True):
    """The change of one object."""

    kind: str
    name: str
    namespace: str
    action: str
    """One of create, update, destroy and none."""
    difference: str

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"


class ReleasedPort(Struct, frozen=True):
    name: str
    port: int


class ReleasedService(Struct, frozen=True):
    """A Service of a release."""

    name: str
    type: str
    ports: list[ReleasedPort]
    selectors: dict[str, str]


class ManifestDifference(Struct, frozen=True):
    """The changes of all objects, and the Services afterwards."""

    changes: list[ObjectChange]
    services: list[ReleasedService]

    def count(self, action: str) -> int:
        return sum(change.action == action for change in self.changes)


def compare(before: str, after: str, namespace: str) -> ManifestDifference:
    """Compares two manifests of a release. Values of Secrets are replaced by their lengths. Raises
    ChartError."""
    old, new = _objects(before, namespace), _objects(after, namespace)
    changes = [_change(key, old.get(key), new.get(key)) for key in dict.fromkeys([*new, *old])]
    return ManifestDifference(
        changes, [_service(item) for (kind, _, _), item in new.items() if kind == "Service"]
    )


def _objects(manifest: str, namespace: str) -> _Objects:
    try:
        return dict(_read(manifest, namespace))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ChartError(
            f"Correct the templates of the chart: what they make is not valid YAML ({reason})"
        ) from error


def _read(manifest: str, namespace: str) -> Iterator[tuple[tuple[str, str, str], Mapping[str, Any]]]:
    for document in yaml.load_all(manifest, _Loader):
        for item in _in_lists(document):
            metadata = item.get("metadata")
            if isinstance(metadata, dict) and isinstance(item.get("kind"), str):
                place = str(metadata.get("namespace") or namespace)
                yield (item["kind"], str(metadata.get("name", "")), place), item


def _in_lists(document: object, kind: str = "") -> Iterator[Mapping[str, Any]]:
    """Yields the objects of a document, which may be a list such as a SecretList, or contain lists. Items of
    such a list need no kind: `kind` is that of the list."""
    if not isinstance(document, dict):
        return
    own = document.get("kind", kind)
    items = document.get("items")
    if isinstance(own, str) and own.endswith(_LIST) and isinstance(items, list):
        for item in items:
            yield from _in_lists(item, own.removesuffix(_LIST))
    else:
        yield {**document, "kind": own}


def _change(
    key: tuple[str, str, str], old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> ObjectChange:
    action = "create" if old is None else "destroy" if new is None else UNCHANGED if old == new else "update"
    lines = (
        () if action == UNCHANGED else difflib.unified_diff(_lines(old), _lines(new, old), n=2, lineterm="")
    )
    text = "\n".join(line for line in lines if not line.startswith(("---", "+++")))
    if len(text) > MAX_DIFFERENCE:
        text = f"{text[:MAX_DIFFERENCE]}\n…"
    return ObjectChange(*key, action, text)


def _lines(item: Mapping[str, Any] | None, other: Mapping[str, Any] | None = None) -> list[str]:
    if item is None:
        return []
    shown = _without_values(item, other) if item.get("kind") == "Secret" else item
    text: str = yaml.dump(shown, Dumper=_Dumper, sort_keys=True, width=1_000)
    return text.splitlines()


def _without_values(secret: Mapping[str, Any], other: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Returns a Secret without its values, which says of each value whether it has changed."""
    shown = dict(secret)
    for field in _SECRET_FIELDS:
        values, others = secret.get(field), (other or {}).get(field)
        if not isinstance(values, dict):
            shown[field] = None if values is None else "hidden"
            continue
        known = others if isinstance(others, dict) else {}
        shown[field] = {
            name: f"hidden, {len(str(value))} characters"
            + (", another value" if other and known.get(name) != value else "")
            for name, value in values.items()
        }
    if isinstance(metadata := secret.get("metadata"), dict):
        # Tools keep the whole object in an annotation.
        shown["metadata"] = {name: value for name, value in metadata.items() if name != "annotations"}
    return {name: value for name, value in shown.items() if value is not None}


def _service(item: Mapping[str, Any]) -> ReleasedService:
    spec = item.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    ports = spec.get("ports")
    selectors = spec.get("selector")
    return ReleasedService(
        str(item["metadata"].get("name", "")),
        str(spec.get("type") or "ClusterIP"),
        [
            ReleasedPort(str(port.get("name") or ""), port["port"])
            for port in (ports if isinstance(ports, list) else ())
            if isinstance(port, dict) and isinstance(port.get("port"), int)
        ],
        {str(name): str(value) for name, value in selectors.items()} if isinstance(selectors, dict) else {},
    )
