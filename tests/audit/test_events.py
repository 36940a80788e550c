"""The audit over HTTP: each change is one event, and every caller that may see it finds it."""

from __future__ import annotations

import json

import pytest

from tests.audit.asking import Event, events, followed, newest, page, told, types
from tests.tables import rows
from tests.world import World, make_world

AGENT = {"user-agent": "CLI 3.1 (linux)", "x-request-id": "asked-for-this-0001"}


async def test_a_creation_is_recorded_with_caller_origin_and_subject(world: World):
    project = await world.project()
    env = await world.environment(project, name="production")
    app = await world.made(
        f"/environment/{env}/application",
        {"name": "shop", "git_repository": {"url": "https://git.example/a.git"}},
        headers=AGENT,
        address="198.51.100.9",
    )
    event = await newest(world, "CREATE")
    assert event["target_id"] == app
    assert (event["target_type"], event["target_name"]) == ("APPLICATION", "shop")
    assert (event["triggered_by"], event["origin"]) == ("operator", "CLI")
    assert (event["address"], event["user_agent"]) == ("198.51.100.9", AGENT["user-agent"])
    assert event["request_id"] == AGENT["x-request-id"]
    assert (event["project_id"], event["environment_id"]) == (project, env)
    assert event["environment_name"] == "production"
    assert told(event) == (await world.get(f"/application/{app}")).json
    assert event["original_change"] is None


async def test_an_update_event_contains_the_old_and_the_new_document(world: World):
    project = await world.project(name="before")
    await world.put(f"/project/{project}", {"name": "after"})
    event = await newest(world, "UPDATE")
    assert (told(event)["name"], json.loads(event["original_change"])["name"]) == ("after", "before")


async def test_an_update_that_changes_nothing_records_no_event(world: World):
    project = await world.project(name="same")
    count = len(await events(world))
    assert (await world.put(f"/project/{project}", {"name": "same"})).status == 200
    assert len(await events(world)) == count


async def test_a_refused_creation_records_no_event(world: World):
    await world.project(name="taken")
    count = len(await events(world))
    again = await world.post(f"/organization/{world.org}/project", {"name": "taken"})
    assert again.status == 409
    assert len(await events(world)) == count


async def test_deleted_resources_keep_their_names_in_the_audit(world: World):
    project = await world.project(name="shop")
    env = await world.environment(project, name="production")
    app = await world.application(env, name="web")
    await world.delete(f"/project/{project}")
    found = await events(world, targetId=app)
    assert [(one["project_name"], one["environment_name"], one["target_name"]) for one in found] == [
        ("shop", "production", "web")
    ]
    gone = await newest(world, "DELETE")
    assert (gone["target_name"], told(gone)) == ("shop", None)


async def test_changes_of_variables_and_secrets_are_events_of_their_service(world: World):
    app = await world.application()
    await world.made(f"/application/{app}/environmentVariable", {"key": "COLOUR", "value": "red"})
    await world.made(f"/application/{app}/secret", {"key": "PASSWORD", "value": "canary-of-a-secret"})
    secret, variable, created = await events(world, targetId=app)
    assert [one["target_type"] for one in (secret, variable, created)] == ["APPLICATION"] * 3
    assert [one.get("sub_target_type") for one in (secret, variable, created)] == ["SECRET", "VARIABLE", None]
    assert variable["target_name"] == "COLOUR"
    assert told(variable)["value"] == "red"
    assert "value" not in told(secret)


async def test_events_report_the_start_and_the_end_of_a_deployment(world: World):
    app = await world.application()
    await world.post(f"/application/{app}/deploy", headers=AGENT)
    await world.settle()
    done, began, queued, _ = await events(world, targetId=app)
    assert types([queued, began, done]) == ["DEPLOY_QUEUED", "DEPLOYMENT_STARTED", "DEPLOYED"]
    assert (queued["address"], queued["request_id"]) == ("203.0.113.7", AGENT["x-request-id"])
    assert (done["triggered_by"], done["origin"], done["address"]) == ("operator", "CLI", "")
    assert told(done)["event"] == "DEPLOYMENT_SUCCEEDED"
    assert done["project_id"]
    await world.post(f"/application/{app}/restart-service")
    await world.settle()
    assert types(await events(world, targetId=app, eventType="RESTARTED")) == ["RESTARTED"]
    assert types(await events(world, targetId=app, eventType="DEPLOYED")) == ["DEPLOYED"]
    assert len(await events(world, targetId=app, eventType="DEPLOYMENT_SUCCEEDED")) == 2


async def test_event_types_and_origins_under_compat_are_those_of_the_full_interface(world: World):
    app = await world.application()
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    await world.post("/account/session")
    plain, full = await events(world), await events(world, "/compat")
    assert len(plain) == len(full)
    from_plain, from_full = dict(zip(types(plain), types(full), strict=True)), set(types(full))
    assert from_plain["DEPLOYMENT_STARTED"] == "TRIGGER_DEPLOY"
    assert from_plain["SIGN_IN"] == from_plain["TOKEN_USED"] == "ACCEPT"
    assert from_full <= {"CREATE", "ACCEPT", "DEPLOY_QUEUED", "TRIGGER_DEPLOY", "DEPLOYED"}
    assert {one["origin"] for one in full} == {"API", "QOVERY_INTERNAL"}
    assert {one["origin"] for one in plain} == {"API", "WINDLASS"}
    assert types(await events(world, "/compat", eventType="ACCEPT")) == ["ACCEPT"] * 2
    assert {told(one)["event"] for one in await events(world, "/compat", eventType="ACCEPT")} == {
        "SIGN_IN",
        "TOKEN_USED",
    }


# Filters


async def test_each_filter_returns_only_matching_events(world: World):
    first, second = await world.project(), await world.project()
    env = await world.environment(first)
    app = await world.application(env)
    await world.made(f"/application/{app}/environmentVariable", {"key": "A"})
    robot = await world.new_token("Write", name="robot")
    await world.put(f"/project/{second}", {"name": "renamed"}, token=robot, headers={"user-agent": "cli"})

    async def only(**query: str) -> list[Event]:
        found = await events(world, **query)
        assert found
        return found

    assert {one["target_type"] for one in await only(targetType="PROJECT")} == {"PROJECT"}
    assert {one["sub_target_type"] for one in await only(subTargetType="VARIABLE")} == {"VARIABLE"}
    assert {one["project_id"] for one in await only(serviceProjectId=first)} == {first}
    assert {one["environment_id"] for one in await only(serviceEnvironmentId=env)} == {env}
    assert {one["triggered_by"] for one in await only(triggeredBy="robot")} == {"robot"}
    assert types(await only(origin="CLI")) == ["TOKEN_USED", "UPDATE"]
    assert types(await only(targetId=second)) == ["UPDATE", "CREATE"]
    both = await only(serviceProjectId=first, targetType="APPLICATION", eventType="CREATE")
    assert [one.get("sub_target_type") for one in both] == ["VARIABLE", None]
    assert await events(world, eventType="SHELL") == []
    assert await events(world, subTargetType="POLICY_API_TOKEN") == []
    assert await events(world, serviceProjectId=first, targetId=second) == []


async def test_times_may_be_stamps_or_numbers_of_any_unit(world: World):
    noon = world.clock.ms
    old = await world.project()
    world.clock.turn(3 * 86_400)
    new = await world.project()
    moment = noon + 86_400_000
    for text in (str(moment // 1000), str(moment), f"{moment}000", f"{moment}000000"):
        assert [one["target_id"] for one in await events(world, fromTimestamp=text)][-1] == new
        until = await events(world, toTimestamp=text, targetType="PROJECT")
        assert [one["target_id"] for one in until] == [old]
    stamp = (await newest(world, "CREATE", targetType="PROJECT"))["timestamp"]
    found = await events(world, fromTimestamp=stamp, toTimestamp=stamp, targetType="PROJECT")
    assert [one["target_id"] for one in found] == [new]


@rows(
    "wrong",
    [
        "pageSize=0", "pageSize=1001", "pageSize=ten", "fromTimestamp=yesterday", "toTimestamp=-1",
        "continueToken=x", "stepBackToken=1.5", "eventType=BORN", "targetType=planet", "targetId=7",
        "subTargetType=TAIL", "origin=MARS", "serviceProjectId=a", "serviceEnvironmentId=b",
    ],
)  # fmt: skip
async def test_a_wrong_parameter_is_refused_by_its_name(wrong: str):
    async with make_world() as world:
        answer = await world.get(f"/organization/{world.org}/events?{wrong}")
        assert answer.status == 400
        assert answer.message.startswith(f"{wrong.partition('=')[0]}: ")


async def test_a_page_of_events_takes_one_token_only():
    async with make_world() as world:
        answer = await world.get(f"/organization/{world.org}/events?continueToken=1&stepBackToken=1")
        assert (answer.status, answer.message.partition(":")[0]) == (400, "stepBackToken")


# Pages


async def test_event_pages_can_be_followed_to_the_end_and_back_while_events_are_added(world: World):
    for number in range(12):
        await world.project(name=f"p{number:02d}")
    shown = [await page(world, pageSize=5, targetType="PROJECT")]
    while link := shown[-1]["links"].get("next"):
        await world.project()
        shown.append(await followed(world, link))
    down = [one["target_name"] for some in shown for one in some["events"]]
    assert down == [f"p{number:02d}" for number in reversed(range(12))]
    assert "previous" not in shown[0]["links"]
    back: list[Event] = []
    link = shown[-1]["links"]["previous"]
    while link:
        some = await followed(world, link)
        back = [*some["events"], *back]
        link = some["links"].get("previous")
    numbers = [one["number"] for one in back]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers)
    assert set(down[:-2]) <= {one["target_name"] for one in back}, "all but the last page"
    assert back[0]["number"] > shown[0]["events"][0]["number"], "what came meanwhile is there"


async def test_a_page_has_ten_events_unless_asked_otherwise(world: World):
    for _ in range(12):
        await world.project()
    answer = await world.get(f"/organization/{world.org}/events")
    assert len(answer["events"]) == 10
    assert answer["organization_max_limit_reached"] is False


async def test_links_to_further_event_pages_contain_the_filters_and_the_path_prefix(world: World):
    for _ in range(3):
        await world.project()
    some = await page(world, "/compat", pageSize=1, targetType="PROJECT", eventType="CREATE")
    link = some["links"]["next"]
    assert "/compat/organization/" in link
    assert [one["target_type"] for one in (await followed(world, link))["events"]] == ["PROJECT"]
    assert "targetType=PROJECT" in link
    assert "eventType=CREATE" in link


async def test_a_rare_event_is_found_among_many(world: World):
    rare = await world.new_token("Read", name="rare")
    assert rare

    async def crowd(tx):
        for number in range(6_000):
            tx.emit("UPDATE", world.org, str(number), b'{"family":"project","actor":{"id":"","name":"x"}}')

    await world.installation.ctx.store.write(crowd)
    found = await events(world, subTargetType="API_TOKEN", eventType="CREATE")
    assert [one["target_name"] for one in found] == ["rare"]
    oldest = found[0]["number"]
    up = await events(world, stepBackToken=oldest - 1, subTargetType="API_TOKEN", eventType="CREATE")
    assert [one["number"] for one in up] == [oldest]


# Who may see what


async def test_tokens_of_every_scope_see_the_events(world: World):
    await world.project()
    for scope in ("Read", "Write", "Deploy", "Admin"):
        assert await events(world, token=await world.new_token(scope))


async def test_the_audit_of_another_organization_is_not_found(world: World):
    _, stranger = await world.organization()
    for what in ("events", "targets"):
        answer = await world.get(f"/organization/{world.org}/{what}", token=stranger)
        never = await world.get(f"/organization/00000000-0000-4000-8000-000000000000/{what}", token=stranger)
        assert answer.status == never.status == 404
        assert answer.message == never.message


async def test_events_of_another_organization_are_in_no_list(world: World):
    foreign, stranger = await world.organization()
    made = await world.post(f"/organization/{foreign}/project", {"name": "theirs"}, token=stranger)
    assert "theirs" not in [one["target_name"] for one in await events(world)]
    assert await events(world, targetId=made["id"]) == []
    theirs = await world.get(f"/organization/{foreign}/events", token=stranger)
    assert "theirs" in [one["target_name"] for one in theirs["events"]]


async def test_a_limited_token_sees_what_happened_in_its_part(world: World):
    mine, other = await world.project(), await world.project()
    env = await world.environment(mine)
    app, neighbour = await world.application(env), await world.application(env)
    await world.made(f"/application/{app}/environmentVariable", {"key": "A"})
    of_project = await world.new_token("Read", limited_to=[mine])
    found = await events(world, token=of_project)
    assert {one["project_id"] for one in found} == {mine}
    assert len(found) == 5
    of_app = await world.new_token("Read", limited_to=[app])
    assert {one["target_id"] for one in await events(world, token=of_app)} == {app}
    assert len(await events(world, token=of_app)) == 2
    assert await events(world, token=of_app, targetId=neighbour) == []
    assert await events(world, token=of_project, targetId=other) == []
    seen = await world.get(f"/organization/{world.org}/targets", token=of_app)
    assert [one["id"] for one in seen["targets"]] == [app]


# Targets


async def test_the_list_of_targets_has_the_resources_that_events_refer_to(world: World):
    project = await world.project(name="shop")
    env = await world.environment(project, name="production")
    app = await world.application(env, name="web")
    await world.made(f"/application/{app}/environmentVariable", {"key": "A"})

    async def targets(**query: str) -> list[tuple[str, str]]:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        answer = await world.get(f"/organization/{world.org}/targets?{words}")
        return [(one["name"], one["id"]) for one in answer["targets"]]

    assert await targets(targetType="APPLICATION") == [("web", app)]
    assert await targets(targetLevelToFetch="PROJECT") == [("shop", project)]
    assert await targets(targetLevelToFetch="ENVIRONMENT", projectId=project) == [("production", env)]
    assert {name for name, _ in await targets(environmentId=env)} == {"production", "web"}
    assert await targets(eventType="SHELL") == []
    await world.delete(f"/project/{project}")
    assert await targets(targetType="APPLICATION") == [("web", app)]


# Secrets


async def test_no_secret_is_in_any_event_answer_or_log(world: World, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    app = await world.application()
    canary = "canary-8c1f0e"
    secret = await world.made(f"/application/{app}/secret", {"key": "S", "value": f"{canary}-1"})
    await world.put(f"/application/{app}/secret/{secret}", {"value": f"{canary}-2"})
    hook = {"target_url": "https://example.com/h", "events": ["DEPLOYMENT_STARTED"]}
    made = await world.post(f"/organization/{world.org}/webhook", {**hook, "target_secret": f"{canary}-3"})
    await world.put(
        f"/organization/{world.org}/webhook/{made['id']}", {**hook, "target_secret": f"{canary}-4"}
    )
    await world.post(
        f"/organization/{world.org}/gitToken",
        {"name": "git", "type": "GITHUB", "token_value": f"{canary}-5", "token": f"{canary}-6"},
    )
    token = await world.new_token("Admin")
    session = (await world.post("/account/session", token=token))["token"]
    await world.post(f"/application/{app}/deploy", headers={"user-agent": "curl"}, token=token)
    await world.settle()
    await world.call("DELETE", f"/organization/{world.org}", token=await world.new_token("Read"))
    everything = json.dumps(await events(world))
    rows = b"".join(row.body for row in await world.events())
    for hidden in (canary, token, session, world.token or "-"):
        assert hidden not in everything
        assert hidden.encode() not in rows
        assert hidden not in caplog.text
    assert "ACCESS_REFUSED" in everything
