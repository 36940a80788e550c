"""Helm services: what clients send and read, and what their runs get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.charts import FakeCharts, archive_of
from tests.fakes.engine import FakeEngine
from tests.helm_services.conftest import SOURCE, deployed, release_of, repository_of, stored_chart
from tests.world import REPOSITORY, World, make_world
from windlass.engines.workload import Workload
from windlass.launch.helm import PAUSE, REMOVE, SHOW, UPGRADE


class NoCluster(FakeEngine):
    namespace_credential = None  # type: ignore[assignment]


def request_of(world: World) -> dict[str, Any]:
    """The request to the launcher of the last run."""
    decoded: dict[str, Any] = json.loads(world.engine.applied[-1].variables["WINDLASS_HELM"])
    return decoded


async def test_a_chart_of_git_is_released_and_its_commit_is_shown(world: World):
    service = await release_of(world)
    assert await deployed(world, service) == ("SUCCEEDED", "")
    shown = (await world.get(f"/helm/{service}"))["source"]
    assert shown["git"]["git_repository"]["deployed_commit_id"] == world.git.newest
    assert request_of(world)["chart"] == "repository"
    assert request_of(world)["release"] == f"helm-z{service[:8]}"
    assert (await world.get(f"/helm/{service}/status"))["deployment_state"] == "DEPLOYED"


async def test_existing_clients_read_the_source_under_their_own_key(world: World):
    source = await stored_chart(world)
    service = await release_of(world, source=source)
    shown = (await world.get(f"/compat/helm/{service}"))["source"]
    assert shown["repository"]["chart_name"] == "shop"
    assert shown["repository"]["repository"]["url"] == "https://charts.example.com"
    assert not {"git", "git_repository"} & {*shown}


async def test_a_chart_of_a_repository_is_fetched_and_pinned_by_its_digest(world: World, charts: FakeCharts):
    service = await release_of(world, source=await stored_chart(world))
    await deployed(world, service)
    earlier = world.engine.applied[-1].artifact
    charts.archive = archive_of({"shop/Chart.yaml": "name: shop\nversion: 1.2.3\n"})
    status, message = await deployed(world, service)
    assert status == "FAILED"
    assert message.startswith(
        "source: Ask the owner of the repository to publish 1.2.3 again: its archive has the digest"
    )
    assert world.engine.applied[-1].artifact == earlier


async def test_a_rollback_needs_no_repository(world: World, charts: FakeCharts):
    service = await release_of(world, source=await stored_chart(world))
    first = await world.post(f"/helm/{service}/deploy", {})
    await world.settle()
    await deployed(world, service, chart_version="1.10.0")
    asked = len(charts.asked)
    answer = await world.post(f"/helm/{service}/rollback", {"deployment_id": first["id"]})
    assert answer.status == 202
    await world.settle()
    assert (await world.get(f"/helm/{service}/deployment/{answer['id']}"))["status"] == "SUCCEEDED"
    assert len(charts.asked) == asked
    assert world.engine.applied[-1].artifact == world.engine.applied[0].artifact


async def test_a_deploy_with_another_version_changes_the_version_of_the_service(world: World):
    service = await release_of(world, source=await stored_chart(world))
    await deployed(world, service, chart_version="1.10.0")
    shown = (await world.get(f"/helm/{service}"))["source"]
    assert shown["helm_repository"]["chart_version"] == shown["repository"]["chart_version"] == "1.10.0"


async def test_an_unknown_version_names_the_newest_ones(world: World):
    service = await release_of(world, source=await stored_chart(world, version="9.9.9"))
    assert await deployed(world, service) == (
        "FAILED",
        "source: Choose another chart_version: shop has no version 9.9.9, but 1.10.0, 1.2.3",
    )


NEEDS = "name: shop\nversion: 1.0.0\ndependencies:\n- {name: shop, version: VERSION, repository: ADDRESS}\n"


@pytest.mark.parametrize(
    ("version", "lock", "address", "message"),
    [
        ("1.2.3", "", "https://charts.example.com", ""),
        ("1.x", "dependencies:\n- {name: shop, version: 1.10.0}\n", "https://charts.example.com", ""),
        ("1.2.3", "", "oci://registry.example.com/charts", ""),
        (
            "1.x",
            "",
            "https://charts.example.com",
            "source: Run `helm dependency update`, and commit Chart.lock",
        ),
        (
            "1.2.3",
            "",
            "file://../../etc",
            "source: Run `helm dependency build`, and commit the folder charts",
        ),
        (
            "1.2.3",
            "",
            "http://charts.example.com",
            "source: Run `helm dependency build`, and commit the folder",
        ),
        (
            "9.9.9",
            "",
            "https://charts.example.com",
            "source: Choose another chart_version: shop has no version 9.9.9",
        ),
    ],
)
async def test_charts_that_a_chart_of_git_needs_are_fetched_in_exact_versions(
    world: World, charts: FakeCharts, version: str, lock: str, address: str, message: str
):
    needs = NEEDS.replace("VERSION", version).replace("ADDRESS", address)
    world.git.files = {"Chart.yaml": needs, **({"Chart.lock": lock} if lock else {})}
    status, told = await deployed(world, await release_of(world))
    assert (status, told[: len(message)]) == ("FAILED" if message else "SUCCEEDED", message)


async def test_a_chart_that_is_needed_gets_no_login_of_the_organization(world: World, charts: FakeCharts):
    charts.needs_login = True
    await repository_of(world, config={"username": "ada", "password": "pw"})
    needs = NEEDS.replace("VERSION", "1.2.3").replace("ADDRESS", "https://charts.example.com")
    world.git.files = {"Chart.yaml": needs}
    status, told = await deployed(world, await release_of(world))
    assert status == "FAILED"
    assert told.endswith("https://charts.example.com gives shop only with a login")


async def test_a_difference_changes_nothing_and_is_no_version_to_go_back_to(world: World):
    service = await release_of(world)
    planned = await world.post(f"/helm/{service}/deploy?forceEvent=DIFF", {})
    await world.settle()
    assert request_of(world)["action"] == SHOW
    shown = (await world.get(f"/helm/{service}"))["source"]["git"]["git_repository"]
    assert shown["deployed_commit_id"] == ""
    answer = await world.post(f"/helm/{service}/rollback", {"deployment_id": planned["id"]})
    assert answer.status == 409


async def test_an_engine_that_is_no_cluster_is_refused_with_the_reason():
    async with make_world(engine=NoCluster()) as world:
        service = await release_of(world)
        assert "no Kubernetes cluster" in (await world.get(f"/helm/{service}/status"))["message"]
        status, message = await deployed(world, service)
        assert status == "FAILED"
        assert "no Kubernetes cluster" in message


async def test_values_reach_the_run_as_files_and_options(world: World):
    values = {
        "set": [["replicas", "2"]],
        "set_string": [["tag", "1"]],
        "file": {"raw": {"values": [{"name": "a.yaml", "content": "key: qovery.env.PASSWORD\n"}]}},
    }
    service = await release_of(world, values_override=values)
    await deployed(world, service)
    request, workload = request_of(world), world.engine.applied[-1]
    assert request["set"] == [["replicas", "2"]]
    assert request["set_string"] == [["tag", "1"]]
    assert [workload.files[path] for path in request["values"]] == [b"key: qovery.env.PASSWORD\n"]
    shown = (await world.get(f"/helm/{service}"))["values_override"]
    assert shown["file"] == values["file"]


async def test_values_of_another_repository_are_taken_from_the_asked_commit(world: World):
    world.git.files = {**world.git.files, "production.yaml": "replicas: 3\n"}
    git = {"git_repository": {"url": f"{REPOSITORY}-values"}, "paths": ["production.yaml"]}
    service = await release_of(world, values_override={"file": {"git": git}})
    commit = "ab" * 20
    assert await deployed(world, service, values_override_git_commit_id=commit) == ("SUCCEEDED", "")
    assert [source.commit for source in world.git.fetched if source.url.endswith("-values")] == [commit]
    assert request_of(world)["values"] == ["values/00.yaml"]


async def test_a_port_in_another_namespace_gets_no_address_and_the_log_says_so(world: World):
    ports = [{"internal_port": 80, "service_name": "web", "namespace": "kube-system"}]
    service = await release_of(world, ports=ports)
    deployment = (await world.post(f"/helm/{service}/deploy", {}))["id"]
    await world.settle()
    assert (await world.get(f"/helm/{service}/link"))["results"] == []
    log = await world.get(f"/helm/{service}/deployment/{deployment}/log")
    assert b"Leave namespace out of these ports, or use an Ingress of the chart for them" in log.body


async def test_a_removal_runs_helm_uninstall_first(world: World):
    service = await release_of(world)
    await deployed(world, service)
    assert (await world.delete(f"/helm/{service}")).status == 204
    await world.settle()
    assert request_of(world)["action"] == REMOVE
    assert (await world.get(f"/helm/{service}")).status == 404


async def test_a_stop_ends_the_pods_of_the_release_by_a_run(world: World):
    service = await release_of(world)
    await deployed(world, service)
    assert (await world.post(f"/helm/{service}/stop")).status == 202
    await world.settle()
    assert request_of(world)["action"] == PAUSE
    assert (await world.get(f"/helm/{service}/status"))["deployment_state"] == "STOPPED"


async def test_running_hours_stop_and_start_a_release_by_runs(world: World):
    environment = await world.environment()
    service, never = await release_of(world, environment), await release_of(world, environment)
    await deployed(world, service)
    times = {"start_time": "1970-01-01T08:00:00.000Z", "stop_time": "1970-01-01T19:00:00.000Z"}
    rule = {"auto_stop": True, "timezone": "UTC", "weekdays": ["MONDAY", "TUESDAY"], **times}
    assert (await world.put(f"/environment/{environment}/deploymentRule/current", rule)).status == 200
    world.clock.turn(5 * 3600)  # it was Monday, 14:13
    await world.settle()
    assert request_of(world)["action"] == PAUSE
    assert (await world.get(f"/helm/{service}/status"))["deployment_state"] == "STOPPED"
    world.clock.turn(13 * 3600)
    await world.settle()
    assert request_of(world)["action"] == UPGRADE
    assert (await world.get(f"/helm/{service}/status"))["deployment_state"] == "DEPLOYED"
    assert (await world.get(f"/helm/{never}/deploymentHistory"))["results"] == []


async def test_a_stop_that_fails_is_not_shown_as_stopped(world: World):
    service = await release_of(world)
    await deployed(world, service)

    async def fail(workload: Workload) -> int:
        return 1

    world.engine.work = fail
    await world.post(f"/helm/{service}/stop")
    await world.settle()
    assert (await world.get(f"/helm/{service}/status"))["deployment_state"] == "STOP_ERROR"


async def test_a_service_that_never_ran_is_deleted_without_a_run(world: World):
    service = await release_of(world)
    assert (await world.delete(f"/helm/{service}")).status == 204
    await world.settle()
    assert (await world.get(f"/helm/{service}")).status == 404
    assert world.engine.applied == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": {}}, "source: is required: a folder"),
        (
            {"source": {**SOURCE, "helm_repository": {"chart_name": "a", "chart_version": "1"}}},
            "source: must be one of the two, not both",
        ),
        ({"arguments": ["--kubeconfig=/etc/shadow"]}, "arguments[0]: leave out --kubeconfig"),
        ({"arguments": ["--post-renderer=/bin/sh"]}, "arguments[0]: leave out --post-renderer"),
        (
            {"arguments": ["--wait --post-renderer"]},
            "arguments[0]: must be an option such as --wait, in one word",
        ),
        ({"values_override": {"set": [["a"]]}}, "values_override.set[0]"),
        (
            {"values_override": {"set": [["--post-renderer", "x"]]}},
            "values_override.set[0][0]: must be the path",
        ),
        (
            {"values_override": {"set": [["a=/etc/passwd,b", "x"]]}},
            "values_override.set[0][0]: must be the path",
        ),
        (
            {"values_override": {"set_string": [["a,b", "x"]]}},
            "values_override.set_string[0][0]: must be the",
        ),
        (
            {
                "values_override": {
                    "file": {"git": {"git_repository": {"url": REPOSITORY}, "paths": ["../a"]}}
                }
            },
            "values_override.file.git.paths[0]: must be a file of the repository",
        ),
        ({"ports": [{"internal_port": 80}]}, "ports[0].service_name: set this or service_selectors"),
    ],
)
async def test_wrong_settings_are_refused_with_their_field(world: World, fields: Any, message: str):
    environment = await world.environment()
    answer = await world.post(f"/environment/{environment}/helm", {"name": "shop", "source": SOURCE} | fields)
    assert (answer.status, answer.message[: len(message)]) == (400, message)


async def test_only_an_admin_may_allow_changes_of_the_whole_cluster(world: World):
    environment = await world.environment()
    body = {"name": "shop", "source": SOURCE, "allow_cluster_wide_resources": True}
    writer = await world.post(
        f"/organization/{world.org}/apiToken", {"name": "writer", "scopes": ["Read", "Write"]}
    )
    answer = await world.post(f"/environment/{environment}/helm", body, token=writer["token"])
    assert answer.status == 403, answer
    assert answer.message.startswith("allow_cluster_wide_resources: use a token with the scope Admin")
    assert (await world.post(f"/environment/{environment}/helm", body)).status == 201


async def test_an_admin_of_one_environment_does_not_let_a_chart_change_the_whole_cluster(world: World):
    """An Admin token that is limited to an environment may do everything there, but environments of other
    projects are on the same cluster. Negative control: the same token without the limit."""
    environment = await world.environment()
    body = {"name": "shop", "source": SOURCE}
    permission = {"allow_cluster_wide_resources": True}
    plain = await world.made(f"/environment/{environment}/helm", body)
    service = await release_of(world, environment, name="ingress", **permission)
    deployment = await world.post(f"/helm/{service}/deploy", {})
    await world.settle()
    back = {"deployment_id": deployment["id"], "settings": "present"}
    limited = await world.new_token("Admin", limited_to=[environment])
    for token, statuses in ((limited, [403] * 5), (world.token, [201, 200, 200, 202, 202])):
        answers = [
            await world.post(
                f"/environment/{environment}/helm", {**body, "name": "other", **permission}, token=token
            ),
            await world.patch(f"/helm/{plain}", permission, token=token),
            await world.patch(f"/helm/{service}", {"arguments": ["--take-ownership"]}, token=token),
            await world.post(f"/helm/{service}/deploy", {"git_commit_id": COMMIT}, token=token),
            await world.post(f"/helm/{service}/rollback", back, token=token),
        ]
        assert [answer.status for answer in answers] == statuses, answers
        refused = [answer.message for answer in answers if answer.status == 403]
        assert all(one.startswith("allow_cluster_wide_resources: use a token") for one in refused)
    assert (await world.patch(f"/helm/{service}", {"description": "ours"}, token=limited)).status == 200


OTHER_CHART = {
    "source": {"git_repository": {"url": REPOSITORY, "branch": "main", "root_path": "/other"}},
    "values_override": {"set": [["rbac", "true"]]},
    "arguments": ["--take-ownership"],
    "allow_cluster_wide_resources": True,
}


@pytest.mark.parametrize("is_allowed", [True, False])
@pytest.mark.parametrize("field", [*OTHER_CHART])
async def test_only_an_admin_changes_the_chart_of_a_service_that_may_change_the_whole_cluster(
    world: World, field: str, is_allowed: bool
):
    """Negative control: the chart of another service is changed with Write."""
    environment = await world.environment()
    body = {"name": "shop", "source": SOURCE, "allow_cluster_wide_resources": is_allowed}
    service = await world.made(f"/environment/{environment}/helm", body)
    writer = await world.new_token("Write", limited_to=[service])
    changed = {field: OTHER_CHART[field]}
    answer = await world.patch(f"/helm/{service}", changed, token=writer)
    if field == "allow_cluster_wide_resources":
        assert answer.status == (200 if is_allowed else 403)  # it is on already, or is turned on
    else:
        assert answer.status == (403 if is_allowed else 200), answer
    assert (await world.patch(f"/helm/{service}", {"description": "ours"}, token=writer)).status == 200
    assert (await world.patch(f"/helm/{service}", changed)).status == 200
    off = {"allow_cluster_wide_resources": False, "source": OTHER_CHART["source"]}
    assert (await world.patch(f"/helm/{service}", off, token=writer)).status == 200


COMMIT = "ab" * 20


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_only_an_admin_chooses_the_commit_of_a_chart_that_may_change_the_whole_cluster(
    world: World, is_allowed: bool
):
    """Negative control: with Deploy, the commit of another service is chosen."""
    world.git.files = {**world.git.files, "production.yaml": "replicas: 3\n"}
    values = {"git_repository": {"url": f"{REPOSITORY}-values"}, "paths": ["production.yaml"]}
    service = await release_of(
        world, allow_cluster_wide_resources=is_allowed, values_override={"file": {"git": values}}
    )
    first = await world.post(f"/helm/{service}/deploy", {})
    await world.settle()
    deployer = await world.new_token("Deploy", limited_to=[service])
    refusal = 403 if is_allowed else 202
    for field in ("git_commit_id", "values_override_git_commit_id"):
        answer = await world.post(f"/helm/{service}/deploy", {field: COMMIT}, token=deployer)
        assert answer.status == refusal, answer
        plan = await world.post(f"/helm/{service}/deploy?forceEvent=DIFF", {field: COMMIT}, token=deployer)
        assert plan.status == refusal, plan
    await world.settle()
    back = {"deployment_id": first["id"], "settings": "present"}
    answer = await world.post(f"/helm/{service}/rollback", back, token=deployer)
    assert answer.status == refusal, answer
    for action in ("deploy", "redeploy"):  # the newest commit of the admin's branch, and the present one
        assert (await world.post(f"/helm/{service}/{action}", {}, token=deployer)).status == 202
    await world.settle()
    answer = await world.post(f"/helm/{service}/deploy", {"git_commit_id": COMMIT})
    assert answer.status == 202, answer


async def test_only_an_admin_chooses_commits_of_such_charts_through_their_environment(world: World):
    environment = await world.environment()
    service = await release_of(world, environment, allow_cluster_wide_resources=True)
    deployer = await world.new_token("Deploy", limited_to=[environment])
    asked = {"helms": [{"id": service, "git_commit_id": COMMIT}]}
    refused = await world.post(f"/environment/{environment}/service/deploy", asked, token=deployer)
    assert (refused.status, "scope Admin" in refused.message) == (403, True), refused
    plain = {"helms": [{"id": service}]}
    assert (
        await world.post(f"/environment/{environment}/service/deploy", plain, token=deployer)
    ).status == 202


async def test_a_redeploy_does_not_repeat_a_commit_from_before_the_permission_for_the_whole_cluster(
    world: World,
):
    service = await release_of(world)
    assert await deployed(world, service, git_commit_id=COMMIT) == ("SUCCEEDED", "")
    await world.post(f"/helm/{service}/redeploy")
    await world.settle()
    assert world.git.fetched[-1].commit == COMMIT  # the negative control
    permission = {"allow_cluster_wide_resources": True}
    assert (await world.patch(f"/helm/{service}", permission)).status == 200
    deployer = await world.new_token("Deploy", limited_to=[service])
    for _ in range(2):
        answer = await world.post(f"/helm/{service}/redeploy", token=deployer)
        assert answer.status == 202, answer
        await world.settle()
        shown = (await world.get(f"/helm/{service}"))["source"]["git"]["git_repository"]
        assert shown["deployed_commit_id"] == world.git.newest


async def test_a_waiting_deployment_does_not_get_the_permission_for_the_whole_cluster(world: World):
    service = await release_of(world)
    await world.post(f"/helm/{service}/deploy", {"git_commit_id": COMMIT})
    permission = {"allow_cluster_wide_resources": True}
    refused = await world.patch(f"/helm/{service}", permission)
    assert (refused.status, "wait until the deployments" in refused.message) == (409, True), refused
    await world.settle()
    assert (await world.patch(f"/helm/{service}", permission)).status == 200


async def test_a_clone_has_the_chart_and_its_own_release(world: World):
    source = await stored_chart(world)
    service = await release_of(world, source=source, ports=[{"internal_port": 80, "service_name": "web"}])
    answer = await world.post(
        f"/helm/{service}/clone", {"name": "copy", "environment_id": await world.environment()}
    )
    assert answer.status == 202, answer
    assert answer["source"]["helm_repository"] == source["helm_repository"]
    assert answer["ports"][0]["service_name"] == "web"
    await deployed(world, answer["id"])
    assert request_of(world)["release"] == f"helm-z{answer['id'][:8]}"


async def test_default_values_and_charts_are_read_before_a_service_is_created(world: World):
    environment = await world.environment()
    values = await world.post(
        f"/environment/{environment}/helmDefaultValues", {"source": await stored_chart(world)}
    )
    assert (values.status, values.body) == (201, b"replicas: 1\n")
    assert values.headers["content-type"].startswith("text/plain")
    found = await world.post(
        f"/environment/{environment}/checkHelmRepository", {"git_repository": {"url": REPOSITORY}}
    )
    assert (found["chart_name"], found["chart_version"]) == ("shop", "1.0.0")
    world.git.files = {}
    nothing = await world.post(
        f"/environment/{environment}/checkHelmRepository", {"git_repository": {"url": f"{REPOSITORY}-empty"}}
    )
    assert (nothing.status, nothing.message.partition(":")[0]) == (400, "git_repository.root_path")
