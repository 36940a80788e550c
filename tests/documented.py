"""The served document, as the tests read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from openapi_schema_validator import oas30_format_checker

from tests.tables import table
from windlass.api import account_document
from windlass.api.openapi import encoded_document
from windlass.core.declare.registry import Operation
from windlass.families import registry

Document = dict[str, Any]

ACCOUNT = {
    (method.upper(), path, operation["operationId"], "Account")
    for path, methods in account_document.paths({}).items()
    for method, operation in methods.items()
}
"""The operations of the account, which are outside the registry."""
DOCUMENT: Document = json.loads(encoded_document(registry()))


def operations(wanted: Callable[[Operation], object] = lambda operation: True) -> Callable[[Any], Any]:
    """A table with a row for each operation for which the test makes sense."""
    return table("operation", filter(wanted, registry().operations), lambda operation: operation.id)


def said(operation: Operation) -> Document:
    found: Document = DOCUMENT["paths"][operation.path][operation.method.lower()]
    return found


def resolved(thing: Document) -> Document:
    """Resolves a reference; anything else stands for itself."""
    while "$ref" in thing:
        kind, name = thing["$ref"].removeprefix("#/components/").split("/")
        thing = DOCUMENT["components"][kind][name]
    return thing


def answers(operation: Operation) -> dict[int, Document]:
    return {int(status): resolved(answer) for status, answer in said(operation)["responses"].items()}


def body(operation: Operation) -> Document:
    """Schema and example of what is sent."""
    found: Document = said(operation)["requestBody"]["content"]["application/json"]
    return found


def success(operation: Operation) -> Document:
    """Schema and example of what is answered when all went well."""
    found: Document = answers(operation)[operation.status]["content"]["application/json"]
    return found


def parameters(operation: Operation) -> dict[str, Document]:
    return {
        parameter["name"]: parameter for parameter in map(resolved, said(operation).get("parameters", []))
    }


def within(thing: Any) -> Iterator[Document]:
    """Every object of the document, except those that are examples or defaults and belong to users."""
    if isinstance(thing, dict):
        yield thing
    children = (
        thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    )
    for key, child in children:
        if key not in {"example", "default"}:
            yield from within(child)


def schema(name: str) -> Document:
    found: Document = DOCUMENT["components"]["schemas"][name]
    return found


def parts(whole: Document) -> Iterator[Document]:
    """A schema and all schemas in it."""
    yield whole
    inner = [*whole.get("properties", {}).values(), *whole.get("allOf", []), *whole.get("anyOf", [])]
    inner += [whole[key] for key in ("items", "additionalProperties") if isinstance(whole.get(key), dict)]
    for part in inner:
        yield from parts(part)


def complaints(media: Document, validator: Any, whole: Document = DOCUMENT) -> list[str]:
    rooted = {"allOf": [media["schema"]], "components": whole["components"]}
    checked = validator(rooted, format_checker=oas30_format_checker)
    return [error.message for error in checked.iter_errors(media["example"])]
