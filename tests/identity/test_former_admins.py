"""What an Admin has made for others ends with the rights of the Admin, if the Admin could use it."""

from __future__ import annotations

import pytest

from tests.identity.browsers import Browser
from tests.identity.issuer import invite, members, role
from tests.identity.people import OTHER_PASSWORD, code_in, invited, new_person, use_link
from tests.world import World
from windlass.core.access import Scope

ADA, MALLORY, FRIEND = "ada@example.com", "mallory@example.com", "friend@example.com"


async def links_of(world: World, admin: Browser | None, token: str | None = None) -> list[str]:
    """Returns the codes of a link for another Admin's new password, and of an invitation."""
    ada = (await members(world))[ADA]["id"]
    paths = {
        "member/passwordReset": {"user_id": ada},
        "inviteMember": {"email": FRIEND, "role_id": role(Scope.ADMIN)},
    }
    codes = []
    for path, body in paths.items():
        url = f"/organization/{world.org}/{path}"
        answer = await (admin.call("POST", url, body) if admin else world.post(url, body, token=token))
        assert answer.status == 201, answer
        codes.append(code_in(answer.json.get("url") or answer["invitation_link"]))
    return codes


async def can_use(world: World, code: str) -> bool:
    return (await use_link(Browser(world), code, OTHER_PASSWORD)).status == 201


@pytest.mark.parametrize("how", ["removed", "demoted"])
async def test_the_links_that_an_admin_has_made_end_with_the_admins_rights(world: World, how: str):
    await new_person(world, ADA, Scope.ADMIN)
    mallory = await new_person(world, MALLORY, Scope.ADMIN)
    codes = await links_of(world, mallory)
    id = (await members(world))[MALLORY]["id"]
    path = f"/organization/{world.org}/member"
    if how == "removed":
        assert (await world.delete(path, {"user_id": id})).status == 204
    else:
        assert (await world.put(path, {"user_id": id, "role_id": role(Scope.WRITE)})).status == 200
    assert [await can_use(world, code) for code in codes] == [False, False]


async def test_the_links_that_a_token_has_made_end_with_the_token(world: World):
    await new_person(world, ADA, Scope.ADMIN)
    path = f"/organization/{world.org}/apiToken"
    made = await world.post(path, {"name": "robot", "scopes": ["Admin"]})
    codes = await links_of(world, None, made["token"])
    assert (await world.delete(f"{path}/{made['id']}")).status == 204
    assert [await can_use(world, code) for code in codes] == [False, False]


async def test_the_links_of_another_admin_stay(world: World):
    await new_person(world, ADA, Scope.ADMIN)
    await new_person(world, MALLORY, Scope.ADMIN)
    codes = await links_of(world, None, world.token)
    id = (await members(world))[MALLORY]["id"]
    assert (await world.delete(f"/organization/{world.org}/member", {"user_id": id})).status == 204
    assert [await can_use(world, code) for code in codes] == [True, True]


async def test_a_link_that_another_admin_has_made_anew_is_the_one_of_that_admin(world: World):
    mallory = await new_person(world, MALLORY, Scope.ADMIN)
    invited = await invite(world, FRIEND, Scope.READ)
    path = f"/organization/{world.org}/inviteMember/{invited['id']}/link"
    assert (await mallory.call("POST", path)).status == 201
    anew = await world.post(path)
    id = (await members(world))[MALLORY]["id"]
    assert (await world.delete(f"/organization/{world.org}/member", {"user_id": id})).status == 204
    assert await can_use(world, code_in(anew["url"]))


async def test_a_link_made_in_another_organization_does_not_bring_a_former_admin_back(world: World):
    other, admin = await world.organization()
    mallory, ada = await new_person(world, MALLORY, Scope.ADMIN), await new_person(world, ADA, Scope.ADMIN)
    for browser, email, scope in ((mallory, MALLORY, Scope.ADMIN), (ada, ADA, Scope.READ)):
        code = await invited(world, email, scope, other, token=admin)
        assert (await use_link(browser, code)).status == 201
    listed = (await world.get(f"/organization/{other}/member", token=admin))["results"]
    user_id = next(member["id"] for member in listed if member["email"] == ADA)
    path = f"/organization/{other}/member/passwordReset"
    links = [await mallory.call("POST", path, {"user_id": user_id}) for _ in range(2)]
    assert [link.status for link in links] == [201, 201]
    id = (await members(world))[MALLORY]["id"]
    assert (await world.delete(f"/organization/{world.org}/member", {"user_id": id})).status == 204
    assert not await can_use(world, code_in(links[-1]["url"])), "it would open the former organization"
