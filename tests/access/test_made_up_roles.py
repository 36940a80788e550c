"""Callers with permits that no token and no role of today gives: custom roles add data, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import World, make_world
from windlass.base.tokens import new_token
from windlass.core.access import Actor, Permit, ResourceLocation, Scope

READ, WRITE, DEPLOY, ADMIN = Scope.READ, Scope.WRITE, Scope.DEPLOY, Scope.ADMIN


class Ground:
    """An organization with two projects, three environments and two clusters."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def build(self) -> None:
        world = self.world
        self.shop, self.blog = await world.project(name="shop"), await world.project(name="blog")
        self.live = await world.environment(self.shop, name="live", mode="PRODUCTION")
        self.trial = await world.environment(self.shop, name="trial", mode="STAGING")
        self.blog_live = await world.environment(self.blog, name="live", mode="PRODUCTION")
        self.live_web = await world.application(self.live, name="web")
        self.trial_web = await world.application(self.trial, name="web")
        self.blog_web = await world.application(self.blog_live, name="web")
        for level in (f"/project/{self.shop}", f"/environment/{self.trial}"):
            await world.made(f"{level}/secret", {"key": world.name("KEY").replace("-", "_"), "value": "x"})
        clusters = f"/organization/{world.org}/cluster"
        self.local = (await world.get(clusters))["results"][0]["id"]
        self.east = await world.made(clusters, {"name": "east"})

    def caller(self, *permits: Permit, limited_to: frozenset[str] | None = None) -> str:
        """A token that stands for a caller with these permits."""
        by_org: dict[str, tuple[Permit, ...]] = {}
        for permit in permits:
            by_org[permit.at.organization] = (*by_org.get(permit.at.organization, ()), permit)
        actor = Actor(id="made-up", name="made up", subject="made-up", permits=by_org, limited_to=limited_to)
        token = new_token()
        self.speaks_for(token, actor)
        return token

    def speaks_for(self, token: str, actor: Actor) -> None:
        world = self.world
        world.installation.authenticator._cache_actor(
            f"Token {token}".encode(), actor, world.clock.now() + 1_000_000
        )

    def at(self, **place: str) -> ResourceLocation:
        return ResourceLocation(self.world.org, **place)

    def roles(self) -> dict[str, str]:
        """Tokens of made-up callers, by what they are."""
        trial = self.at(project=self.shop, environment=self.trial)
        return {
            "viewer of a project, deployer of an environment, admin of a cluster": self.caller(
                Permit(READ, self.at(project=self.shop)),
                Permit(DEPLOY, trial),
                Permit(ADMIN, self.at(cluster=self.east)),
            ),
            "manager of the environments of one mode": self.caller(
                Permit(READ | WRITE | DEPLOY, self.at(project=self.shop, mode="STAGING"))
            ),
            "deployer of one environment": self.caller(Permit(DEPLOY, trial)),
            "reader of everything": self.caller(Permit(READ, self.at())),
            "limited to a service": self.caller(
                Permit(ADMIN, self.at()), limited_to=frozenset({self.live_web})
            ),
            "limited to a project with a permit for an environment": self.caller(
                Permit(WRITE, trial), limited_to=frozenset({self.shop})
            ),
            "without any permit": self.caller(Permit(Scope(0), self.at())),
        }


@pytest.fixture(scope="module")
async def ground():
    async with make_world() as world:
        made = Ground(world)
        await made.build()
        yield made


async def test_a_custom_role_allows_exactly_what_its_permits_grant(ground: Ground):
    role = ground.roles()["viewer of a project, deployer of an environment, admin of a cluster"]
    cluster = f"/organization/{ground.world.org}/cluster"
    for method, path, status in [
        ("GET", f"/organization/{ground.world.org}", 200),
        ("GET", f"/project/{ground.shop}", 200),
        ("GET", f"/environment/{ground.live}", 200),
        ("GET", f"/application/{ground.live_web}", 200),
        ("POST", f"/application/{ground.live_web}/deploy", 403),
        ("POST", f"/application/{ground.trial_web}/deploy", 202),
        ("POST", f"/environment/{ground.trial}/deploy", 202),
        ("POST", f"/environment/{ground.live}/deploy", 403),
        ("DELETE", f"/application/{ground.trial_web}", 403),
        ("GET", f"/project/{ground.blog}", 404),
        ("GET", f"/application/{ground.blog_web}", 404),
        ("POST", f"/application/{ground.blog_web}/deploy", 404),
        ("GET", f"{cluster}/{ground.east}", 200),
        ("GET", f"{cluster}/{ground.local}", 404),
        ("DELETE", f"/organization/{ground.world.org}", 403),
    ]:
        answer = await ground.world.call(method, path, token=role)
        assert answer.status == status, (method, path, answer)
    changed = await ground.world.patch(f"{cluster}/{ground.east}", {"description": "x"}, token=role)
    assert changed.status == 200, changed


async def test_a_permit_for_one_environment_mode_gives_no_access_to_other_modes(ground: Ground):
    world, path = ground.world, f"/project/{ground.shop}/environment"
    manager = ground.roles()["manager of the environments of one mode"]
    for mode, status in [("STAGING", 201), ("PRODUCTION", 403)]:
        made = await world.post(path, {"name": world.name("env"), "mode": mode}, token=manager)
        assert made.status == status, made
    assert (await world.post(f"/application/{ground.trial_web}/deploy", token=manager)).status == 202
    assert (await world.get(f"/application/{ground.live_web}", token=manager)).status == 404


async def test_an_environment_is_not_moved_to_a_mode_that_the_caller_may_not_manage(ground: Ground):
    world = ground.world
    manager = ground.roles()["manager of the environments of one mode"]
    moved = world.environment(ground.shop, mode="STAGING")
    env = f"/environment/{await moved}"
    assert (await world.patch(env, {"mode": "PRODUCTION"}, token=manager)).status == 403
    assert (await world.get(env))["mode"] == "STAGING"
    assert (await world.patch(env, {"mode": "PRODUCTION"})).status == 200
    assert (await world.get(env, token=manager)).status == 404


async def listed(ground: Ground, path: str, token: str) -> set[str]:
    answer = await ground.world.get(path, token=token)
    return {one["id"] for one in answer["results"]} if answer.status == 200 else set()


async def test_a_list_shows_exactly_the_resources_that_the_caller_may_read(ground: Ground):
    org = ground.world.org
    shown_by_some: set[str] = set()
    for path, item in [
        (f"/organization/{org}/project", "/project/{}"),
        (f"/project/{ground.shop}/environment", "/environment/{}"),
        (f"/project/{ground.blog}/environment", "/environment/{}"),
        (f"/project/{ground.shop}/secret", f"/project/{ground.shop}/secret/{{}}"),
        (f"/environment/{ground.live}/application", "/application/{}"),
        (f"/environment/{ground.trial}/application", "/application/{}"),
        (f"/organization/{org}/cluster", f"/organization/{org}/cluster/{{}}"),
        (f"/organization/{org}/apiToken", f"/organization/{org}/apiToken/{{}}"),
        (f"/organization/{org}/services", "/application/{}"),
    ]:
        everything = await listed(ground, path, ground.world.token or "")
        assert everything or path.endswith("apiToken"), path
        for name, token in ground.roles().items():
            shown = await listed(ground, path, token)
            readable = {
                id
                for id in everything
                if (await ground.world.get(item.format(id), token=token)).status == 200
            }
            reached = (await ground.world.get(path, token=token)).status == 200
            assert shown == (readable if reached else set()), (path, name)
            shown_by_some |= shown
    assert {ground.shop, ground.trial, ground.live_web, ground.east} <= shown_by_some


async def test_lookup_by_name_finds_only_resources_that_the_caller_may_read(ground: Ground):
    wanted: list[tuple[str, str, str]] = [
        ("project", "blog", ground.blog),
        ("environment", "shop/trial", ground.trial),
        ("application", "shop/live/web", ground.live_web),
        ("application", "shop/trial/web", ground.trial_web),
    ]
    for family, path, id in wanted:
        for name, token in ground.roles().items():
            project = ground.shop if path.startswith("shop") else ground.blog
            reads = [
                (await ground.world.get(one, token=token)).status == 200
                for one in (f"/project/{project}", f"/{family}/{id}")
            ]
            found = await ground.world.get(f"/resource?family={family}&path={path}", token=token)
            got = [one["id"] for one in found["results"]] if found.status == 200 else []
            assert (id in got) <= reads[-1], (path, name, found)
            if all(reads):
                assert got == [id], (path, name, found)


async def test_the_audit_lists_only_events_of_resources_that_the_caller_may_read_with_all_their_children(
    ground: Ground,
):
    world, roles = ground.world, ground.roles()
    things = {
        world.org,
        ground.shop,
        ground.live,
        ground.trial,
        ground.live_web,
        ground.trial_web,
        ground.east,
    }

    async def told_of(token: str) -> set[str]:
        path = f"/organization/{world.org}/events?targetId="
        return {id for id in things if (await world.get(path + id, token=token))["events"]}

    assert await told_of(world.token or "") == things
    assert await told_of(roles["reader of everything"]) == things
    assert await told_of(roles["deployer of one environment"]) == {ground.trial, ground.trial_web}
    assert await told_of(roles["limited to a service"]) == {ground.live_web}
    refused = await world.get(f"/organization/{world.org}/events", token=roles["without any permit"])
    assert refused.status == 403


async def test_an_idempotent_replay_is_refused_after_the_caller_left_the_organization(ground: Ground):
    """The first request is a member's. Before the repetition, the caller stops being one."""
    world = ground.world
    other, _ = await world.organization()
    person: dict[str, Any] = {"id": "person", "name": "person", "subject": "jwt:person"}
    here, there = Permit(WRITE, ground.at()), Permit(WRITE, ResourceLocation(other))
    member = Actor(**person, permits={world.org: (here,), other: (there,)})
    token, path = new_token(), f"/organization/{world.org}/project"
    ground.speaks_for(token, member)
    repeated = {"headers": {"idempotency-key": "the-same"}, "token": token}
    made = await world.post(path, {"name": "repeated"}, **repeated)
    again = await world.post(path, {"name": "repeated"}, **repeated)
    assert (made.status, again.body) == (200, made.body)
    ground.speaks_for(token, Actor(**person, permits={other: (there,)}))
    assert (await world.post(path, {"name": "repeated"}, **repeated)).status == 404
