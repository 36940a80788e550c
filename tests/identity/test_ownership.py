"""The owner of an organization: a member whom an Admin names."""

from __future__ import annotations

import uuid

from tests.identity.issuer import invite, members, role
from windlass.core.access import Scope

ADA, GRACE = "ada@example.com", "grace@example.com"


async def _join(world, issuer, address: str, scope: Scope) -> str:
    assert (await invite(world, address, scope)).status == 201
    assert (await world.get("/organization", token=issuer.person(address))).status == 200
    return str((await members(world))[address]["id"])


async def test_a_member_made_owner_becomes_an_admin_and_is_shown_as_owner(world, issuer):
    ada = await _join(world, issuer, ADA, Scope.READ)
    path = f"/organization/{world.org}"
    assert (await world.post(f"{path}/transferOwnership", {"user_id": ada})).status == 204
    assert (await world.get(path))["owner"] == ada
    assert (await members(world))[ADA]["role_id"] == role(Scope.ADMIN)
    assert (await world.patch(path, {"description": "rope"}, token=issuer.person(ADA)))["owner"] == ada
    events = (await world.get(f"{path}/events?eventType=UPDATE&targetType=ORGANIZATION"))["events"]
    assert ada in events[-1]["change"]


async def test_an_owner_that_leaves_is_shown_no_longer(world, issuer):
    ada, grace = [await _join(world, issuer, who, Scope.ADMIN) for who in (ADA, GRACE)]
    path = f"/organization/{world.org}"
    for id in (ada, grace):
        assert (await world.post(f"{path}/transferOwnership", {"user_id": id})).status == 204
        assert (await world.get(path))["owner"] == id
    assert (await world.delete(f"{path}/member", {"user_id": ada})).status == 204
    assert (await world.get(path))["owner"] == grace
    assert (await world.delete(f"{path}/member", {"user_id": grace})).status == 204
    assert (await world.get(path)).json.get("owner") is None


async def test_only_an_admin_names_an_owner_and_only_a_member(world, issuer):
    path = f"/organization/{world.org}/transferOwnership"
    ada = await _join(world, issuer, ADA, Scope.WRITE)
    refused = await world.post(path, {"user_id": ada}, token=issuer.person(ADA))
    assert refused.status == 403
    for id in (str(uuid.uuid4()), world.org):
        unknown = await world.post(path, {"user_id": id})
        assert (unknown.status, unknown.message.partition(":")[0]) == (400, "user_id")
    assert "owner" not in (await world.get(f"/organization/{world.org}")).json
