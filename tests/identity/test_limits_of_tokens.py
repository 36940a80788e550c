"""A token that is limited to a part reaches nothing outside of it."""

from __future__ import annotations

from tests.identity.issuer import invite, members, role
from tests.identity.tokens import make, path
from windlass.core.access import Scope


async def test_a_limited_token_may_do_everything_of_its_scopes_inside_its_limits(world):
    project = await world.project()
    env = await world.environment(project)
    app = await world.application(env)
    for limit in (project, env, app):
        token = await world.new_token("Admin", limited_to=[limit])
        assert (await world.get(f"/application/{app}", token=token)).status == 200
        assert (await world.post(f"/application/{app}/deploy", token=token)).status == 202
        variable = {"key": f"K_{limit[:8]}", "value": "v"}
        assert (
            await world.post(f"/application/{app}/environmentVariable", variable, token=token)
        ).status == 201
        read_only = await world.new_token("Read", limited_to=[limit])
        assert (await world.post(f"/application/{app}/deploy", token=read_only)).status == 403
    token = await world.new_token("Write", limited_to=[project])
    assert (await world.post(f"/project/{project}/environment", {"name": "new"}, token=token)).status in {
        200,
        201,
    }


async def test_a_resource_outside_a_tokens_limits_is_not_found(world):
    inside, outside = await world.project(), await world.project()
    app = await world.application(await world.environment(outside))
    token = await world.new_token("Admin", limited_to=[inside])
    (cluster,) = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    made = await make(world)
    for where in (
        f"/project/{outside}",
        f"/application/{app}",
        f"/organization/{world.org}/cluster/{cluster['id']}",
        path(world, made["id"]),
    ):
        nowhere = where[: where.rindex("/")] + "/00000000-0000-4000-8000-000000000000"
        missing = await world.get(nowhere, token=token)
        for method in ("GET", "DELETE"):
            answer = await world.call(method, where, token=token)
            assert (answer.status, answer.body) == (404, missing.body)
        assert (await world.get(where)).status == 200


async def test_lists_for_a_limited_token_contain_only_resources_inside_its_limits(world):
    first, second, _ = await world.project(), await world.project(), await world.project()
    envs = [await world.environment(second) for _ in range(3)]
    token = await world.new_token("Admin", limited_to=[first, envs[1]])

    async def listed(where: str) -> list[str]:
        return [one["id"] for one in (await world.get(where, token=token))["results"]]

    assert await listed(f"/organization/{world.org}/project") == [first]
    assert await listed(f"/project/{first}/environment") == []
    for family in ("cluster", "webhook", "apiToken", "member", "inviteMember"):
        assert await listed(f"/organization/{world.org}/{family}") == []
    assert (await world.get(f"/project/{second}/environment", token=token)).status == 404


async def test_a_limited_token_reads_its_organization_and_can_change_nothing_of_it(world, issuer):
    await invite(world, "ada@example.com")
    await world.get("/organization", token=issuer.person("ada@example.com"))
    ada = (await members(world))["ada@example.com"]["id"]
    token = await world.new_token("Admin", limited_to=[await world.project()])
    home = f"/organization/{world.org}"
    assert (await world.get("/organization", token=token))["id"] == world.org
    assert (await world.get(home, token=token)).status == 200
    refused = [
        await world.put(home, {"name": "mine"}, token=token),
        await world.delete(home, token=token),
        await world.post("/organization", {"name": "another", "plan": "FREE"}, token=token),
        await world.post(f"{home}/project", {"name": "another"}, token=token),
        await world.post(f"{home}/apiToken", {"name": "another"}, token=token),
        await invite(world, "eve@example.com", Scope.ADMIN, token=token),
        await world.put(f"{home}/member", {"user_id": ada, "role_id": role(Scope.ADMIN)}, token=token),
        await world.delete(f"{home}/member", {"user_id": ada}, token=token),
    ]
    assert [answer.status for answer in refused] == [403] * len(refused)
    assert all("limited" in answer.message for answer in refused)


async def test_a_limit_must_be_a_project_environment_or_service_of_the_organization(world):
    other, admin = await world.organization()
    elsewhere = await world.made(f"/organization/{other}/project", {"name": "shop"}, token=admin)
    (cluster,) = (await world.get(f"/organization/{world.org}/cluster"))["results"]
    here = await world.project()
    for bad in (elsewhere, cluster["id"], world.org, "00000000-0000-4000-8000-000000000000"):
        answer = await make(world, limited_to=[here, bad])
        assert answer.status == 400
        assert answer.message.startswith("limited_to[1]: ")
    assert (await make(world, limited_to=[])).message.startswith("limited_to: ")


async def test_a_token_limited_to_a_deleted_resource_can_do_nothing(world):
    inside, outside = await world.project(), await world.project()
    token = await world.new_token("Admin", limited_to=[inside])
    assert (await world.delete(f"/project/{inside}", token=token)).status == 204
    assert (await world.get(f"/organization/{world.org}/project", token=token))["results"] == []
    assert (await world.get(f"/project/{outside}", token=token)).status == 404
