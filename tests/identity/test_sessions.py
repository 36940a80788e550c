"""Sessions: short-lived JWTs of the built-in issuer, for people at the console."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import sys
from datetime import datetime
from typing import Any
from urllib.request import Request, urlopen

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.identity.issuer import joined
from tests.identity.worlds import opened
from tests.world import ADMIN, World, make_world
from windlass.base.clock import SECOND
from windlass.base.issuer import Signer

DISCOVERY = "/.well-known/openid-configuration"
TTL = 3600


async def session(world: World, token: str = ADMIN) -> str:
    """The whole header."""
    answer = await world.post("/account/session", token=token)
    assert answer.status == 201, answer
    return f"{answer['token_type']} {answer['token']}"


async def enters(world: World, header: str) -> bool:
    answer = await world.get("/organization", token=header)
    assert answer.status in {200, 401}, answer
    assert answer.status == 200 or "www-authenticate" in answer.headers
    return answer.status == 200


def claims(header: str) -> dict[str, Any]:
    payload = header.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


# What it may do


@pytest.mark.parametrize("scope", ["Admin", "Write", "Deploy", "Read"])
async def test_a_session_may_do_exactly_what_its_token_may(world, scope):
    app, project = await world.application(), await world.project()
    token = await world.new_token(scope)

    async def tried(header: str) -> list[int]:
        new = {"name": world.name("project")}
        return [
            (await world.get(f"/project/{project}", token=header)).status,
            (await world.post(f"/organization/{world.org}/project", new, token=header)).status,
            (await world.post(f"/application/{app}/deploy", token=header)).status,
            (await world.get(f"/organization/{world.org}/apiToken", token=header)).status,
            (await world.delete(f"/environment/{await world.environment()}", token=header)).status,
        ]

    by_token = await tried(token)
    assert await tried(await session(world, token)) == by_token
    assert {"Admin": 0, "Write": 2, "Deploy": 2, "Read": 3}[scope] == by_token.count(403)


async def test_a_session_of_a_limited_token_has_the_same_limits(world):
    inside, outside = await world.project(), await world.project()
    header = await session(world, await world.new_token("Admin", limited_to=[inside]))
    assert (await world.get(f"/project/{inside}", token=header)).status == 200
    assert (await world.get(f"/project/{outside}", token=header)).status == 404


@pytest.mark.parametrize("own", [{}, {"rate_limit": 5}], ids=["the usual limit", "a limit of its own"])
async def test_exchanging_a_token_for_sessions_does_not_raise_its_rate_limit(database_url, clock, own):
    async with make_world(database_url, clock=clock, rate_limit=1_000_000 if own else 5) as world:
        credential = await world.new_token("Read", **own) if own else ADMIN
        served = 0 if own else 1  # the world itself has asked once
        while (answer := await world.post("/account/session", token=credential)).status == 201:
            header = f"Bearer {answer['token']}"
            assert answer.headers["x-ratelimit-limit"] == "5"
            served += 1 + ((await world.get("/organization", token=header)).status == 200)
        assert (answer.status, served) == (429, 5)
        assert (await world.get("/organization", token=header)).status == 429


async def test_people_have_a_larger_limit_than_tokens(world, issuer):
    header = await joined(world, issuer, "ada@example.com")
    answer = await world.get("/organization", token=header)
    assert answer.headers["x-ratelimit-limit"] == "20000"


async def test_the_rate_limit_of_people_is_exact_and_configurable(database_url, trusting, issuer):
    async with make_world(database_url, **trusting, session_rate_limit=3) as world:
        header = await joined(world, issuer, "ada@example.com")
        answers = [await world.get("/organization", token=header) for _ in range(5)]
        assert answers[-1].status == 429
        assert [one.status for one in answers].count(200) <= 3
        assert {one.headers["x-ratelimit-limit"] for one in answers} == {"3"}
        assert (await world.get("/organization")).status == 200


async def test_sessions_share_the_rate_limit_of_their_token(world):
    token = await world.new_token("Read", rate_limit=4)
    first, second = await session(world, token), await session(world, token)
    answers = [await world.get("/organization", token=one) for one in (first, second, token)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[0].headers["x-ratelimit-limit"] == "4"


async def test_only_an_api_token_can_be_exchanged_for_a_session(world, issuer):
    for header in (await session(world), await joined(world, issuer, "ada@example.com")):
        answer = await world.post("/account/session", token=header)
        assert answer.status == 403
        assert "Only an API token" in answer.message


async def test_a_session_is_accepted_only_with_the_bearer_scheme(world):
    header = await session(world)
    assert await enters(world, header)
    assert not await enters(world, header.replace("Bearer", "Token"))


# How long it lasts


async def test_a_session_expires_at_its_expires_at(world, clock):
    answer = await world.post("/account/session")
    header = f"Bearer {answer['token']}"
    ends = datetime.fromisoformat(answer["expires_at"]).timestamp()
    assert ends == claims(header)["exp"] == clock.now() / SECOND + TTL
    clock.turn(TTL - 0.001)
    assert await enters(world, header)
    clock.turn(0.001)
    assert not await enters(world, header)


async def test_the_lifetime_of_a_session_is_a_setting(database_url, clock):
    async with make_world(database_url, clock=clock, session_ttl=60) as world:
        clock.turn(0.7)
        header = await session(world)
        clock.turn(59.2)
        assert await enters(world, header)
        clock.turn(0.2)
        assert not await enters(world, header)


async def test_a_session_ends_with_the_revocation_of_its_token(world):
    token = await world.new_token("Read")
    header = await session(world, token)
    assert await enters(world, header)
    (row,) = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    await world.delete(f"/organization/{world.org}/apiToken/{row['id']}")
    assert not await enters(world, header)


async def test_a_session_ends_with_the_organization_of_its_token(world):
    org, token = await world.organization()
    header = await session(world, token)
    assert await enters(world, header)
    assert (await world.delete(f"/organization/{org}", token=token)).status == 204
    assert not await enters(world, header)


async def test_a_session_expires_no_later_than_its_token(world, clock):
    token = await world.new_token("Read", expires_at="2026-09-21T14:23:20Z")  # in ten minutes
    answer = await world.post("/account/session", token=token)
    assert answer["expires_at"] == "2026-09-21T14:23:20.000Z"
    clock.turn(600 - 0.001)
    assert await enters(world, f"Bearer {answer['token']}")
    clock.turn(0.001)
    assert not await enters(world, f"Bearer {answer['token']}")
    assert not await enters(world, token)


# Where it comes from


async def published(world: World) -> tuple[dict[str, Any], KeySet]:
    """Returns the public documents of the issuer."""
    discovery = await world.get(DISCOVERY, token=None)
    path = str(discovery["jwks_uri"]).removeprefix(str(discovery["issuer"]))
    return discovery.json, KeySet.import_key_set((await world.get(path, token=None)).json)


async def test_another_library_verifies_a_session_with_what_the_issuer_publishes(world, clock):
    discovery, keys = await published(world)
    header = await session(world, await world.new_token("Read"))
    found = jwt.decode(
        header.removeprefix("Bearer "), keys, algorithms=discovery["id_token_signing_alg_values_supported"]
    ).claims
    rules = jwt.JWTClaimsRegistry(
        now=clock.now() // SECOND,
        iss={"essential": True, "value": discovery["issuer"]},
        aud={"essential": True, "value": "windlass"},
        sub={"essential": True},
        exp={"essential": True},
    )
    rules.validate(found)
    assert found.keys() == set(discovery["claims_supported"])


async def test_the_issuer_publishes_no_private_key_and_sends_the_headers_of_every_answer(world):
    for path in (DISCOVERY, "/.well-known/jwks.json"):
        answer = await world.get(path, token=None)
        assert answer.status == 200
        assert {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"} <= answer.headers.keys()
    (key,) = answer["keys"]
    assert key.keys() == {"kty", "crv", "x", "y", "kid", "use", "alg"}


NAMES: dict[str, dict[str, Any]] = {
    "https://windlass.example.com": {"public_url": "https://windlass.example.com"},
    "https://example.com/windlass": {"public_url": "https://example.com/windlass/"},
    "http://127.0.0.1:8080": {},
    "http://[::1]:9000": {"host": "::1", "port": 9000},
}


@pytest.mark.parametrize("name", NAMES)
async def test_the_issuer_is_the_public_url_of_the_server(name):
    async with make_world(**NAMES[name]) as world:
        discovery = (await world.get(DISCOVERY, token=None)).json
        assert discovery["issuer"] == name
        assert discovery["jwks_uri"] == f"{name}/.well-known/jwks.json"
        header = await session(world)
        assert claims(header)["iss"] == name
        assert await enters(world, header)


async def test_a_session_outlives_a_restart_but_not_in_another_installation(database_url, clock, tmp_path):
    async with make_world(database_url, clock=clock, folder=tmp_path) as world:
        header = await session(world)
        before = (await published(world))[1].as_dict()
    async with make_world(database_url, clock=clock, folder=tmp_path) as world:
        assert await enters(world, header)
        assert (await published(world))[1].as_dict() == before
    async with make_world(clock=clock) as another:
        assert not await enters(another, header)


async def test_a_session_of_the_operators_token_ends_when_that_setting_is_changed_or_removed(
    database_url, clock, tmp_path
):
    async with opened(tmp_path, clock, ADMIN, database_url) as world:
        header = await session(world)
    async with opened(tmp_path, clock, ADMIN, database_url) as world:
        assert await enters(world, header)
    for other in ("another-token-of-the-operator-0123456789", ""):
        async with opened(tmp_path, clock, other, database_url) as world:
            assert not await enters(world, header)


async def test_a_session_signed_with_another_key_is_refused(world, clock):
    header = await session(world)
    wanted = {name: claims(header)[name] for name in ("sub", "aud")}
    issuer = (await world.get(DISCOVERY, token=None))["issuer"]
    forger = Signer(issuer, Signer.new_key(), lambda: clock.now() / SECOND)
    assert not await enters(world, f"Bearer {forger.sign(wanted, TTL)}")


async def test_the_private_key_is_encrypted_at_rest(world):
    await session(world)
    ctx = world.installation.ctx
    kept = await ctx.store.reads.facts.get("issuer_key")
    assert b"PRIVATE KEY" not in kept
    assert b"PRIVATE KEY" in ctx.encryption.decrypt(kept, "issuer_key")


# On a real port


async def test_with_port_0_the_issuer_contains_the_assigned_port(tmp_path):
    """The one test that starts the program: only it knows the port."""
    options = ["--port", "0", "--gateway-port", "0", "--data-dir", str(tmp_path)]
    program = [sys.executable, "-m", "windlass", "serve", *options]
    process = await asyncio.create_subprocess_exec(*program, stderr=asyncio.subprocess.PIPE)
    try:
        assert process.stderr is not None
        said = await process.stderr.readuntil(b"Remove it then.")
        url = said.split(b"listens on ")[1].split()[0].decode()
        steps = tmp_path / "first-steps"
        token = steps.read_text().split("WINDLASS_TOKEN=")[1].split()[0]
        assert token.encode() not in said
        assert b"#code=" not in said
        assert stat.S_IMODE(steps.stat().st_mode) == 0o600
        made = await asyncio.to_thread(fetched, f"{url}/account/session", f"Token {token}", "POST")
        discovery = await asyncio.to_thread(fetched, url + DISCOVERY)
        assert discovery["issuer"] == url
        keys = KeySet.import_key_set(await asyncio.to_thread(fetched, discovery["jwks_uri"]))
        assert jwt.decode(made["token"], keys, algorithms=["ES256"]).claims["iss"] == url
        await asyncio.to_thread(fetched, f"{url}/organization", f"Bearer {made['token']}")
    finally:
        process.terminate()
        await process.communicate()


def fetched(url: str, credential: str = "", method: str = "GET") -> Any:
    headers = {"Authorization": credential} if credential else {}
    with urlopen(Request(url, headers=headers, method=method), timeout=10) as answer:
        return json.load(answer)
