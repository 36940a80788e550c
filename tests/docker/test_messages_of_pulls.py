"""Messages for people when an image cannot be pulled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tables import rows
from windlass.docker import images
from windlass.docker.client import EngineRefused
from windlass.docker.client import images as pulls
from windlass.docker.client.images import why_not_pulled
from windlass.docker.client.pulled_images import PulledImages
from windlass.engines.engine import EngineError
from windlass.engines.registries import PullRequest

REF = "ghcr.io/acme/shop:9.9"


@rows(
    ("message", "begins"),
    [
        (
            "manifest for ghcr.io/acme/shop:9.9 not found: manifest unknown: manifest unknown",
            "Choose another tag",
        ),
        ("manifest unknown", "Choose another tag"),
        (
            "pull access denied for acme/shop, repository does not exist or may require 'docker login': "
            "denied: requested access to the resource is denied",
            "Check the name of the image",
        ),
        ("Head https://ghcr.io/v2/acme/shop/manifests/9.9: unauthorized", "Check the name of the image"),
        (
            "Get https://ghcr.io/v2/: dial tcp: lookup ghcr.io on 10.1.2.3:53: no such host",
            "Check the host of",
        ),
        (
            "Get http://localhost:1/v2/: dial tcp 127.0.0.1:1: connect: connection refused",
            "Check the host of",
        ),
        ("net/http: request canceled (Client.Timeout exceeded while awaiting headers)", "Check the host of"),
        ("Get https://ghcr.io/v2/: x509: certificate signed by unknown authority", "Ask the operator to let"),
        ("http: server gave HTTP response to HTTPS client", "Ask the operator to let"),
        ("toomanyrequests: You have reached your pull rate limit", "Deploy again later"),
        (
            'error parsing HTTP 429 response body: unexpected end of JSON input: ""',
            "Deploy again later",
        ),
        ("received unexpected HTTP status: 429 Too Many Requests", "Deploy again later"),
        ("no matching manifest for linux/s390x in the manifest list entries", "Choose another tag"),
        ("write /var/lib/docker/tmp/x: no space left on device", "Ask the operator for space"),
    ],
)
def test_each_cause_of_a_failed_pull_is_reported_with_advice(message: str, begins: str) -> None:
    said = why_not_pulled(REF, message)
    assert said.startswith(begins)
    assert REF in said


def test_no_address_of_the_network_of_the_engine_is_shown() -> None:
    said = why_not_pulled(REF, "Get https://x/v2/: dial tcp: lookup x on 10.1.2.3:53: no such host")
    assert "10.1.2.3" not in said


@pytest.mark.parametrize(
    "message",
    [
        "error parsing HTTP 404 response body: invalid character '<' looking for beginning of: \"<b>{}\"",
        'Head "http://10.0.0.9/v2/x": error parsing HTTP 403 response body: bad: "denied, not found: {}"',
        "unable to decode token response: json: cannot unmarshal string {} into Go value",
        'invalid character "{}" looking for beginning of value',
        "received unexpected HTTP status: 500 {}",
        "failed to resolve reference: unexpected status from GET request to http://10.0.0.9/{}: 500",
    ],
)
def test_no_answer_of_another_program_in_the_network_of_the_engine_is_shown(message: str) -> None:
    said = why_not_pulled(REF, message.format("CANARY"))
    assert said.startswith(f"Check the host of {REF}: another program")
    assert "CANARY" not in said
    assert "10.0.0.9" not in said


def test_an_unknown_pull_failure_is_reported_with_the_engines_own_text() -> None:
    said = why_not_pulled(REF, "the moon is full")
    assert said == f"Check the name and the tag of the image: {REF} cannot be pulled: the moon is full"


class SilentRegistry:
    """A Docker engine that answers, beside a registry that does not."""

    host = ""
    disk_reserve = 0

    async def json(self, method: str, path: str, **_: Any) -> Any:
        if path.startswith("/distribution/"):
            await asyncio.Event().wait()
        raise EngineRefused(404, "No such image")

    @asynccontextmanager
    async def stream(self, *_: object, **__: object) -> AsyncIterator[SilentRegistry]:
        yield self

    async def objects(self) -> AsyncIterator[dict[str, str]]:
        for line in ("Pulling from acme/shop", "Downloading"):
            yield {"status": line}
        await asyncio.Event().wait()


class SlowRegistry(SilentRegistry):
    """One layer comes in small pieces, as long as somebody waits for it."""

    def __init__(self, piece: int, pieces: int) -> None:
        self._piece, self._pieces = piece, pieces
        self.sent = 0

    async def objects(self) -> AsyncIterator[dict[str, Any]]:
        for number in range(1, self._pieces + 1):
            self.sent = number
            yield {
                "id": "layer",
                "status": "Downloading",
                "progressDetail": {"current": number * self._piece},
            }
            await asyncio.sleep(0.01)
        yield {"id": "layer", "status": "Pull complete"}


async def test_a_registry_that_sends_too_slowly_ends_the_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine loads a few layers at a time for all organizations."""
    monkeypatch.setattr(pulls, "SPEED_PERIOD_SECONDS", 0.2)
    slow: Any = SlowRegistry(piece=4, pieces=10_000)
    with pytest.raises(EngineRefused, match=pulls.TOO_SLOW_REASON) as raised:
        await pulls.pull(slow, REF)
    assert why_not_pulled(REF, raised.value.message).startswith("Deploy again later, or take")
    assert slow.sent < 10_000
    usual: Any = SlowRegistry(piece=64 * 1024 * 10, pieces=60)
    await pulls.pull(usual, REF)
    assert usual.sent == 60
    monkeypatch.setattr(pulls, "MIN_PULL_BYTES_PER_SECOND", 0)  # the control: each message gave it more time
    patient: Any = SlowRegistry(piece=4, pieces=60)
    await pulls.pull(patient, REF)


async def test_a_registry_that_never_answers_ends_the_deployment_and_not_the_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pulls, "RESOLVE_TIMEOUT", 0.01)
    engine: Any = SilentRegistry()
    with pytest.raises(EngineError, match=f"Check the host of {REF}.*its registry does not answer"):
        await images.DockerImages(engine, PulledImages(engine, tmp_path)).resolve(PullRequest(REF), print)
    monkeypatch.setattr(pulls, "REGISTRY_SILENCE_TIMEOUT", 0.01)
    with pytest.raises(EngineError, match=f"Check the host of {REF}.*its registry does not answer"):
        await images.DockerImages(engine, PulledImages(engine, tmp_path)).have(REF)
