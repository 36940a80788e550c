"""Examples of the document are declared with the fields of each family, and fit the schemas beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator

from tests.documented import DOCUMENT, Document, complaints
from windlass.api.openapi import document
from windlass.api.samples import NO_EXAMPLE
from windlass.core.declare.fields import EXAMPLE_MARK
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Family, Shown, Spec


def examples(document: Document) -> Iterator[tuple[str, Any]]:
    """Yields the example of each body and answer, with its operation."""
    for path in document["paths"].values():
        for operation in path.values():
            bodies = [operation["requestBody"]] if "requestBody" in operation else []
            for described in (*bodies, *operation["responses"].values()):
                for media in described.get("content", {}).values():
                    if "example" in media:
                        yield operation["operationId"], media["example"]


def undeclared(value: Any, field: str = "") -> Iterator[str]:
    """Yields the fields of an example that declare no example."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from undeclared(inner, f"{field}.{name}")
        case list():
            for inner in value:
                yield from undeclared(inner, f"{field}[]")
        case str() if value == NO_EXAMPLE:
            yield field


def missing(document: Document) -> list[str]:
    return [f"{id}: {field}" for id, example in examples(document) for field in undeclared(example)]


def test_every_text_field_has_a_declared_example() -> None:
    assert missing(DOCUMENT) == []


class Silent(Spec):
    """A silent family."""

    label: str


class SilentShown(Shown):
    size: int = 0


def test_the_check_finds_a_family_without_examples() -> None:
    family = Family("silent", Silent, parent=None, shown=SilentShown, names=None)
    found = missing(document(Registry([family])))
    assert "createSilent: .label" in found
    assert "getSilent: .label" in found


@pytest.mark.parametrize("validator", [OAS30ReadValidator, OAS30WriteValidator], ids=["answer", "body"])
def test_the_check_finds_an_example_that_violates_its_schema(validator: Any) -> None:
    schema = {"type": "string", "pattern": "^[a-z]+$"}
    assert complaints({"schema": schema, "example": "Two words"}, validator)
    assert not complaints({"schema": schema, "example": "word"}, validator)


def test_the_document_contains_no_internal_example_marks() -> None:
    assert EXAMPLE_MARK not in repr(DOCUMENT)
