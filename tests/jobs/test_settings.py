"""The settings of jobs: one source, one type of schedule, and the forms that existing clients send."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jobs.sites import DOCKER, IMAGE, MINUTE, cron, deployed, new_job, ready_job
from tests.tables import rows
from tests.world import REPOSITORY, World, make_world

ON_START: dict[str, Any] = {"on_start": {}}


async def refused(world: World, **fields: Any) -> str:
    environment = await world.environment()
    body = {"name": "job", "source": IMAGE, "schedule": cron()} | fields
    answer = await world.post(f"/environment/{environment}/job", body)
    assert answer.status == 400, answer
    return answer.message


@pytest.mark.parametrize(
    ("schedule", "job_type"), [(cron(), "CRON"), (ON_START, "LIFECYCLE"), ({"on_delete": {}}, "LIFECYCLE")]
)
async def test_a_job_is_returned_with_its_job_type(
    world: World, schedule: dict[str, Any], job_type: str
) -> None:
    job = (await world.get(f"/job/{await new_job(world, schedule=schedule)}")).json
    assert (job["job_type"], job["service_type"]) == (job_type, "JOB")
    application = await world.application()
    services = (await world.get(f"/organization/{world.org}/services?page_size=1000"))["results"]
    types = {service["id"]: service.get("job_type") for service in services}
    assert (types[job["id"]], types[application]) == (job_type, None)


@pytest.mark.parametrize("unused", [None, {}])
async def test_an_empty_alternative_source_counts_as_absent(world: World, unused: Any) -> None:
    image = (await world.get(f"/job/{await new_job(world, source=IMAGE | {'docker': unused})}")).json
    assert [*image["source"]] == ["image"]
    assert image["source"]["image"]["registry"]["kind"] == "DOCKER_HUB"
    docker = (await world.get(f"/job/{await new_job(world, source=DOCKER | {'image': unused})}")).json
    assert [*docker["source"]] == ["docker"]
    assert docker["source"]["docker"]["git_repository"]["owner"] == "acme"


@pytest.mark.parametrize("unused", [None, {}])
async def test_an_empty_alternative_schedule_counts_as_absent(world: World, unused: Any) -> None:
    job = (await world.get(f"/job/{await new_job(world, schedule=ON_START | {'cronjob': unused})}")).json
    assert [*job["schedule"]] == ["on_start"]
    job = (await world.get(f"/job/{await new_job(world, schedule=cron() | {'on_start': None})}")).json
    assert [*job["schedule"]] == ["cronjob"]


@rows(
    ("fields", "says"),
    [
        ({"source": {}}, "source: is required: an image that is there already (`image`), or a repo"),
        ({"source": IMAGE | DOCKER}, "source: must be one of the two, not both: an image"),
        ({"source": {"image": {"image_name": "a/b"}}}, "source.image.tag: is required"),
        ({"source": {"image": {"tag": "1"}}}, "source.image.image_name: is required"),
        (
            {"source": {"docker": {"dockerfile_path": "Dockerfile"}}},
            "source.docker.git_repository: is required",
        ),
        (
            {"source": {"docker": {"git_repository": {"url": "https://me:pw@git.example/a/b.git"}}}},
            "source.docker.git_repository.url: leave out what stands before the @",
        ),
        ({"schedule": {}}, "schedule: must say when it runs: by a timetable (`cronjob`), or"),
        ({"schedule": ON_START | cron()}, "schedule: must have either cronjob or events"),
        ({"schedule": {"cronjob": {}}}, "schedule.cronjob.scheduled_at: is required"),
        (
            {"schedule": cron("61 * * * *")},
            "schedule.cronjob.scheduled_at: the minute must be numbers from 0 to 59",
        ),
        ({"schedule": cron("* * * * * *")}, "schedule.cronjob.scheduled_at: must have five fields"),
        ({"schedule": cron(timezone="Mars/Phobos")}, "schedule.cronjob.timezone: must be a time zone"),
        (
            {"schedule": cron(timezone="europe/berln")},
            "schedule.cronjob.timezone: must be a time zone of the IANA database, such as Europe/Berlin; "
            "did you mean Europe/Berlin",
        ),
        ({"schedule": cron(entrypoint="sh -c 'x")}, "schedule.cronjob.entrypoint: must be a command"),
        ({"schedule": {"on_stop": {"entrypoint": '"'}}}, "schedule.on_stop.entrypoint: must be a command"),
        ({"max_nb_restart": -1}, "max_nb_restart"),
        ({"max_nb_restart": 101}, "max_nb_restart"),
    ],
)
async def test_wrong_settings_are_refused_by_name(world: World, fields: dict[str, Any], says: str) -> None:
    assert (await refused(world, **fields)).startswith(says)


async def test_the_status_of_a_job_says_that_the_engine_runs_no_images(database_url: str) -> None:
    async with make_world(database_url) as world:
        job = await new_job(world, source=IMAGE)
        status = (await world.get(f"/job/{job}/status")).json
        assert status["message"].startswith("source.image: the cluster of this environment runs no images")
        built = await new_job(world, source=DOCKER, name="built")
        assert (await world.get(f"/job/{built}/status")).json["message"] == ""


async def test_the_type_of_a_job_cannot_be_changed(world: World) -> None:
    job = await new_job(world)
    answer = await world.put(f"/job/{job}", {"name": "job", "source": IMAGE, "schedule": ON_START})
    assert (answer.status, "schedule: create another job" in answer.message) == (400, True)


async def test_a_job_may_change_its_source(world: World) -> None:
    job = await ready_job(world)
    body = {"name": "job", "source": DOCKER | {"image": {}}, "schedule": cron()}
    changed = await world.put(f"/job/{job}", body)
    assert (changed.status, [*changed["source"]]) == (200, ["docker"])
    back = await world.put(f"/job/{job}", body | {"source": IMAGE | {"docker": None}})
    assert (back.status, [*back["source"]]) == (200, ["image"])


async def test_optional_fields_that_were_not_sent_are_absent_from_the_answer(world: World) -> None:
    job = (await world.get(f"/job/{await new_job(world, source=DOCKER)}")).json
    assert {"port", "max_duration_seconds", "cpu_architecture"} & job.keys() == set()
    assert {"dockerfile_path", "dockerfile_raw"} & job["source"]["docker"].keys() == set()
    assert "git_token_id" not in job["source"]["docker"]["git_repository"]
    assert "entrypoint" not in job["schedule"]["cronjob"]


async def test_the_settings_of_a_job_can_be_sent_back_unchanged(world: World) -> None:
    every: list[dict[str, Any]] = [{}, {"source": DOCKER, "schedule": ON_START}]
    for fields in every:
        job = await new_job(world, **fields)
        shown = (await world.get(f"/job/{job}", headers={})).json
        sent = ("name", "description", "cpu", "memory", "schedule", "max_nb_restart", "healthchecks")
        body = {name: shown[name] for name in sent}
        source = fields.get("source", IMAGE)
        again = await world.put(f"/job/{job}", body | {"source": source})
        assert again.status == 200, again
        assert again["updated_at"] == shown["updated_at"]


async def test_a_job_of_a_repository_is_built_and_shows_its_commit(world: World) -> None:
    job = await ready_job(world, source=DOCKER)
    repository = (await world.get(f"/job/{job}"))["source"]["docker"]["git_repository"]
    assert repository["deployed_commit_id"]
    assert (await world.get(f"/job/{job}/commit")).status == 200
    commit = repository["deployed_commit_id"]
    assert (await deployed(world, job, "deploy", {"git_commit_id": commit}))["git_commit_id"] == commit


async def test_a_dockerfile_may_be_given_inline_in_dockerfile_raw(world: World) -> None:
    text = "FROM scratch\nCOPY job /job\n"
    job = await ready_job(world, source={"docker": DOCKER["docker"] | {"dockerfile_raw": text}})
    order = world.builder.built[-1]
    assert order.settings.dockerfile_raw == text
    assert order.dockerfile.startswith("Dockerfile.")
    key = order.key
    await world.patch(f"/job/{job}", {"source": {"docker": {"dockerfile_raw": text + "USER 1000\n"}}})
    await deployed(world, job)
    assert world.builder.built[-1].key != key


@pytest.mark.parametrize(
    ("source", "body", "says"),
    [
        (DOCKER, {"image_tag": "2"}, "image_tag: leave it out"),
        (IMAGE, {"git_commit_id": "abcdef0"}, "git_commit_id: leave it out"),
    ],
)
async def test_a_version_of_the_other_source_is_refused(
    world: World, source: dict[str, Any], body: dict[str, Any], says: str
) -> None:
    job = await new_job(world, source=source)
    answer = await world.post(f"/job/{job}/deploy", body)
    assert (answer.status, answer.message.startswith(says)) == (400, True)


async def test_jobs_are_in_the_lists_of_their_environment(world: World) -> None:
    environment = await world.environment()
    job = await new_job(world, environment)
    statuses = await world.get(f"/environment/{environment}/job/status")
    assert [row["id"] for row in statuses["results"]] == [job]
    assert [row["id"] for row in (await world.get(f"/environment/{environment}/statuses"))["jobs"]] == [job]
    chosen = {"jobs": [{"id": job, "image_tag": "3.0"}]}
    assert (await world.post(f"/environment/{environment}/service/deploy", chosen)).status == 202
    await world.settle()
    assert (await world.get(f"/job/{job}"))["source"]["image"]["tag"] == "3.0"
    assert (await world.post(f"/environment/{environment}/service/stop", {"job_ids": [job]})).status == 200


async def test_a_git_token_opens_the_repository_of_a_job_on_its_own_host_only(world: World) -> None:
    token = await world.made(
        f"/organization/{world.org}/gitToken",
        {"name": "git", "type": "GITHUB", "token": "t" * 20, "git_api_url": "https://api.github.com"},
    )
    environment = await world.environment()
    source = {"docker": {"git_repository": {"url": REPOSITORY, "git_token_id": token}}}
    body = {"name": "job", "source": source, "schedule": cron()}
    answer = await world.post(f"/environment/{environment}/job", body)
    assert (answer.status, "source.docker.git_repository" in answer.message) == (400, True)


async def test_a_job_of_a_repository_deploys_new_commits_by_itself(world: World) -> None:
    """Negative control: a job without `auto_deploy`."""
    watching = await ready_job(world, source=DOCKER, auto_deploy=True)
    waiting = await ready_job(world, source=DOCKER)
    commit = world.git.push("second")
    await later(world)
    assert await deployed_commits(world, waiting) == ["first"]
    assert await deployed_commits(world, watching) == [commit, "first"]


async def test_a_job_that_changes_to_an_image_follows_no_branch_any_more(world: World) -> None:
    job = await ready_job(world, source=DOCKER, auto_deploy=True)
    assert (await world.put(f"/job/{job}", {"source": IMAGE})).status == 200
    world.git.push("second")
    await later(world)
    assert await deployed_commits(world, job) == ["first"]


async def test_following_a_branch_needs_the_right_to_deploy(world: World) -> None:
    token = await world.new_token("Write")
    environment, job = await world.environment(), await ready_job(world, source=DOCKER)
    body = {"name": "nightly", "source": DOCKER, "schedule": cron(), "auto_deploy": True}
    for answer in (
        await world.post(f"/environment/{environment}/job", body, token=token),
        await world.patch(f"/job/{job}", {"auto_deploy": True}, token=token),
    ):
        assert (answer.status, answer.message.partition(":")[0]) == (403, "auto_deploy")
    assert (await world.patch(f"/job/{job}", {"auto_deploy": True})).status == 200
    moved = {"docker": {"git_repository": {"url": REPOSITORY, "branch": "other"}}}
    answer = await world.patch(f"/job/{job}", {"source": moved}, token=token)
    assert (answer.status, answer.message.partition(":")[0]) == (403, "source.docker.git_repository")


async def later(world: World) -> None:
    """Lets the time pass after which branches are looked at."""
    await world.settle()
    world.clock.turn(MINUTE + 1)
    await world.settle()


async def deployed_commits(world: World, job: str) -> list[str]:
    """The commits that were deployed, the newest first, and `first` for that of the beginning."""
    listed = (await world.get(f"/job/{job}/deployment"))["results"]
    commits = [one["git_commit_id"] for one in listed]
    return [*commits[:-1], "first"]


async def test_a_rollback_of_a_job_runs_the_version_before_the_last_one(world: World) -> None:
    job = await ready_job(world)
    assert (await deployed(world, job, body={"image_tag": "2.0"}))["status"] == "SUCCEEDED"
    back = await deployed(world, job, "rollback", {})
    assert (back["status"], back["image_tag"]) == ("SUCCEEDED", "1.0")
