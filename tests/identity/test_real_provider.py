"""A whole Windlass that trusts a provider which is not ours, over real HTTP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.identity.issuer import invite, members, role
from tests.real_provider import ES256, LIFETIME, RS256, Provider, running_provider
from tests.world import HandClock, World, make_world
from windlass.base.http_out import HttpSender
from windlass.core.access import Scope

pytestmark = pytest.mark.slow

LEEWAY = PATIENCE = 30


@pytest.fixture(scope="module")
def provider(tmp_path_factory) -> Iterator[Provider]:
    with running_provider(tmp_path_factory.mktemp("oidc_provider")) as running:
        yield running


@contextlib.asynccontextmanager
async def trusting(provider: Provider, **settings: Any) -> AsyncIterator[World]:
    """Its clock stands where the provider's is; it asks the provider as it would in earnest."""
    now = HandClock(time.time_ns() // 1_000_000)
    chosen = {"oidc_issuer": provider.issuer, "oidc_audience": (RS256,)} | settings
    async with make_world(clock=now, fetcher=HttpSender().fetch, **chosen) as world:
        yield world


@pytest.mark.parametrize("audience", [RS256, ES256])
async def test_a_person_of_the_issuer_joins_where_the_setting_allows_it(provider, audience):
    async with trusting(provider, oidc_join="Write", oidc_audience=(audience,)) as world:
        robot = f"Bearer {await provider.token(audience)}"
        made = await world.post(f"/organization/{world.org}/project", {"name": "shop"}, token=robot)
        assert made.status == 200
        assert (await members(world))["robot"]["role_id"] == role(Scope.WRITE)


async def test_an_invited_person_of_the_issuer_becomes_a_member(provider):
    async with trusting(provider) as world:
        await invite(world, "ada@example.com", Scope.DEPLOY)
        robot, ada = [f"Bearer {await provider.token(RS256, client)}" for client in ("robot", "ada")]
        assert (await world.get("/organization", token=robot)).status == 403
        assert (await world.get("/organization", token=ada)).status == 200
        assert {one["role_name"] for one in (await members(world)).values()} == {"Deploy"}


async def test_a_token_of_the_provider_for_another_audience_is_refused(provider):
    async with trusting(provider, oidc_join="Admin") as world:
        answer = await world.get("/organization", token=f"Bearer {await provider.token(ES256)}")
        assert answer.status == 401
        assert "another audience" in answer.message


async def test_a_token_of_the_provider_expires(provider):
    async with trusting(provider, oidc_join="Read") as world:
        robot = f"Bearer {await provider.token(RS256)}"
        assert (await world.get("/organization", token=robot)).status == 200
        world.clock.ms = time.time_ns() // 1_000_000  # the token may be some seconds younger than the world
        world.clock.turn(LIFETIME + LEEWAY + 1)
        assert (await world.get("/organization", token=robot)).status == 401


async def test_after_a_change_of_keys_new_tokens_are_accepted_and_old_ones_refused(provider):
    async with trusting(provider, oidc_join="Read") as world:
        old = f"Bearer {await provider.token(RS256)}"
        assert (await world.get("/organization", token=old)).status == 200
        provider.change_keys()
        new = f"Bearer {await provider.token(RS256)}"
        world.clock.turn(PATIENCE)
        assert (await world.get("/organization", token=new)).status == 200
        assert (await world.get("/organization", token=old)).status == 401


async def test_tokens_of_the_provider_are_refused_by_a_windlass_that_knows_another_issuer(provider):
    other = provider.issuer.replace("127.0.0.1", "localhost")
    async with trusting(provider, oidc_join="Read", oidc_issuer=other) as world:
        answer = await world.get("/organization", token=f"Bearer {await provider.token(RS256)}")
        assert answer.status == 401
