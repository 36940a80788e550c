"""Git tokens over HTTP: the services that use one are counted and listed."""

from __future__ import annotations

from tests.world import World

GIT = {"url": "https://github.com/acme/shop.git"}


async def test_a_git_token_counts_and_lists_the_services_that_use_it(world: World):
    path = f"/organization/{world.org}/gitToken"
    token = await world.made(path, {"name": "g", "type": "GITHUB", "token": "s3cret"})
    environment = await world.environment()
    app = await world.made(f"/environment/{environment}/application", {"name": "web", "git_repository": GIT})
    assert (await world.get(f"{path}/{token}"))["associated_services_count"] == 0
    assert (await world.get(f"{path}/{token}/associatedServices"))["results"] == []
    body = {"git_repository": {"git_token_id": token}}
    assert (await world.patch(f"/application/{app}", body)).status == 200
    assert (await world.get(f"{path}/{token}"))["associated_services_count"] == 1
    [user] = (await world.get(f"{path}/{token}/associatedServices"))["results"]
    assert (user["service_id"], user["service_type"], user["service_name"]) == (app, "APPLICATION", "web")
    assert user["environment_id"] == environment
    await world.patch(f"/application/{app}", {"git_repository": {"git_token_id": None}})
    assert (await world.get(f"{path}/{token}"))["associated_services_count"] == 0


async def test_a_git_token_is_listed_replaced_and_deleted_and_never_shown(world: World):
    path = f"/organization/{world.org}/gitToken"
    body = {"name": "g", "type": "GITHUB", "token": "s3cret"}
    token = await world.made(path, body)
    [listed] = (await world.get(path))["results"]
    assert (listed["id"], listed["name"], "token" in listed) == (token, "g", False)
    replaced = await world.call("PUT", f"{path}/{token}", body | {"name": "renamed", "token": "0ther"})
    assert (replaced.status, replaced["name"]) == (200, "renamed")
    for answer in (replaced, await world.get(path), await world.get(f"{path}/{token}")):
        assert not any(secret in str(answer.json) for secret in ("s3cret", "0ther"))
    assert (await world.delete(f"{path}/{token}")).status == 204
    assert (await world.get(path))["results"] == []
