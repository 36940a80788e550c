"""An OpenID Connect issuer that is not ours: two documents and tokens, all made by another library."""

from __future__ import annotations

import json
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from tests.world import Answer, HandClock, World
from windlass.base.clock import SECOND
from windlass.core.access import ROLE_IDS, Scope

ADDRESS = "https://login.example.com/realms/acme"
LIFETIME = 3600
ABSENT = object()


class Issuer:
    """It counts the questions, and can be down."""

    def __init__(self, clock: HandClock, address: str = ADDRESS) -> None:
        self.clock = clock
        self.address = address
        self.asked: list[str] = []
        self.down = False
        self.change_keys()

    def change_keys(self) -> None:
        self._key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256"}, auto_kid=True)

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        if self.down:
            raise OSError("no route to 10.0.0.1")
        return json.dumps(self._documents()[url.removeprefix(self.address)]).encode()

    def _documents(self) -> dict[str, Any]:
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.address,
                "jwks_uri": f"{self.address}/keys",
            },
            "/keys": KeySet([self._key]).as_dict(private=False),
        }

    def token(self, subject: str, **changes: Any) -> str:
        """The whole header with a good JWT, but for the changes; `ABSENT` takes a claim away."""
        now = self.clock.now() // SECOND
        good = {"iss": self.address, "sub": subject, "aud": "windlass", "iat": now, "exp": now + LIFETIME}
        claims = {name: value for name, value in (good | changes).items() if value is not ABSENT}
        return "Bearer " + jwt.encode({"alg": "ES256", "kid": self._key.kid}, claims, self._key)

    def person(self, who: str, **changes: Any) -> str:
        """Returns claims of a person with a verified address."""
        claims = {"email": who, "email_verified": True} | changes
        return self.token(f"id-of-{who}", **claims)


def role(scope: Scope) -> str:
    return ROLE_IDS[scope]


async def invite(
    world: World, email: str, scope: Scope = Scope.READ, org: str = "", **options: Any
) -> Answer:
    body = {"email": email, "role_id": role(scope)}
    return await world.post(f"/organization/{org or world.org}/inviteMember", body, **options)


async def joined(world: World, issuer: Issuer, email: str, scope: Scope = Scope.READ) -> str:
    """A new member; answers the header to come in with."""
    assert (await invite(world, email, scope)).status == 201
    header = issuer.person(email)
    assert (await world.get("/organization", token=header)).status == 200
    return header


async def members(world: World, org: str = "", **options: Any) -> dict[str, Any]:
    """By address."""
    answer = await world.get(f"/organization/{org or world.org}/member", **options)
    return {one["email"]: one for one in answer["results"]}


async def invitations(world: World, org: str = "", **options: Any) -> list[str]:
    answer = await world.get(f"/organization/{org or world.org}/inviteMember", **options)
    return [one["email"] for one in answer["results"]]
