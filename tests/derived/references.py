"""References in bodies to other resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.derived.bodies import MISSING
from tests.derived.operations import operation_of
from tests.derived.stage import Stage
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Verb
from windlass.core.declare.structs import ReferenceField, references_of


def references(operation: Operation) -> Mapping[str, ReferenceField]:
    """Returns the references in a body, by the path of the field."""
    if operation.verb is None and operation.body:
        return dict(references_of(operation.body, ""))
    if operation.family is None:
        return {}
    lists = operation.family.reference_lists.items()
    return {
        **operation.family.references,
        **{f"{name}[].id": ReferenceField(other, "") for name, other in lists},
    }


def refers_to_something(operation: Operation) -> bool:
    return bool(references(operation)) and operation.handler.endswith((".create", ".update", ".patch"))


async def whole_body(stage: Stage, operation: Operation) -> dict[str, Any]:
    """As for a creation, where an update may leave everything out."""
    assert operation.family is not None
    body = await stage.plot.body(operation_of("create", operation.family, operation.parent))
    fixed = operation.family.fixed if operation.verb is not Verb.CREATE else ()
    return {name: value for name, value in body.items() if name not in fixed}


def without_references(operation: Operation, body: Any) -> Any:
    for path in references(operation):
        if path not in required(operation):
            body = laid(body, path.split("."), MISSING)
    return body


def required(operation: Operation) -> set[str]:
    """The fields of the body of an action that cannot be left out."""
    if operation.verb or not operation.body:
        return set()
    return {field.encode_name for field in msgspec.structs.fields(operation.body) if field.required}


def referring(operation: Operation, body: Any, path: str, id: str) -> Any:
    """The body with this one reference."""
    return laid(without_references(operation, body), path.split("."), id)


def chooses(body: Any, path: str) -> bool:
    """False if a reference belongs to an alternative that the body does not choose."""
    for step in path.split(".")[:-1]:
        if step.endswith("[]"):
            break
        body = body.get(step) if isinstance(body, dict) else None
    return isinstance(body, dict)


def laid(body: Any, path: Sequence[str], value: Any) -> Any:
    if path[0].endswith("[]"):
        name = path[0].removesuffix("[]")
        return laid(body, [name], MISSING if value is MISSING else [laid({}, path[1:], value)])
    if not isinstance(body, dict) or (path[0] not in body and value is MISSING):
        return body
    if len(path) > 1:
        return {**body, path[0]: laid(body[path[0]], path[1:], value)}
    rest = {name: one for name, one in body.items() if name != path[0]}
    return rest if value is MISSING else {**rest, path[0]: value}
