"""The OpenAPI 3.0.3 document of the API, generated from the registry of operations."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

from windlass.api import account_document
from windlass.api.body import MERGE_PATCH
from windlass.api.router import MAX_WORD_LENGTH
from windlass.api.samples import ExamplePosition, Samples
from windlass.api.schemas import Schema, Schemas, parameters, without_marks
from windlass.core.declare.registry import Operation, Registry
from windlass.core.declare.traits import has_deployments

API_VERSION: Final = "1.0.4"
"""The version of the API, not of the server."""

_ABOUT = """\
Every request is authenticated: `Authorization: Token <API_TOKEN>`. Bodies are JSON, and unknown fields
are refused. `PUT` replaces, `PATCH` merges. Lists take `page` and `page_size`. Every answer says how many
requests are left of this hour. What is refused is answered with an `Error`, whose `message` names the field
and the way out. A `POST` with an `Idempotency-Key` can be repeated without harm; `If-Match` with an `ETag`
keeps two writers apart."""

_GROUPS: Final = (
    "Organizations", "Projects", "Environments", "Applications", "Databases", "Containers", "Jobs",
    "Clusters", "Environment Variables", "Secrets", "Deployment Rules", "Webhooks", "Cloud Provider",
    "Terraform", "Alert Rules", "Members", "Backups", "Billing",
)  # fmt: skip
"""The groups of operations in the order of the API contract. Other groups follow them."""


class _ErrorResponse(NamedTuple):
    name: str
    """The name of the component in the document."""
    meaning: str
    message: str
    """An example of an error message."""


_ERROR_RESPONSES: Final = {
    400: _ErrorResponse(
        "BadRequest", "The request is wrong; the message names the field", "name: is required"
    ),
    401: _ErrorResponse(
        "Unauthorized", "The token is missing or invalid", "Send `Authorization: Token <API token>`"
    ),
    403: _ErrorResponse("Forbidden", "The token lacks the permission", "This needs the scope Admin"),
    404: _ErrorResponse(
        "NotFound", "There is no such thing for this caller", "There is no project with this id"
    ),
    409: _ErrorResponse("Conflict", "It cannot be done as things are", "name: another project is named shop"),
    412: _ErrorResponse(
        "PreconditionFailed", "`If-Match` names an older version", "It has changed: read it again"
    ),
    413: _ErrorResponse("PayloadTooLarge", "The body is too large", "The body is larger than 1048576 bytes"),
    422: _ErrorResponse(
        "UnprocessableEntity", "Another server refuses it", "Give the git token the right to manage webhooks"
    ),
    429: _ErrorResponse("TooManyRequests", "The limit of requests is reached", "Go on in 60 seconds"),
    500: _ErrorResponse("InternalServerError", "Something went wrong here", "Something went wrong here"),
    503: _ErrorResponse(
        "ServiceUnavailable", "Something that is needed is away", "The database is away: try again"
    ),
}
_SUCCESS_DESCRIPTIONS: Final = {
    200: "Success",
    201: "Created",
    202: "Accepted",
    204: "Done; the answer has no body",
}

_INTEGER: Final = {"type": "integer", "format": "int64"}
_STRING: Final = {"type": "string"}
# The schema of an event after parsing, as in OpenAPI 3.2.
_EVENT: Final = {
    "type": "object",
    "properties": {"id": _STRING, "event": _STRING, "data": _STRING},
    "required": ["data"],
}
_EVENTS: Final = {"text/event-stream": {"schema": _EVENT}}
_BOOLEAN: Final = {"type": "boolean"}
_WORD: Final = {"type": "string", "minLength": 1, "maxLength": MAX_WORD_LENGTH}
_HEADERS: Final[Mapping[str, tuple[str, Schema, Any]]] = {
    "X-RateLimit-Limit": ("How many requests the caller has in a window", _INTEGER, 1000),
    "X-RateLimit-Remaining": ("How many of them are left", _INTEGER, 999),
    "X-RateLimit-Reset": ("When the window ends, as a Unix timestamp", _INTEGER, 1769853600),
    "X-Request-Id": (
        "The id of this request in the logs; the caller's own, if it sent one",
        _STRING,
        "5f0c2a9be41d7783",
    ),
    "ETag": ("The version of the resource, for `If-Match`", _STRING, '"9c1e5b0d2f7a4836"'),
    "Retry-After": ("After how many seconds to try again", _INTEGER, 60),
    "WWW-Authenticate": ("How to authenticate", _STRING, "Token"),
    "Idempotency-Replayed": (
        "Present if this is the stored answer to an earlier request with the same key",
        _BOOLEAN,
        True,
    ),
}
_COMMON_HEADERS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id")
_OPTIONAL_HEADER: Final = "Idempotency-Replayed"
_OF_REFUSAL: Final = {401: ("WWW-Authenticate",), 429: ("Retry-After",)}

_PARAMETERS: Final[Mapping[str, Schema]] = {
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Makes retries safe: for 24 hours, this key with this body gets the same answer",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    },
    "If-Match": {
        "name": "If-Match",
        "in": "header",
        "description": "The `ETag` of the version to change: if there is a newer one, nothing is changed",
        "schema": _STRING,
    },
}
_SECURITY_SCHEMES: Final[Mapping[str, Schema]] = {
    "Token": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "An API token, for machines: `Authorization: Token <API_TOKEN>`",
    },
    "Bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A JWT of an OpenID Connect account, for people: `Authorization: Bearer <JWT>`",
    },
}


@cache
def encoded_document(registry: Registry) -> bytes:
    """Returns the document as JSON. It is generated at the first request."""
    return msgspec.json.encode(document(registry))


def document(registry: Registry, *, title: str = "Windlass", about: str = _ABOUT) -> dict[str, Any]:
    return _Document(registry).whole(title, about)


class _Document:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._schemas = Schemas(registry)
        self._bodies = Samples(self._schemas.components, is_complete=False)
        self._answers = Samples(self._schemas.components, is_complete=True)

    def whole(self, title: str, about: str) -> dict[str, Any]:
        paths = self._paths()
        return {
            "openapi": "3.0.3",
            "info": {"title": title, "version": API_VERSION, "description": about},
            "servers": [{"url": "/"}, {"url": "/api/v1"}],
            "security": [{scheme: []} for scheme in _SECURITY_SCHEMES],
            "tags": [*_tags(self._registry.operations)],
            "paths": paths,
            "components": {
                "schemas": without_marks(dict(sorted(self._schemas.components.items()))),
                "responses": {
                    refusal.name: _refusal_answer(status) for status, refusal in _ERROR_RESPONSES.items()
                },
                "parameters": _PARAMETERS,
                "headers": {name: _header(name) for name in _HEADERS},
                "securitySchemes": _SECURITY_SCHEMES,
            },
        }

    def _paths(self) -> dict[str, Schema]:
        paths: dict[str, Schema] = {}
        for operation in self._registry.operations:
            paths.setdefault(operation.path, {})[operation.method.lower()] = self._operation(operation)
        return paths | account_document.paths(_headers(()))

    def _operation(self, operation: Operation) -> Schema:
        parts = {
            "tags": [operation.group],
            "operationId": operation.id,
            "summary": operation.summary,
            "description": operation.description,
            "x-scope": operation.need.word,
            "parameters": [*self._parameters(operation)],
            "requestBody": self._body(operation),
            "responses": {
                str(operation.status): self._success(operation),
                **{str(status): _empty(operation, status) for status in operation.also if status < 400},
                **{
                    str(status): _reference_to("responses", _ERROR_RESPONSES[status].name)
                    for status in _refusals(operation)
                },
            },
        }
        return {key: value for key, value in parts.items() if value}

    def _parameters(self, operation: Operation) -> Iterator[Schema]:
        for id in operation.ids:
            yield {
                "name": id.param,
                "in": "path",
                "required": True,
                "description": f"Id of the {id.noun}" if id.families else f"The {id.noun}",
                "schema": {"type": "string", "format": "uuid"} if id.families else _WORD,
            }
        for name, required, schema in parameters(operation.query) if operation.query else ():
            about = {"description": schema.pop("description")} if "description" in schema else {}
            yield {"name": name, "in": "query", "required": required, **about, "schema": schema}
        if operation.is_repeatable:
            yield _reference_to("parameters", "Idempotency-Key")
        if operation.conditional:
            yield _reference_to("parameters", "If-Match")

    def _body(self, operation: Operation) -> Schema:
        """Describes the request body. The body is required if it has required fields, because no body is
        equivalent to an empty one."""
        if operation.body is None:
            return {}
        schema = self._schemas.body(operation.body)
        required = any(field.required for field in msgspec.structs.fields(operation.body))
        example = self._bodies.of(schema)
        if operation.family and operation.body in {operation.family.edit, operation.family.patch}:
            example = {name: value for name, value in example.items() if name not in operation.family.fixed}
        content = _content(schema, example)
        if operation.method == "PATCH":
            content |= {MERGE_PATCH: content["application/json"]}
        return {"required": required, "content": content}

    def _success(self, operation: Operation) -> Schema:
        answer = _empty(operation, operation.status)
        if operation.media_type:
            return answer | {"content": {operation.media_type: {"schema": _STRING | {"format": "binary"}}}}
        if operation.answer is None:
            return answer
        schema = self._schemas.answer(operation)
        content = _content(schema, self._answers.of(schema, ExamplePosition(thing=_subject_of(operation))))
        if operation.streams:
            return answer | {"content": _stream(content)}
        return answer | {"content": content | (_EVENTS if _can_follow(operation) else {})}


def _stream(content: Schema) -> Schema:
    """Describes the data of a stream's events, for which OpenAPI 3.0 has no keyword."""
    data = content["application/json"]
    example = {"id": "42", "data": msgspec.json.encode(data["example"]).decode()}
    return {"text/event-stream": {"schema": _EVENT, "example": example, "x-data": data["schema"]}}


def _empty(operation: Operation, status: int) -> Schema:
    more = [("ETag", operation.tagged), ("Idempotency-Replayed", operation.is_repeatable)]
    return {
        "description": _SUCCESS_DESCRIPTIONS[status],
        "headers": _headers(name for name, is_there in more if is_there),
    }


def _subject_of(operation: Operation) -> str:
    """Returns the subject of an operation. The subject of an action on a service is the service."""
    if operation.parent and operation.family and operation.family.parent is has_deployments:
        return operation.parent.name
    return operation.itself.name if operation.itself else operation.family.name if operation.family else ""


def _can_follow(operation: Operation) -> bool:
    """Returns whether an operation can respond with a stream."""
    return operation.query is not None and "follow" in operation.query.__struct_encode_fields__


def _refusals(operation: Operation) -> Iterator[int]:
    """Returns the possible error statuses of an operation, in ascending order."""
    posts = operation.method == "POST"
    reads_a_body = posts or operation.body is not None
    can = {
        400: reads_a_body or operation.query is not None or operation.conditional,
        409: operation.writes or 409 in operation.also,
        412: operation.conditional,
        413: reads_a_body,
        422: 422 in operation.also,
    }
    return (status for status in _ERROR_RESPONSES if can.get(status, True))


def _refusal_answer(status: int) -> Schema:
    refusal = _ERROR_RESPONSES[status]
    texts = {"message": refusal.message, "detail": refusal.message}
    example = {"status": status, "error": HTTPStatus(status).phrase, **texts}
    return {
        "description": refusal.meaning,
        "headers": _headers(_OF_REFUSAL.get(status, ())),
        "content": _content(_reference_to("schemas", "Error"), example),
    }


def _headers(extra_headers: Iterable[str]) -> Schema:
    return {name: _reference_to("headers", name) for name in (*_COMMON_HEADERS, *extra_headers)}


def _header(name: str) -> Schema:
    description, schema, example = _HEADERS[name]
    return {
        "description": description,
        "required": name != _OPTIONAL_HEADER,
        "schema": schema,
        "example": example,
    }


def _content(schema: Schema, example: Any) -> Schema:
    return {"application/json": {"schema": schema, "example": example}}


def _reference_to(kind: str, name: str) -> Schema:
    return {"$ref": f"#/components/{kind}/{name}"}


def _tags(operations: Iterable[Operation]) -> Iterator[Schema]:
    """Yields the groups with their descriptions, which come from the module of the group's family.

    Operations of a group's own family have priority, because a group may contain actions of other families.
    """
    first: dict[str, Operation] = {}
    for operation in sorted(operations, key=lambda operation: not _is_of_its_family(operation)):
        first.setdefault(operation.group, operation)
    for group in sorted(first, key=lambda group: _GROUPS.index(group) if group in _GROUPS else len(_GROUPS)):
        yield {"name": group, "description": _first_sentence(first[group])}


def _is_of_its_family(operation: Operation) -> bool:
    return operation.family is not None and operation.family.group == operation.group


def _first_sentence(operation: Operation) -> str:
    declared = operation.family.spec if operation.family else operation.answer
    docstring = sys.modules[declared.__module__].__doc__ if declared else None
    return (docstring or operation.group).partition("\n\n")[0].strip()
