"""Nobody multiplies a share of the machine that each organization, or each environment, has."""

from __future__ import annotations

from tests.identity.people import new_person
from tests.world import make_world
from windlass.control.services import git_webhooks
from windlass.core.access import Scope


async def test_only_admins_of_the_first_organization_create_organizations():
    async with make_world() as world:
        other, admin = await world.organization()
        person = await new_person(world, "mallory@example.com", Scope.ADMIN, other, token=admin)
        body = {"name": "another share", "plan": "FREE"}
        for answer in (
            await world.post("/organization", body, token=admin),
            await person.call("POST", "/organization", body),
        ):
            assert answer.status == 403
            assert "first organization" in answer.message
        assert (await world.post("/organization", body)).status == 201


async def test_a_token_for_one_service_does_not_use_up_the_git_webhooks_of_its_organization(monkeypatch):
    monkeypatch.setattr(git_webhooks, "MAX_WEBHOOKS", 8)
    async with make_world() as world:
        app = await world.application()
        token = await world.new_token("Write", limited_to=[app])
        for number in range(20):
            git = {"url": f"https://git.example/acme/{number}.git", "branch": "main"}
            assert (
                await world.patch(f"/application/{app}", {"git_repository": git}, token=token)
            ).status == 200
            assert (await world.post(f"/service/{app}/gitWebhook", token=token)).status == 200
        webhooks = await world.installation.ctx.store.reads.git_webhooks.of_organization(world.org)
        assert len(webhooks) <= 4, "those of former repositories are removed"
        assert {one.repository for one in webhooks} >= {"git.example/acme/19"}


async def test_a_project_leaves_git_webhooks_to_the_others_of_its_organization(monkeypatch):
    monkeypatch.setattr(git_webhooks, "MAX_WEBHOOKS", 8)
    async with make_world() as world:
        greedy, modest = await world.project(), await world.project()

        async def made(project: str, number: int) -> int:
            environment = await world.environment(project)
            git = {"url": f"https://git.example/{project}/{number}.git", "branch": "main"}
            app = await world.application(environment, git_repository=git)
            return (await world.post(f"/service/{app}/gitWebhook")).status

        answers = [await made(greedy, number) for number in range(6)]
        assert answers == [200] * 4 + [409] * 2
        assert [await made(modest, number) for number in range(2)] == [200] * 2
