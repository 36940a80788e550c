"""Members who were invited and have chosen a password, and the issuer of the tests."""

from __future__ import annotations

import json

from tests.derived.things import Tenant
from tests.world import HandClock, World
from windlass.base.clock import SECOND
from windlass.base.issuer import DISCOVERY_PATH, JWKS_PATH, Signer


async def make_member(world: World, tenant: Tenant) -> str:
    """Invites a person, who chooses a password with the link."""
    email = f"{world.name('guest')}@example.com"
    path = f"/organization/{tenant.org}/inviteMember"
    link = (await world.post(path, {"email": email}, token=tenant.admin))["invitation_link"]
    body = {"code": link.partition("#password=")[2], "password": "a password of a guest"}
    assert (await world.put("/account/passwordLink", body, token=None)).status == 201
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
