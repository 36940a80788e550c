"""The verifier against a provider that is not ours, over real HTTP."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator

import aiohttp
import pytest

from tests.real_provider import ES256, HERE, LIFETIME, LOCK, RS256, Provider, running_provider
from windlass.base.issuer_keys import IssuerUnreachable, TokenRefused
from windlass.base.oidc import TokenIssuer, Verifier

LEEWAY, PATIENCE = 30, 30


class World:
    """A verifier that trusts the provider, its clock, and what it fetched."""

    def __init__(self, issuer: str, audience: str) -> None:
        self.now = time.time()
        self.fetched: list[str] = []
        trusted = TokenIssuer(issuer=issuer, audiences=(audience,))
        self.verifier = Verifier(
            [trusted], self.fetch, lambda: self.now, leeway=LEEWAY, refetch_every=PATIENCE
        )

    async def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        async with aiohttp.ClientSession(raise_for_status=True) as http, http.get(url) as reply:
            return await reply.read()


@pytest.fixture(scope="module")
def provider(tmp_path_factory) -> Iterator[Provider]:
    with running_provider(tmp_path_factory.mktemp("oidc_provider")) as running:
        yield running


@pytest.fixture
def world(provider: Provider) -> World:
    return World(provider.issuer, RS256)


@pytest.mark.parametrize("audience", [RS256, ES256])
async def test_a_token_of_a_real_provider_is_accepted(provider, audience):
    world = World(provider.issuer, audience)
    token = await provider.token(audience)
    found = await world.verifier.verify(token)
    assert (found["iss"], found["aud"], found["sub"]) == (provider.issuer, audience, "robot")
    assert header(token)["alg"] == audience[-5:].upper()
    assert header(token)["typ"] == "at+jwt"
    assert len(world.fetched) == 2


async def test_a_token_of_the_provider_for_another_audience_is_refused(provider, world):
    with pytest.raises(TokenRefused, match="another audience"):
        await world.verifier.verify(await provider.token(ES256))


async def test_an_expired_token_of_the_provider_is_refused(provider, world):
    token = await provider.token(RS256)
    await world.verifier.verify(token)
    world.now += LIFETIME + LEEWAY + 1
    with pytest.raises(TokenRefused, match="expired"):
        await world.verifier.verify(token)


async def test_a_token_of_the_provider_is_refused_where_the_issuer_has_another_name(provider):
    world = World(provider.issuer.replace("127.0.0.1", "localhost"), RS256)
    with pytest.raises(TokenRefused, match="not trusted"):
        await world.verifier.verify(await provider.token(RS256))


async def test_changed_keys_of_a_provider_are_fetched_once(provider, world):
    old = await provider.token(RS256)
    await world.verifier.verify(old)
    provider.change_keys()
    new = await provider.token(RS256)
    with pytest.raises(TokenRefused, match="no key"):
        await world.verifier.verify(new)
    world.now += PATIENCE
    assert (await world.verifier.verify(new))["sub"] == "robot"
    assert len(world.fetched) == 4
    with pytest.raises(TokenRefused, match="no key"):
        await world.verifier.verify(old)
    assert len(world.fetched) == 4


async def test_a_provider_that_does_not_answer_is_distinguished_from_a_bad_token(provider):
    nobody = "http://127.0.0.1:1"
    world = World(nobody, RS256)
    header, _, signature = (await provider.token(RS256)).split(".")
    payload = base64.urlsafe_b64encode(json.dumps({"iss": nobody}).encode()).rstrip(b"=").decode()
    with pytest.raises(IssuerUnreachable):
        await world.verifier.verify(f"{header}.{payload}.{signature}")


def header(token: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(base64.urlsafe_b64decode(token.partition(".")[0] + "=="))
    return found


def test_the_lock_has_a_hash_for_everything_and_names_no_registry():
    packages = json.loads(LOCK.read_text())["packages"]
    assert packages[""]["dependencies"] == json.loads((HERE / "package.json").read_text())["dependencies"]
    assert all(re.match("sha512-", each["integrity"]) for name, each in packages.items() if name)
    assert not [name for name, each in packages.items() if "resolved" in each]
