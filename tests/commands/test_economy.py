"""Commands make few requests, and wait when the hour's requests are used up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest

from tests.commands.test_stories import shop
from tests.commands.waits import held, meanwhile, states
from tests.schemathesis.serving import served
from windlass.cli.following import announcement

pytestmark = pytest.mark.nightly


class Counted:
    """An app that notes what it is asked, and may refuse some of it first."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.asked: list[str] = []
        self.refusals: dict[str, list[int]] = {}
        """By a part of the path: with which statuses the first requests are refused."""
        self.cut = ""
        """The stream at this path breaks off after its first piece, once."""

    async def __call__(self, scope, receive, send) -> None:
        self.asked.append(f"{scope['method']} {scope['path']}")
        for part, statuses in self.refusals.items():
            if part in scope["path"] and statuses:
                await _refuse(statuses.pop(), send)
                return
        if self.cut and scope["path"].endswith(self.cut):
            self.cut, send = "", _cutting(send)
        await self._app(scope, receive, send)


async def _refuse(status: int, send) -> None:
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
    body = json.dumps({"message": f"refused with {status}"}).encode()
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _cutting(send):
    pieces = 0

    async def passed(message) -> None:
        nonlocal pieces
        pieces += message["type"] == "http.response.body"
        if pieces > 1:
            raise ConnectionError("the connection is cut here")
        await send(message)

    return passed


@asynccontextmanager
async def counted(windlass) -> AsyncIterator[Counted]:
    app = Counted(windlass.world.installation.app)
    async with served(windlass.world, app) as url:
        before, windlass.url = windlass.url, url
        try:
            yield app
        finally:
            windlass.url = before


VERBS = [
    ("project get shop", 2),
    ("environment get shop/production", 2),
    ("application get shop/production/web", 2),
    ("application get web --environment shop/production --project shop", 2),
    ("application status web", 2),
    ("application link web", 2),
    ("application log web", 2),
    ("application edit web --memory 256 --git-repository.branch next", 2),
    ("application deploy web", 2),
    ("application delete web", 2),
    ("application list", 2),
    ("application list --environment shop/production", 2),
    ("application list --environment shop/production --text", 2),
    ("project list", 2),
    ("project create --name more", 2),
    ("environment create --project shop --name staging --cluster-id local", 3),
    ("secret create --application web --key KEY --value v", 2),
    ("secret list --application shop/production/web", 2),
    ("environment-variable edit COLOUR --application web --value red", 3),
    ("region list aws", 1),
    ("ps", 2),
    ("ps --environment shop/production", 2),
    ("logs web", 3),
    ("env --application web", 3),
    ("env set A=1 B=2 --application web", 4),
    ("deploy web --detach", 3),
]


@pytest.mark.parametrize(("words", "most"), VERBS, ids=[words for words, _ in VERBS])
async def test_each_command_sends_at_most_its_allowed_number_of_requests(windlass, words, most):
    await shop(windlass)
    await windlass.done("environment-variable", "create", "--application", "web", "--key", "COLOUR")
    async with counted(windlass) as app:
        said = await windlass(*words.split())
    assert said.code == 0, said
    assert len(app.asked) <= most, app.asked


@pytest.mark.parametrize("form", ["--text", "--json"])
async def test_a_whole_deployment_with_its_build_log_takes_six_requests(windlass, form):
    await shop(windlass)
    async with counted(windlass) as app:
        said = await held(windlass, "application", "deploy", "shop/production/web", "--wait", form)
    assert said.code == 0, said
    assert "  Building " in said.err
    # The last one asks whether a service without an address lacks a port.
    assert len(app.asked) <= 6, app.asked


async def test_a_deployment_that_fails_takes_five_requests(windlass):
    await shop(windlass)
    windlass.world.engine.exits = "it ended with exit code 3"
    async with counted(windlass) as app:
        said = await held(windlass, "application", "deploy", "web", "--wait")
    assert said.code == 1
    assert len(app.asked) <= 5, app.asked


async def test_the_duration_does_not_change_the_number_of_requests(windlass):
    await shop(windlass)
    building = windlass.world.builder.gate = asyncio.Event()
    async with counted(windlass) as app:
        saying = asyncio.create_task(meanwhile(windlass, "application", "deploy", "web", "--wait"))
        await asyncio.sleep(3)
        building.set()
        said = await saying
    assert said.code == 0, said
    assert len(app.asked) <= 5, app.asked


async def test_a_whole_environment_takes_one_more_request_for_each_service(windlass):
    await shop(windlass)
    async with counted(windlass) as app:
        said = await held(windlass, "environment", "deploy", "shop/production", "--wait", "--text")
    assert said.code == 0, said
    assert len(app.asked) <= 7, app.asked


# When the hour's requests are used up, or the stream breaks


@pytest.mark.parametrize("part", ["/resource", "/deploy", "/stream", "/log", "/link"])
async def test_a_deployment_that_is_waited_for_outlives_a_429(windlass, part):
    await shop(windlass)
    async with counted(windlass) as app:
        app.refusals[part] = [HTTPStatus.TOO_MANY_REQUESTS]
        said = await held(windlass, "application", "deploy", "web", "--wait", "--text")
    assert said.code == 0, said
    assert not app.refusals[part]
    assert "refused with 429" in said.err
    assert "Continuing." in said.err
    assert said.out.startswith("web is live")


async def test_a_429_ends_a_command_that_does_not_wait(windlass):
    await shop(windlass)
    async with counted(windlass) as app:
        app.refusals["/deploy"] = [HTTPStatus.TOO_MANY_REQUESTS]
        said = await windlass("application", "deploy", "web")
    assert (said.code, said.err) == (1, "windlass: refused with 429\n")


@pytest.mark.parametrize("cut", ["/stream", "/log"])
async def test_a_stream_that_is_cut_is_taken_up_again(windlass, cut):
    await shop(windlass)
    async with counted(windlass) as app:
        app.cut = cut
        said = await held(windlass, "application", "deploy", "web", "--wait")
    assert not app.cut
    assert said.code == 0, said
    assert said.json["status"] == "SUCCEEDED"
    assert states(said)[-1] == "RUNNING"
    log = await windlass.done("deployment", "log", said.json["id"], "--application", "web")
    shown = [line[2:] for line in said.err.splitlines() if line.startswith("  ")]
    assert shown == [line["message"] for line in log["results"]]


async def test_waiting_for_an_environment_survives_a_broken_stream(windlass):
    await shop(windlass)
    async with counted(windlass) as app:
        app.cut = "/status/stream"
        said = await held(windlass, "environment", "deploy", "production", "--wait")
    assert said.code == 0, said
    assert said.json["state"] == "RUNNING"


def test_a_long_retry_pause_is_announced_with_its_length_and_end():
    assert re.fullmatch(r"Waiting 36 minutes, until \d\d:\d\d:\d\d\. .+", announcement(2146))
    assert announcement(1) == "Trying again…"
