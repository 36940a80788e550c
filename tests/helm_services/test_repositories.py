"""Helm repositories: they are tried before they are saved, and a login is sent to its own host alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.charts import LOGIN, FakeCharts
from tests.helm_services.conftest import deployed, release_of, repository_of, stored_chart
from tests.world import World, make_world

CONFIG = {"username": "ada", "password": "pw"}


async def test_a_repository_is_tried_and_its_charts_are_listed(world: World):
    repository = await repository_of(world)
    shown = await world.get(f"/organization/{world.org}/helmRepository/{repository}")
    assert shown["check"]["status"] == "OK"
    listed = await world.get(f"/organization/{world.org}/helmRepository/{repository}/charts")
    assert listed["results"] == [{"chart_name": "shop", "versions": ["1.10.0", "1.2.3"]}]
    one = await world.get(f"/organization/{world.org}/helmRepository/{repository}/charts?chartName=other")
    assert one["results"] == []


async def test_a_login_is_needed_and_never_answered(world: World, charts: FakeCharts):
    charts.needs_login = True
    body = {"name": "charts", "kind": "HTTPS", "url": "https://charts.example.com", "config": {}}
    refused = await world.post(f"/organization/{world.org}/helmRepository", body)
    assert (refused.status, refused.message[:36]) == (400, "config: Give the repository a login:")
    made = await world.post(f"/organization/{world.org}/helmRepository", body | {"config": CONFIG})
    assert made.status == 201
    assert made["config"] == {"username": "ada"}
    assert b"pw" not in made.body


KINDS = [
    ("HTTPS", "https://charts.example.com", CONFIG, "https://evil.example.com"),
    (
        "OCI_SCALEWAY_CR",
        "oci://rg.fr-par.scw.cloud/charts",
        {
            "region": "fr-par",
            "scaleway_access_key": "SCWABCDEFGHIJKLMNOPQ",
            "scaleway_secret_key": "pw",
            "scaleway_project_id": "p",
        },
        "oci://evil.example.com/charts",
    ),
]


@pytest.mark.parametrize(("kind", "url", "config", "elsewhere"), KINDS, ids=[row[0] for row in KINDS])
async def test_another_address_needs_the_secret_again(
    world: World, kind: str, url: str, config: dict[str, str], elsewhere: str
):
    repository = await repository_of(world, kind=kind, url=url, config=config)
    at = f"/organization/{world.org}/helmRepository/{repository}"
    secret = next(name for name in config if name in {"password", "scaleway_secret_key"})
    answer = await world.patch(at, {"url": elsewhere})
    assert (answer.status, answer.message.partition(":")[0]) == (400, f"config.{secret}"), answer


async def test_a_login_does_not_follow_an_archive_to_another_host(world: World, charts: FakeCharts):
    charts.needs_login, charts.moved_to = True, "https://cdn.example.com"
    service = await release_of(world, source=await stored_chart(world, config=CONFIG))
    assert await deployed(world, service) == ("SUCCEEDED", "")
    assert [login for url, login in charts.asked if url.startswith("https://cdn.example.com")] == [""]
    assert {login for url, login in charts.asked if url.startswith("https://charts.example.com")} == {LOGIN}


async def test_an_archive_that_is_offered_without_https_is_refused(world: World, charts: FakeCharts):
    charts.files_at = "http://cdn.example.com/"
    service = await release_of(world, source=await stored_chart(world))
    status, message = await deployed(world, service)
    assert (
        status,
        message.startswith("source: Ask the owner of the repository to offer 1.2.3 over https"),
    ) == (
        "FAILED",
        True,
    )


async def test_a_redirect_to_an_address_without_https_is_refused(world: World, charts: FakeCharts):
    charts.moved_to = "http://cdn.example.com"
    service = await release_of(world, source=await stored_chart(world))
    assert "redirects to an address without https" in (await deployed(world, service))[1]


async def test_a_registry_of_oci_gives_its_chart_by_digest(world: World, charts: FakeCharts):
    source = await stored_chart(world, kind="OCI_GENERIC_CR", url="oci://registry.example.com/charts")
    service = await release_of(world, source=source)
    assert await deployed(world, service) == ("SUCCEEDED", "")
    assert f"https://registry.example.com/v2/charts/shop/blobs/sha256:{charts.digest}" in {
        url for url, _ in charts.asked
    }
    charts.archive = b"another"
    assert "its archive has the digest" in (await deployed(world, service))[1]


async def test_a_registry_of_oci_lists_the_versions_of_a_chart_alone(world: World):
    repository = await repository_of(world, kind="OCI_GENERIC_CR", url="oci://registry.example.com/charts")
    at = f"/organization/{world.org}/helmRepository/{repository}/charts"
    assert (await world.get(at)).status == 409
    listed = await world.get(f"{at}?chartName=shop")
    assert listed["results"] == [{"chart_name": "shop", "versions": ["1.10.0+b1", "1.2.3"]}]


async def test_a_repository_that_is_in_use_is_not_deleted_and_names_its_users(world: World):
    source = await stored_chart(world)
    await release_of(world, source=source, name="redis")
    at = f"/organization/{world.org}/helmRepository/{source['helm_repository']['repository']}"
    answer = await world.delete(at)
    assert answer.status == 409
    assert answer.message.endswith("1 use it (redis)")
    users = (await world.get(f"{at}/associatedServices"))["results"]
    assert [(user["service_name"], user["service_type"]) for user in users] == [("redis", "HELM")]
    await world.patch(at, {"name": "renamed"})
    services = (await world.get(f"/helm/{users[0]['service_id']}"))["source"]["repository"]
    assert services["repository"]["name"] == "renamed"


async def test_a_repository_of_another_organization_cannot_be_used(world: World):
    other, token = await world.organization()
    repository = await world.made(
        f"/organization/{other}/helmRepository",
        {"name": "charts", "kind": "HTTPS", "url": "https://charts.example.com", "config": {}},
        token=token,
    )
    chart = {"repository": repository, "chart_name": "shop", "chart_version": "1.2.3"}
    environment = await world.environment()
    body = {"name": "shop", "source": {"helm_repository": chart}}
    answer = await world.post(f"/environment/{environment}/helm", body)
    assert (answer.status, answer.message.partition(":")[0]) == (400, "source.helm_repository.repository")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "http://charts.example.com"}, "url: must begin with https://"),
        ({"url": "oci://charts.example.com"}, "url: must begin with https:// for HTTPS"),
        ({"kind": "OCI_GENERIC_CR"}, "url: must begin with oci:// for OCI_GENERIC_CR"),
        ({"url": "https://charts.example.com/../a"}, "url: must have no . or .."),
        ({"skip_tls_verification": True}, "skip_tls_verification: must be false"),
        ({"config": {"username": "ada"}}, "config.password: is required with the other"),
        ({"config": {"region": "eu-west-3"}}, "config.region: leave it out"),
        ({"kind": "OCI_ECR", "url": "oci://1.dkr.ecr.eu-west-3.amazonaws.com"}, "config.region: is required"),
    ],
)
async def test_wrong_settings_of_a_repository_are_refused_with_their_field(
    world: World, fields: Any, message: str
):
    body = {"name": "charts", "kind": "HTTPS", "url": "https://charts.example.com", "config": {}}
    answer = await world.post(f"/organization/{world.org}/helmRepository", body | fields)
    assert (answer.status, answer.message[: len(message)]) == (400, message)


@pytest.mark.parametrize("index", [b"<html>", b"entries: [", b"a: &a [*a, *a]\nentries: 1", b"\xff"])
async def test_what_is_no_index_is_refused(world: World, charts: FakeCharts, index: bytes):
    charts.index = index
    body = {"name": "charts", "kind": "HTTPS", "url": "https://charts.example.com", "config": {}}
    answer = await world.post(f"/organization/{world.org}/helmRepository", body)
    assert (answer.status, answer.message.partition(":")[0]) == (400, "url")


async def test_a_repository_that_cannot_be_reached_is_stored_and_says_so():
    async with make_world() as world:
        repository = await repository_of(world)
        at = f"/organization/{world.org}/helmRepository/{repository}"
        check = (await world.get(at))["check"]
        assert (check["status"], check["problem"]) == ("FAILED", "UNREACHABLE")
        assert (await world.post(f"{at}/check"))["status"] == "FAILED"
