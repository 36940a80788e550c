"""A deployment is named by its version, and the newest needs no name."""

from __future__ import annotations

import re

import pytest

from tests.commands.test_stories import shop
from tests.commands.waits import meanwhile


@pytest.fixture
async def twice(windlass):
    """`web` was deployed twice; the second build failed."""
    await shop(windlass)
    await meanwhile(windlass, "application", "deploy", "web", "--wait")
    windlass.world.git.broken = "there is no such repository"
    await meanwhile(windlass, "application", "deploy", "web", "--wait")
    return windlass


@pytest.mark.parametrize(("version", "status"), [("v1", "SUCCEEDED"), ("v2", "FAILED"), (None, "FAILED")])
async def test_a_deployment_is_read_by_its_version_or_is_the_newest(twice, version, status):
    shown = await twice.done("deployment", "get", *filter(None, [version]), "--application", "web")
    assert shown["status"] == status
    by_id = await twice.done("deployment", "get", shown["id"], "--application", "web")
    assert by_id == shown


async def test_an_invalid_version_is_refused_with_a_remedy(twice):
    said = await twice("deployment", "log", "v3", "--application", "web")
    assert (said.code, said.err) == (2, "windlass: choose another version: there is no v3\n")
    said = await twice("deployment", "log", "newest", "--application", "web")
    assert said.err == "windlass: give a version such as v3, or an id: 'newest' is neither\n"
    said = await twice("deployment", "cancel", "--application", "web")
    assert "Missing argument" in said.err
    await twice.done("application", "edit", "web", "--name", "other")
    said = await twice("deployment", "get", "v1", "--application", "other", "--text")
    assert re.match(r"status +SUCCEEDED\nversion +v1\naction +DEPLOY\n", said.out), said.out
