"""Two replicas on one PostgreSQL: what one is told, the other knows within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from tests.identity.browsers import Browser
from tests.identity.issuer import invite, joined, members, role
from tests.world import World, make_world
from windlass.base.clock import stamp
from windlass.base.encryption import new_key
from windlass.core.access import Scope

Replicas = tuple[World, World]
ADA = "ada@example.com"
SECOND_ONE = "second"
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query ILIKE 'LISTEN%' AND application_name = $1"""


@pytest.fixture
def shared(postgres):
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture
async def replicas(shared, trusting, tmp_path):
    """Two, on one database; the second can be told from the first by the name of its connections."""
    both = {**trusting, "key": new_key().hex()}
    named = f"{shared}{'&' if '?' in shared else '?'}application_name={SECOND_ONE}"
    async with (
        make_world(shared, folder=tmp_path / "a", **both) as first,
        make_world(named, folder=tmp_path / "b", **both) as second,
    ):
        yield first, second


async def test_a_token_that_was_revoked_at_one_replica_is_refused_at_the_other(replicas: Replicas):
    """The clock stands still, so that only the nudge can have told."""
    first, second = replicas
    token, id = await made(first)
    assert await status(second, token) == 200
    await first.delete(f"/organization/{first.org}/apiToken/{id}")
    await until(lambda: status(second, token), 401)


async def test_without_a_notification_a_revoked_token_is_refused_after_a_second(replicas: Replicas, clock):
    first, second = replicas
    token, id = await made(first)
    await deafened(second)
    assert await status(second, token) == 200
    await first.delete(f"/organization/{first.org}/apiToken/{id}")
    clock.turn(0.999)
    assert await status(second, token) == 200
    clock.turn(0.001)
    assert await status(second, token) == 401


async def test_the_latest_use_recorded_by_any_replica_is_shown(replicas: Replicas, clock):
    first, second = replicas
    token, id = await made(first)
    await status(first, token)
    clock.turn(60)
    await status(second, token)
    for replica in (second, first):
        await replica.installation.authenticator.note()
    noted = (await first.get(f"/organization/{first.org}/apiToken/{id}"))["last_used_at"]
    assert noted == stamp(clock.now())


async def test_replicas_that_start_together_share_one_signing_key(replicas: Replicas):
    for answer in await asyncio.gather(*(one.post("/account/session") for one in replicas)):
        for replica in replicas:
            assert await status(replica, f"Bearer {answer['token']}") == 200


async def test_many_first_requests_at_two_replicas_make_one_member(replicas: Replicas, issuer):
    await invite(replicas[0], ADA)
    headers = [issuer.person(ADA, jti=str(number)) for number in range(20)]
    answers = await asyncio.gather(
        *(replica.get("/organization", token=header) for header in headers for replica in replicas)
    )
    assert {answer.status for answer in answers} == {200}
    assert list(await members(replicas[1])) == [ADA]


async def test_a_role_that_was_changed_at_one_replica_is_in_force_at_the_other(replicas: Replicas, issuer):
    first, second = replicas
    ada = await joined(second, issuer, ADA, Scope.WRITE)
    change = {"user_id": (await members(first))[ADA]["id"], "role_id": role(Scope.READ)}
    assert (await first.put(f"/organization/{first.org}/member", change)).status == 200

    async def tried() -> int:
        new = {"name": second.name("project")}
        return (await second.post(f"/organization/{second.org}/project", new, token=ada)).status

    await until(tried, 403)


async def test_a_session_that_was_ended_at_one_replica_is_refused_at_the_other(replicas: Replicas):
    """The clock stands still, so that only the nudge can have told."""
    first, second = replicas
    there, here = Browser(second), Browser(first)
    await there.sign_in()
    await here.sign_in()
    assert await there.is_signed_in()
    sessions = (await here.call("GET", "/account/browserSession"))["results"]
    (its_own,) = [session["id"] for session in sessions if not session["is_this_one"]]
    assert (await here.call("DELETE", f"/account/browserSession/{its_own}")).status == 204
    await until(there.is_signed_in, False)
    there.go_to(first)
    assert not await there.is_signed_in()
    assert await here.is_signed_in()


async def made(world: World) -> tuple[str, str]:
    """A new token, and its id."""
    answer = await world.post(f"/organization/{world.org}/apiToken", {"name": "ci"})
    return str(answer["token"]), str(answer["id"])


async def status(world: World, token: str) -> int:
    answer = await world.get("/organization", token=token)
    return answer.status


async def until(ask: Callable[[], Awaitable[object]], wanted: object) -> None:
    while await ask() != wanted:  # noqa: ASYNC110 (the other end is a database, which does not notify)
        await asyncio.sleep(0.005)


async def deafened(replica: World) -> None:
    """Cuts the connection on which it listens; it will not be back for a second."""
    connection = await asyncpg.connect(replica.installation.ctx.settings.database_url)
    try:
        await until(lambda: connection.fetchval(CUT, SECOND_ONE), True)
    finally:
        await connection.close()
