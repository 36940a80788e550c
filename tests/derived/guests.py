"""Members who were invited and sign in at an issuer of the tests."""

from __future__ import annotations

import json

from tests.derived.things import Tenant
from tests.world import HandClock, World
from windlass.base.clock import SECOND
from windlass.base.issuer import DISCOVERY_PATH, JWKS_PATH, Signer


async def make_member(world: World, tenant: Tenant) -> str:
    """Invites a person, who signs in at an issuer that vouches for the address."""
    email = f"{world.name('guest')}@example.com"
    await world.made(f"/organization/{tenant.org}/inviteMember", {"email": email}, token=tenant.admin)
    claims = {"sub": email, "aud": "windlass", "email": email, "email_verified": True}
    signed = people(world.clock).sign(claims, 3600)
    assert (await world.get("/organization", token=f"Bearer {signed}")).status == 200
    members = await world.get(f"/organization/{tenant.org}/member?page_size=1000", token=tenant.admin)
    return next(str(one["id"]) for one in members["results"] if one["email"] == email)


ISSUER, _KEY = "https://people.example", Signer.new_key()


def people(clock: HandClock) -> Signer:
    """The issuer at which the members of these organizations sign in."""
    return Signer(ISSUER, _KEY, lambda: clock.now() / SECOND)


async def fetch_from_people(url: str) -> bytes:
    known = people(HandClock())
    answers = {DISCOVERY_PATH: known.discovery(), JWKS_PATH: known.jwks()}
    return json.dumps(answers[url.removeprefix(ISSUER)]).encode()
