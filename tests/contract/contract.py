"""The contract as a client knows it: its payloads, its 15 endpoints, the form of its answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from tests.fakes.engine import FakeEngine
from tests.world import Answer, World
from windlass.engines.workload import Instance, Workload

NOWHERE: Final = "00000000-0000-4000-8000-000000000000"
COMMIT: Final = "4f1d2c3b4a5968778695a4b3c2d1e0f102132435"

PROJECT: Final[Mapping[str, Any]] = {"name": "shop", "description": "Sells things"}
ENVIRONMENT: Final[Mapping[str, Any]] = {"name": "blue", "mode": "STAGING", "cluster_id": "{cluster_id}"}
APPLICATION: Final[Mapping[str, Any]] = {
    "name": "front",
    "git_repository": {"url": "https://git.example/acme/front.git", "branch": "main"},
    "build_mode": "DOCKER",
    "dockerfile_path": "Dockerfile",
    "cpu": 1000,
    "memory": 256,
    "min_running_instances": 1,
    "max_running_instances": 3,
    "ports": [{"internal_port": 3000, "external_port": 443, "protocol": "HTTP", "publicly_accessible": True}],
}
DATABASE: Final[Mapping[str, Any]] = {
    "name": "ledger",
    "type": "POSTGRESQL",
    "version": "16",
    "mode": "MANAGED",
    "cpu": 500,
    "memory": 1024,
    "storage": 20,
}
VARIABLE: Final[Mapping[str, Any]] = {"key": "COLOUR", "value": "teal"}
SECRET: Final[Mapping[str, Any]] = {"key": "PASSWORD", "value": "correct horse battery staple"}
KINDS: Final = ["DEPLOYMENT_STARTED", "DEPLOYMENT_SUCCEEDED", "DEPLOYMENT_FAILED"]
WEBHOOK: Final[Mapping[str, Any]] = {
    "target_url": "https://hooks.example/deployments",
    "events": KINDS,
    "enabled": True,
}


class Endpoint(NamedTuple):
    number: int
    method: str
    path: str
    need: str
    """The scope that is enough."""
    body: Mapping[str, Any] | None = None

    async def call(self, world: World, ids: Mapping[str, str], **options: Any) -> Answer:
        """The call as it is written in the contract, with ids where it has names in braces."""
        path = self.path.format(**ids)
        if self.body is None:
            return await world.call(self.method, path, **options)
        return await world.call(self.method, path, filled(self.body, ids), **options)


ENDPOINTS: Final = (
    Endpoint(1, "GET", "/aws/region", "Read"),
    Endpoint(2, "GET", "/organization", "Read"),
    Endpoint(3, "GET", "/organization/{org_id}/project", "Read"),
    Endpoint(4, "POST", "/organization/{org_id}/project", "Write", PROJECT),
    Endpoint(5, "POST", "/project/{project_id}/environment", "Write", ENVIRONMENT),
    Endpoint(6, "POST", "/environment/{env_id}/application", "Write", APPLICATION),
    Endpoint(7, "POST", "/application/{app_id}/deploy", "Deploy", {"git_commit_id": COMMIT}),
    Endpoint(8, "GET", "/application/{app_id}/status", "Read"),
    Endpoint(9, "POST", "/application/{app_id}/environmentVariable", "Write", VARIABLE),
    Endpoint(10, "GET", "/application/{app_id}/environmentVariable", "Read"),
    Endpoint(11, "POST", "/application/{app_id}/secret", "Write", SECRET),
    Endpoint(12, "GET", "/application/{app_id}/log", "Read"),
    Endpoint(13, "POST", "/environment/{env_id}/database", "Write", DATABASE),
    Endpoint(14, "POST", "/database/{db_id}/deploy", "Deploy"),
    Endpoint(15, "POST", "/organization/{org_id}/webhook", "Write", WEBHOOK),
)
CREATIONS: Final = tuple(one for one in ENDPOINTS if one.need == "Write")
HERE: Final[Mapping[str, str]] = {
    "application": "/application/{id}",
    "database": "/database/{id}",
    "environment": "/environment/{id}",
    "project": "/project/{id}",
}
"""The paths at which created resources can be read; other resources are read below their collection."""


class SlowEngine(FakeEngine):
    """Says when it has begun, and waits to be told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def run(self, wanted: Workload, index: int) -> Instance:
        self.began.set()
        await self.may_go_on.wait()
        return await super().run(wanted, index)


async def stocked(world: World) -> dict[str, str]:
    """One of everything that the paths of the contract name, by the names in its braces."""
    project = await world.project()
    environment = await world.environment(project)
    return {
        "org_id": world.org,
        "cluster_id": await first_cluster(world),
        "project_id": project,
        "env_id": environment,
        "app_id": await world.application(environment),
        "db_id": await world.database(environment),
    }


async def first_cluster(world: World) -> str:
    return str((await world.get(f"/organization/{world.org}/cluster"))["results"][0]["id"])


async def read_back(world: World, endpoint: Endpoint, ids: Mapping[str, str], id: str) -> Answer:
    """Reads a created resource again."""
    return await world.get(place_of(endpoint, ids, id))


def place_of(endpoint: Endpoint, ids: Mapping[str, str], id: str) -> str:
    """The path of what an endpoint created."""
    collection = endpoint.path.format(**ids)
    return HERE.get(collection.rsplit("/", 1)[1], collection + "/{id}").format(id=id)


def filled(body: Any, ids: Mapping[str, str]) -> Any:
    text = json.dumps(body)
    for name, id in ids.items():
        text = text.replace("{" + name + "}", id)
    return json.loads(text)


# Documents


def steps(path: str) -> list[str | int]:
    """`ports.internal_port` leads into the first of the ports."""
    first, *rest = path.split(".")
    return [first, *([0] if first == "ports" and rest else []), *rest]


def found(document: Any, path: str) -> Any:
    for step in steps(path):
        document = document[step]
    return document


def changed(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy, with one value replaced."""
    copy: dict[str, Any] = json.loads(json.dumps(document))
    *way, last = steps(path)
    place: Any = copy
    for step in way:
        place = place[step]
    place[last] = value
    return copy


def without(document: Mapping[str, Any], path: str) -> dict[str, Any]:
    """A copy, with one value left out."""
    copy: dict[str, Any] = json.loads(json.dumps(document))
    *way, last = steps(path)
    place: Any = copy
    for step in way:
        place = place[step]
    del place[last]
    return copy


def times(document: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every time in a document, at whatever depth, with the name of its field."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from times(value, key)
    elif isinstance(document, list):
        for value in document:
            yield from times(value, name)
    elif document is not None and name.endswith(("_at", "_date")):
        yield name, document


# Answers

_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
LIMITS: Final = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


def instant(text: Any) -> datetime:
    """A time as the contract writes it: ISO 8601, UTC, milliseconds."""
    assert isinstance(text, str)
    assert _STAMP.fullmatch(text), text
    moment = datetime.fromisoformat(text)
    assert moment.tzinfo == UTC
    return moment


def is_refused(answer: Answer, status: int, *said: str) -> None:
    """The error body, whole: status, its text, a message for people that says what it should."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    body = answer.json
    assert body.keys() == {"status", "error", "message", "detail"}
    assert (body["status"], body["error"]) == (status, HTTPStatus(status).phrase)
    assert type(body["status"]) is int
    assert isinstance(body["message"], str)
    assert body["message"]
    assert body["detail"] == body["message"]
    for word in said:
        assert word in body["message"]
    says_its_limits(answer)


def says_its_limits(answer: Answer) -> None:
    for name in LIMITS:
        assert re.fullmatch(r"[0-9]+", answer.headers[name]), name
    assert int(answer.headers["x-ratelimit-limit"]) >= 1
    assert int(answer.headers["x-ratelimit-remaining"]) <= int(answer.headers["x-ratelimit-limit"])


def names(answer: Answer) -> list[str]:
    return [one["name"] for one in answer["results"]]
