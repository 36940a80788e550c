"""The words of a newcomer are understood, or answered with the right ones."""

from __future__ import annotations

import pytest

from tests.cli.conftest import say
from tests.cli.test_stories import shop
from tests.cli.waits import meanwhile
from tests.world import REPOSITORY

WEB = ("application", "create", "--name", "web", "--git-repository.url", REPOSITORY)


async def test_a_port_alone_is_a_public_port_for_http(windlass):
    await windlass.done("project", "create", "--name", "shop")
    await windlass.done("environment", "create", "--project", "shop", "--name", "production")
    made = await windlass.done(*WEB, "--environment", "production", "--port", "8080", "--port", "9090")
    ports = [(port["internal_port"], port["publicly_accessible"], port["protocol"]) for port in made["ports"]]
    assert ports == [(8080, True, "HTTP"), (9090, True, "HTTP")]
    said = await windlass("application", "edit", "web", "--port", "8081", "--ports", "[]")
    assert (said.code, said.err) == (2, "windlass: give --ports or --port, and not both\n")


async def test_a_missing_place_is_answered_with_those_that_there_are(windlass):
    said = await windlass("environment", "list")
    assert said.err == (
        "windlass: say which project with --project: there is none yet; `windlass project create` makes one\n"
    )
    for project in ("shop", "demo"):
        await windlass.done("project", "create", "--name", project)
        await windlass.done("environment", "create", "--project", project, "--name", "production")
    said = await windlass(*WEB)
    assert said.err == (
        "windlass: say which environment with --environment: shop/production, demo/production\n"
    )
    said = await windlass("environment", "create", "--name", "staging")
    assert said.err == "windlass: say which project with --project: shop, demo\n"


async def test_the_first_deployment_without_an_address_says_how_to_get_one(windlass):
    await shop(windlass)
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait", "--text")
    assert said.err.splitlines()[-1].endswith("windlass application edit web --port NUMBER")
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait", "--text")
    assert "--port" not in said.err
    await windlass.done("application", "edit", "web", "--port", "8080")
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait", "--text")
    assert "web is live at http://" in said.out


async def test_a_created_service_says_how_to_deploy_it(windlass):
    await shop(windlass)
    words = ("--environment", "shop/production", "--git-repository.url", REPOSITORY, "--text")
    said = await windlass("application", "create", "--name", "my api", *words)
    assert said.err == "Deploy it with: windlass application deploy 'my api' --wait\n"
    assert (await windlass("project", "create", "--name", "blog", "--text")).err == ""


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("application login", "Did you mean `windlass login`?"),
        ("application secrets web", "Did you mean `windlass secrets`?"),
        ("application start web", "Did you mean `windlass application redeploy`?"),
        ("application env web", "Did you mean `windlass env`?"),
        ("service list", "Did you mean `windlass application`?"),
        ("domain add web shop.example.com", "`windlass application link` lists the addresses."),
        ("application custom-domain web", "`windlass application link` lists the addresses."),
        ("version", "`windlass --version` shows the version."),
    ],
)
def test_a_word_of_another_tool_is_answered_with_the_right_one(words, answer):
    said = say(*words.split())
    assert (said.code, said.err.splitlines()[-1].endswith(answer)) == (2, True), said


def test_an_option_of_earlier_clients_is_answered_with_its_successor():
    said = say("api-token", "create", "--name", "ci", "--scope", "Deploy")
    assert (said.code, "'--scopes'" in said.err.splitlines()[-1]) == (2, True), said
