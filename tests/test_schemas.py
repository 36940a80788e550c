"""Types become named schemas of OpenAPI 3.0.3: bodies and answers apart, examples made from them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct
from openapi_schema_validator import OAS30WriteValidator
from openapi_spec_validator import OpenAPIV30SpecValidator

from tests.documented import DOCUMENT, Document, body, complaints, operations, resolved, said, schema, success
from tests.tables import rows
from windlass.api.openapi import document
from windlass.api.samples import Samples
from windlass.api.schemas import translate
from windlass.core.access import Scope
from windlass.core.declare.fields import Maybe, absent
from windlass.core.declare.registry import Operation, Registry, StandaloneOperation
from windlass.core.declare.resource import Action, Family, Shown, Spec, Verb
from windlass.families import registry

# Its schemas


@operations(lambda one: one.family and one.body in {one.family.spec, one.family.edit, one.family.patch})
def test_the_schema_of_a_request_body_is_named_after_its_family(operation: Operation) -> None:
    assert operation.family
    words = {Verb.CREATE: "Request", Verb.UPDATE: "EditRequest", Verb.PATCH: "PatchRequest"}
    word = words[Verb(operation.handler.partition(".")[2])]
    assert body(operation)["schema"] == {"$ref": f"#/components/schemas/{operation.family.title}{word}"}


@operations(lambda one: one.family and one.answer is one.family.view and not one.streams)
def test_an_answer_is_named_after_its_family(operation: Operation) -> None:
    assert operation.family
    # A list that a request without a page gets whole has a schema of its own.
    words = {"List", "Results"} if operation.listing and not operation.paged else {"List"}
    names = (
        {f"{operation.family.title}{word}" for word in words}
        if operation.listing
        else {operation.family.title}
    )
    assert success(operation)["schema"]["$ref"].removeprefix("#/components/schemas/") in names


@operations(lambda one: one.body)
def test_a_request_body_is_required_exactly_if_it_has_a_required_field(operation: Operation) -> None:
    required = resolved(body(operation)["schema"]).get("required", [])
    assert said(operation)["requestBody"]["required"] == bool(required)


@operations(lambda one: one.body is None)
def test_an_operation_without_a_body_documents_no_request_body(operation: Operation) -> None:
    assert "requestBody" not in said(operation)


def test_only_request_schemas_forbid_additional_properties() -> None:
    for name, whole in DOCUMENT["components"]["schemas"].items():
        assert (whole.get("additionalProperties") is False) == name.endswith("Request")


@rows("family", registry().families.values(), ids=lambda family: family.name)
def test_answers_contain_server_fields_and_flags_but_no_hidden_fields(family: Family) -> None:
    answer = schema(family.title)["properties"].keys()
    assert {"id", "created_at", "updated_at", *family.flags.values()} <= answer
    assert not family.hidden & answer


@operations(lambda one: one.family and one.body in {one.family.spec, one.family.edit, one.family.patch})
def test_a_body_has_the_fields_of_its_family_and_no_others(operation: Operation) -> None:
    assert operation.family
    fields = resolved(body(operation)["schema"])["properties"]
    assert set(fields) == {field.name for field in operation.family.sent_fields}
    assert all(field_at(fields, path)["writeOnly"] is True for path in operation.family.hidden)


def field_at(fields: dict[str, Any], path: str) -> dict[str, Any]:
    """A field of a schema, also inside an object: `config.password`."""
    first, dot, rest = path.partition(".")
    field: dict[str, Any] = fields[first]
    if not dot:
        return field
    (whole,) = field.get("allOf", [field])  # marks may stand beside a reference
    return field_at(resolved(whole)["properties"], rest)


def test_only_fields_that_accept_null_are_nullable() -> None:
    fields = schema("ApplicationRequest")["properties"]
    assert "nullable" not in fields["name"]
    assert fields["dockerfile_path"]["nullable"] is True
    assert fields["cpu_architecture"] == {
        "type": "string",
        "enum": ["AMD64", "ARM64", None],
        "nullable": True,
        "description": "Stored for other clients of this interface; has no effect here",
        "x-without-effect": True,
    }
    reference = {"$ref": "#/components/schemas/AutoscalingRequest"}
    assert fields["autoscaling"] == {"allOf": [reference], "nullable": True}


# The translation


@rows(
    ("younger", "older"),
    [
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": [1, 2]}, {"type": "integer", "enum": [1, 2], "format": "int64"}),
        (
            {"type": "integer", "minimum": 0, "maximum": 9},
            {"type": "integer", "minimum": 0, "maximum": 9, "format": "int32"},
        ),
        ({"type": "integer"}, {"type": "integer", "format": "int64"}),
        ({"exclusiveMinimum": 0}, {"minimum": 0, "exclusiveMinimum": True}),
        ({"exclusiveMaximum": 1.5}, {"maximum": 1.5, "exclusiveMaximum": True}),
        ({"type": ["string", "null"], "maxLength": 3}, {"type": "string", "maxLength": 3, "nullable": True}),
        ({"type": "null"}, {"type": "string", "nullable": True, "enum": [None]}),
        ({"type": "string", "examples": ["a", "b"]}, {"type": "string", "example": "a"}),
        ({"type": "string", "pattern": r"^a\Z"}, {"type": "string", "pattern": "^a$"}),
        ({"type": "string", "pattern": r"^a\\Z"}, {"type": "string", "pattern": r"^a\\Z"}),
        ({"type": "string", "contentEncoding": "base64"}, {"type": "string", "format": "byte"}),
        (
            {"prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False, "maxItems": 2},
            {"items": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}, "maxItems": 2},
        ),
        (
            {"anyOf": [{"$ref": "windlass.a.Thing"}, {"type": "null"}], "default": None},
            {"allOf": [{"$ref": "#/components/schemas/Thing"}], "nullable": True, "default": None},
        ),
        (
            {"$ref": "windlass.a.Thing", "description": "told"},
            {"allOf": [{"$ref": "#/components/schemas/Thing"}], "description": "told"},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "boolean"}, {"type": "null"}]},
            {"anyOf": [{"type": "string", "nullable": True}, {"type": "boolean", "nullable": True}]},
        ),
        (
            {"additionalProperties": {"const": "a"}},
            {"additionalProperties": {"type": "string", "enum": ["a"]}},
        ),
    ],
)
def test_a_schema_is_translated_to_the_openapi_3_0_dialect(younger: Document, older: Document) -> None:
    assert translate(younger, {"windlass.a.Thing": "Thing"}) == older


class Box(Spec):
    size: Annotated[int, Meta(gt=0)]
    tag: Maybe[Literal["a", "b"]] = absent
    pair: tuple[int, str] = (1, "one")
    inner: Maybe[Inner] = absent


class Inner(Spec):
    word: str


class BoxShown(Shown):
    inner: Inner


def posting(answer: type[Struct], path: str = "/box", listing: bool = False) -> StandaloneOperation:
    action = Action(
        name=f"do{path.title().replace('/', '')}", method="POST", suffix="", need=Scope.WRITE, summary="Do",
        body=Box, answer=answer, listing=listing, paged=False,
    )  # fmt: skip
    return StandaloneOperation(path=path, group="Boxes", action=action)


def test_any_type_that_a_family_may_use_makes_a_valid_document() -> None:
    made = document(Registry([], [posting(BoxShown)]))
    OpenAPIV30SpecValidator(json.loads(msgspec.json.encode(made))).validate()
    media = made["paths"]["/box"]["post"]["requestBody"]["content"]["application/json"]
    assert complaints(media, OAS30WriteValidator, made) == []


def test_one_type_in_a_body_and_an_answer_becomes_two_schemas() -> None:
    schemas = document(Registry([], [posting(BoxShown)]))["components"]["schemas"]
    assert schemas["InnerRequest"]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["Inner"]


def test_schemas_of_types_with_the_same_name_begin_with_their_module() -> None:
    twin = msgspec.defstruct("BoxShown", [("word", str)], module="windlass.odd_file")
    schemas = document(Registry([], [posting(BoxShown), posting(twin, "/twin")]))["components"]["schemas"]
    assert {"TestSchemasBoxShown", "OddFileBoxShown"} <= schemas.keys()


def test_two_schemas_with_the_same_name_are_refused() -> None:
    twin = msgspec.defstruct("BoxRequest", [("word", str)])
    with pytest.raises(ValueError, match="BoxRequest"):
        document(Registry([], [posting(twin)]))


def test_generated_examples_show_all_answer_fields_and_only_required_body_fields() -> None:
    fields = {
        "name": {"type": "string", "example": "shop"},
        "note": {"type": "string", "default": ""},
        "until": {"type": "string", "nullable": True, "default": None},
    }
    thing = {"type": "object", "properties": fields, "required": ["name"]}
    assert Samples({}, is_complete=False).of(thing) == {"name": "shop"}
    assert Samples({}, is_complete=True).of(thing) == {"name": "shop", "note": "", "until": None}
