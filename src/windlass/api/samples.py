"""Plausible values: what a body or an answer may look like, made from its schema.

A schema mostly says it itself, by an example, a default or an enum. Below are words only for fields of
which it cannot tell what a person would write there.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from windlass.api.schemas import Schema, named
from windlass.core.access import MEANINGS, ROLE_IDS, Scope

_IDS = uuid.UUID("0b6f1a52-6a5e-4c56-9a2b-3f1d7c0e8a41")
_MADE: Final = object()
"""Made up here: an id, an item of a list that would else be empty."""


def _id_of(thing: str) -> str:
    """The same wherever the same thing is meant."""
    return str(uuid.uuid5(_IDS, thing.replace("_", "").lower()))


_WORDS: Final[Mapping[str, Any]] = {
    # A field wherever it is, or, with the name of a schema before it, that field of that schema.
    "name": "shop",
    "Organization.name": "Acme",
    "Environment.name": "production",
    "Application.name": "web",
    "Database.name": "orders",
    "Cluster.name": "workshop",
    "ServicePort.name": "p8080",
    "OrganizationApiToken.name": "deployments from CI",
    "Member.name": "Ada Lovelace",
    "OrganizationMember.name": "Ada Lovelace",
    "Role.name": Scope.DEPLOY.word,
    "Region.name": "eu-west-3",
    "Region.arm_supported": True,
    "zones": ["eu-west-3a", "eu-west-3b", "eu-west-3c"],
    "country_code": "FR",
    "country": "France",
    "city": "Paris",
    "description": "Where people buy rope",
    "Organization.description": "Makers of rope",
    "OrganizationApiToken.description": "Used by the pipeline of the shop",
    "OrganizationWebhook.description": "Tells the team channel",
    "EnvironmentVariable.description": "Where the orders are kept",
    "Secret.description": "Key of the payment provider",
    "VariableValue.description": "Another one for this level",
    "VariableAlias.description": "The name that the framework expects",
    "Role.description": MEANINGS[Scope.DEPLOY],
    "Database.description": "What people have ordered",
    "Cluster.description": "The machine under the desk",
    "EnvironmentVariable.value": "postgresql://orders:5432/orders",
    "VariableValue.value": "postgresql://orders-copy:5432/orders",
    "Secret.key": "PAYMENT_KEY",
    "Secret.value": "correct horse battery staple",
    "VariableAlias.key": "PRIMARY_DATABASE_URL",
    "mode": "STAGING",
    "Environment.mode": "PRODUCTION",
    "Database.mode": "CONTAINER",
    "Database.type": "POSTGRESQL",
    "Database.memory": 512,
    "GitRepository.name": "shop",
    "GitRepository.url": "https://github.com/acme/shop.git",
    "GitRepository.owner": "acme",
    "GitRepository.deployed_commit_id": "9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07",
    "GitRepository.deployed_commit_contributor": "Ada Lovelace",
    "provider": "GITHUB",
    "CloudProvider.provider": "ON_PREMISE",
    "cluster_name": "local",
    "branch": "main",
    "dockerfile_path": "Dockerfile",
    "git_commit_id": "9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07",
    "ports": _MADE,
    "internal_port": 8080,
    "external_port": 443,
    "publicly_accessible": True,
    "ServicePort.is_default": True,
    "ServicePort.protocol": "HTTP",
    "scopes": [Scope.DEPLOY.word],
    "OrganizationApiToken.expires_at": "2027-01-31T00:00:00.000Z",
    "Session.expires_at": "2026-01-31T10:05:00.007Z",
    "Environment.expires_at": None,
    "Environment.cluster": _MADE,
    "Application.healthchecks": _MADE,
    "Role.id": ROLE_IDS[Scope.DEPLOY],
    "role_id": ROLE_IDS[Scope.DEPLOY],
    "role_name": Scope.DEPLOY.word,
    "role": "DEVELOPER",
    "token": "wdl_EXAMPLE-of-a-token-that-is-shown-only-once",
    "admin_token": "wdl_EXAMPLE-of-a-token-that-is-shown-only-once",
    "Session.token": "eyJhbGciOiJFZERTQSJ9.EXAMPLE.signature",
    "OrganizationWebhook.events": ["DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED"],
    "OrganizationEvent.event_type": "UPDATE",
    "OrganizationEvent.target_type": "APPLICATION",
    "OrganizationEvent.sub_target_type": "VARIABLE",
    "OrganizationEvent.target_name": "COLOUR",
    "OrganizationEvent.triggered_by": "deployments from CI",
    "OrganizationEvent.address": "203.0.113.7",
    "OrganizationEvent.origin": "CLI",
    "OrganizationEvent.project_name": "shop",
    "OrganizationEvent.environment_name": "production",
    "OrganizationEvent.number": 1482,
    "OrganizationEvent.hash": "9b1fca6ba5d0a0b1b7b0f3a2a1d4f0c6cf3f0a4e5e3b9d7a6c8e2f1d0b4a3c29",
    "OrganizationEvent.user_agent": "CLI 1.0.4",
    "OrganizationEvent.request_id": "5f0c2a9be41d7783",
    "OrganizationEvent.change": '{"key":"COLOUR","value":"red"}',
    "OrganizationEvent.original_change": '{"key":"COLOUR","value":"blue"}',
    "EventLinks.previous": "https://windlass.example.com/organization/…/events?stepBackToken=1482",
    "EventLinks.next": "https://windlass.example.com/organization/…/events?continueToken=1473",
    "EventTarget.name": "web",
    "email": "ada@example.com",
    "inviter": "ada@example.com",
    "InviteMember.email": "grace@example.com",
    "organization_name": "Acme",
    "invitation_link": "https://windlass.example.com/console",
    "invitation_status": "PENDING",
    "scope": "APPLICATION",
    "variable_type": "VALUE",
    "state": "RUNNING",
    "deployment_state": "DEPLOYED",
    "status": "QUEUED",
    "Deployment.state": "QUEUED",
    "Deployment.deployment_state": "QUEUED",
    "Deployment.number": 12,
    "Deployment.started_at": None,
    "Deployment.finished_at": None,
    "HistoryEntry.name": "web",
    "HistoryEntry.status": "SUCCESS",
    "EnvironmentStatus.last_deployment_state": "DEPLOYED",
    "EnvironmentStatus.last_deployment_id": _id_of("deployment"),
    "deployment_status": "UP_TO_DATE",
    "deployment_id": _MADE,
    "triggered_by": "Ada Lovelace",
    "author_name": "Ada Lovelace",
    "Commit.message": "Rope comes in every colour",
    "ChosenServices.application_ids": [_id_of("application")],
    "ChosenToDeploy.applications": _MADE,
    "Link.service_type": "APPLICATION",
    "Link.url": "http://web-production.localhost:8081",
    "Link.external_port": 8081,
    "GitToken.name": "shop on GitHub",
    "GitToken.description": "Reads the private repositories of the shop",
    "GitToken.token": "ghp_EXAMPLE",
    "GitToken.git_api_url": "https://api.github.com",
    "GitToken.has_token": True,
    "Credentials.host": "127.0.0.1",
    "Credentials.port": 5432,
    "Credentials.login": "postgres",
    "Credentials.password": "EXAMPLE-of-a-password",
    "Credentials.access_mode": "PRIVATE",
    "service_deployment_status": "UP_TO_DATE",
    "Deployment.service_deployment_status": "OUT_OF_DATE",
    "action": "DEPLOY",
    "StatusDetails.status": "SUCCESS",
    "Status.deployment_request_id": _MADE,
    "Status.deployment_requests_count": 1,
    "execution_id": _id_of("deployment"),
    "LogLine.message": "listening on port 8080",
    "page": 1,
    "page_size": 100,
    "total_count": 1,
    "total_pages": 1,
}
_LEFT_OUT: Final = {
    "GitRepository.provider", "GitRepository.owner", "GitRepository.name", "Port.name",
    "OrganizationApiToken.role_id", "InviteMember.role", "Environment.cluster", "Application.healthchecks",
}  # fmt: skip
"""What need not be sent, because the server finds it out or something else says it."""
_OF_THE_THING: Final = {"Status.id", "EnvironmentStatus.id", "Deployment.service_id", "Link.service_id"}
"""Ids of what an operation is about."""
_ALSO_CALLED: Final = {"deployment_request": "deployment"}
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
_KINDS: Final[Mapping[str, Any]] = {
    "string": str, "boolean": bool, "integer": int, "number": int | float, "array": list, "object": dict,
}  # fmt: skip


class Place(NamedTuple):
    """Where in an example a value stands."""

    owner: str = ""
    """The schema it is a field of, without what tells bodies from answers."""
    field: str = ""
    holder: str = ""
    """The field that holds its owner."""
    thing: str = ""
    """What the operation is about."""

    def __str__(self) -> str:
        return f"{self.owner}.{self.field}"


ANYWHERE: Final = Place()


class Samples:
    """Examples for these schemas. Those of bodies leave out what one would leave out."""

    def __init__(self, schemas: Mapping[str, Schema], *, whole: bool) -> None:
        self._schemas = schemas
        self._whole = whole

    def of(self, schema: Schema, place: Place = ANYWHERE) -> Any:
        match schema:
            case {"$ref": _}:
                name = named(schema)
                return self.of(self._schemas[name], Place(_bare(name), "", place.field, place.thing))
            case {"allOf": [only]}:
                return self.of(only, place)
            case {"allOf": parts}:
                return {name: value for part in parts for name, value in self.of(part, place).items()}
            case {"anyOf": [first, *_]}:
                return self.of(first, place)
        fitting = (value for value in _candidates(schema, place) if _fits(value, schema))
        found = next(fitting, _MADE)
        return self._made(schema, place) if found is _MADE else found

    def _made(self, schema: Schema, place: Place) -> Any:
        match schema:
            case {"type": "object"}:
                return self._object(schema, place)
            case {"type": "array", "items": item}:
                return [self.of(item, place._replace(field=""))]
            case {"type": "string"}:
                return _text(schema, place)
            case {"type": "boolean"}:
                return True
            case {"type": "integer" | "number"}:
                return max(1, schema.get("minimum", 1))
            case _:
                return {}

    def _object(self, schema: Schema, place: Place) -> dict[str, Any]:
        required = schema.get("required", ())
        fields = ((field, place._replace(field=name)) for name, field in schema.get("properties", {}).items())
        return {
            inside.field: self.of(field, inside)
            for field, inside in fields
            if inside.field in required or self._tells(field, inside)
        }

    def _tells(self, schema: Schema, place: Place) -> bool:
        """Whether an optional field is worth showing."""
        if not self._whole and (str(place) in _LEFT_OUT or schema.get("default", _MADE) is None):
            return False
        said = [value for value in _candidates(schema, place) if value is _MADE or _fits(value, schema)]
        return bool(said) and (self._whole or said[0] not in _EMPTY)


def _candidates(schema: Schema, place: Place) -> Iterator[Any]:
    """What could stand there, best first."""
    if str(place) in _WORDS:
        yield _WORDS[str(place)]
    if "example" in schema:
        yield schema["example"]
    if schema.get("default"):
        yield schema["default"]
    if place.thing and place.field == f"{place.thing}_id":
        yield _MADE
    if place.field in _WORDS:
        yield _WORDS[place.field]
    if "default" in schema:
        yield schema["default"]


def _fits(value: Any, schema: Schema) -> bool:
    if value is _MADE:
        return True
    if value is None:
        return bool(schema.get("nullable"))
    kind = _KINDS.get(schema.get("type", ""), object)
    return isinstance(value, kind) and value in schema.get("enum", [value])


def _text(schema: Schema, place: Place) -> str:
    if "enum" in schema:
        return str(schema["enum"][0])
    if schema.get("format") == "uuid":
        return _id(place)
    return place.field.replace("_", " ") or "text"


def _id(place: Place) -> str:
    """The same wherever the same thing is meant: a project's `id`, its `project.id`, its `project_id`."""
    thing = place.field.removesuffix("_id") if place.field != "id" else place.holder or place.owner
    if str(place) in _OF_THE_THING and place.thing:
        thing = place.thing
    return _id_of(_ALSO_CALLED.get(thing, thing))


def _bare(name: str) -> str:
    return re.sub(r"(Edit|Patch)?Request$|Created$", "", name)
