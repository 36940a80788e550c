"""The outputs of a job are known by the name of the job: who may deploy one job harms no other service."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.jobs.sites import Programs, deployed, new_job, ready_job, runs
from tests.jobs.test_events import asked, environment_with, events, variables
from tests.world import World
from windlass.control.kinds import job as job_kind
from windlass.control.records import job_outputs

CHOSEN = {
    "MAIN_URL": "postgresql://evil.test/main", "MAIN_HOST": "evil.test", "PATH": "/tmp/evil", "PORT": "1",
    "LD_PRELOAD": "/tmp/evil.so", "UWSGI_EXEC_ASAP": "evil", "AWS_SHARED_CREDENTIALS_FILE": "/tmp/evil",
    "LOGGING_CONFIG": "evil", "QOVERY_X": "1", "WINDLASS_PROJECT_ID": "evil",
    "QOVERY_POSTGRESQL_Z00000000_HOST_INTERNAL": "evil.test",
}  # fmt: skip
"""Names by which a run would decide what its neighbours do."""


def written(values: dict[str, Any], *, sensitive: bool = False, description: str = "") -> bytes:
    fields = {"sensitive": sensitive, "description": description}
    return msgspec.json.encode({key: {"value": value, **fields} for key, value in values.items()})


def named(job: str, name: str, prefix: str = "WINDLASS_") -> str:
    """The key of the variable of an output."""
    return f"{prefix}JOB_Z{job[:8].upper()}_{name}"


async def outputs(world: World, job: str, kind: str = "environmentVariable") -> dict[str, Any]:
    """The outputs of a job, as its environment lists them."""
    listed = await world.get(f"/compat/job/{job}/{kind}?page_size=1000")
    prefix = named(job, "", "QOVERY_")
    return {
        row["key"].removeprefix(prefix): row.get("value")
        for row in listed["results"]
        if row["key"].startswith(prefix) and not row["key"].endswith("_HOST_INTERNAL")
    }


async def attacked(world: World) -> tuple[dict[str, str], dict[str, str], str]:
    """Variables of a neighbour before and after a run that a token limited to its job has changed."""
    environment = await world.environment()
    await world.database(environment, name="main")
    app = await world.application(environment)
    job = await new_job(world, environment, schedule=events("on_start"))
    await asked(world, environment, "deploy")
    before = dict(world.engine.running[app].variables)
    token = await world.new_token("Write", "Deploy", limited_to=[job])
    assert (await world.get(f"/application/{app}", token=token)).status == 404
    world.engine.output = written(CHOSEN)
    assert (await world.post(f"/job/{job}/deploy", token=token)).status == 202
    await world.settle()
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    return before, dict(world.engine.running[app].variables), job


async def test_an_output_creates_only_variables_prefixed_with_the_name_of_its_job(world: World) -> None:
    before, after, job = await attacked(world)
    assert {key: after[key] for key in before} == before
    added = {key: after[key] for key in after.keys() - before.keys()}
    prefixes = ("QOVERY_", "WINDLASS_")
    assert added == {named(job, key, prefix): CHOSEN[key] for key in CHOSEN for prefix in prefixes}


async def test_without_the_prefix_an_output_could_set_ld_preload_of_other_services(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the test above."""
    monkeypatch.setattr(job_kind, "prefixes_of", lambda *_: ("", ""))
    _, after, _ = await attacked(world)
    assert after["LD_PRELOAD"] == "/tmp/evil.so"


async def test_a_person_may_give_an_output_another_name_by_an_alias_or_reference(world: World) -> None:
    environment, _, job, app = await environment_with(world, "on_start")
    world.engine.output = written({"BUCKET": "shop-7f3a"}, description="For pictures")
    await asked(world, environment, "deploy")
    listed = await world.get(f"/compat/application/{app}/environmentVariable?page_size=1000")
    (row,) = [row for row in listed["results"] if row["key"] == named(job, "BUCKET", "QOVERY_")]
    assert (row["value"], row["scope"], row["description"]) == ("shop-7f3a", "BUILT_IN", "For pictures")
    path = f"/application/{app}/environmentVariable/{row['id']}/alias"
    assert (await world.post(path, {"key": "PICTURES"})).status == 201
    text = {"key": "ADDRESS", "value": f"s3://{{{{{named(job, 'BUCKET')}}}}}"}
    await world.made(f"/environment/{environment}/environmentVariable", text)
    world.engine.output = written({"BUCKET": "shop-8"})
    await asked(world, environment, "deploy")
    found = world.engine.running[app].variables
    assert (found["PICTURES"], found["ADDRESS"]) == ("shop-8", "s3://shop-8")
    shown = await world.get(f"/application/{app}/environmentVariable")
    assert {row["key"]: row["value"] for row in shown["results"]}["PICTURES"] == "shop-8"


async def test_an_output_does_not_overwrite_an_existing_variable(world: World) -> None:
    environment = await world.environment()
    await world.made(f"/environment/{environment}/environmentVariable", {"key": "A", "value": "mine"})
    world.engine.output = written({"A": "1"})
    job = await ready_job(world, environment, schedule=events("on_start"))
    assert await variables(world, environment) == {"A": "mine"}
    assert await outputs(world, job) == {"A": "1"}


async def test_two_jobs_of_one_environment_have_outputs_of_the_same_name(world: World) -> None:
    environment, _, first, app = await environment_with(world, "on_start")
    world.engine.output = written({"A": "1"})
    assert (await deployed(world, first))["status"] == "SUCCEEDED"
    world.engine.output = written({"A": "2"})
    second = await ready_job(world, environment, schedule=events("on_start"))
    # A name changes nothing: keys have the id of the job.
    assert (await world.patch(f"/job/{second}", {"name": "another"})).status == 200
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    found = world.engine.running[app].variables
    assert (found[named(first, "A")], found[named(second, "A")]) == ("1", "2")


async def test_outputs_are_those_of_the_last_run_that_wrote_an_output_file(world: World) -> None:
    world.engine.output = written({"A": "1", "B": "1"})
    job = await ready_job(world, schedule=events("on_start"))
    assert (await runs(world, job))[0]["output_variables"] == [named(job, "A"), named(job, "B")]
    for output, expected in ((b"", {"A": "1", "B": "1"}), (written({"B": 2}), {"B": "2"}), (b"{}", {})):
        world.engine.output = output
        assert (await deployed(world, job))["status"] == "SUCCEEDED"
        assert await outputs(world, job) == expected


async def test_outputs_of_a_failed_run_change_nothing(world: World) -> None:
    programs = Programs(world)
    world.engine.output = written({"A": "1"})
    job = await ready_job(world, schedule=events("on_start"))
    programs.codes, world.engine.output = [3], written({"A": "2"})
    assert (await deployed(world, job))["status"] == "FAILED"
    assert await outputs(world, job) == {"A": "1"}


async def test_a_sensitive_output_is_a_secret(world: World) -> None:
    environment, _, job, app = await environment_with(world, "on_start")
    world.engine.output = written({"KEY": "s3cret-of-the-shop"}, sensitive=True)
    await asked(world, environment, "deploy")
    assert await outputs(world, job) == {}
    assert list(await outputs(world, job, "secret")) == ["KEY"]
    secrets = await world.get(f"/compat/application/{app}/secret?page_size=1000")
    injected = await world.get(f"/application/{app}/injectedVariable")
    assert "s3cret" not in str(secrets.json) + str(injected.json)
    workload = world.engine.running[app]
    assert workload.variables[named(job, "KEY")] == "s3cret-of-the-shop"
    assert named(job, "KEY") in workload.hidden


async def test_an_output_with_a_secret_of_the_run_is_a_secret(world: World) -> None:
    """Its negative control is the other output."""
    environment = await world.environment()
    await world.made(f"/environment/{environment}/secret", {"key": "KEY", "value": "s3cret-of-the-shop"})
    world.engine.output = written({"ADDRESS": "https://s3cret-of-the-shop@shop.test", "PLAIN": "shop.test"})
    job = await ready_job(world, environment, schedule=events("on_start"))
    assert await outputs(world, job) == {"PLAIN": "shop.test"}
    assert list(await outputs(world, job, "secret")) == ["ADDRESS"]


async def test_a_variable_reference_in_an_output_is_not_resolved(world: World) -> None:
    environment, _, job, app = await environment_with(world, "on_start")
    await world.made(f"/environment/{environment}/secret", {"key": "STRIPE_KEY", "value": "s3cret"})
    world.engine.output = written({"A": "{{STRIPE_KEY}}"})
    text = {"key": "B", "value": f"{{{{{named(job, 'A')}}}}}"}
    await world.made(f"/application/{app}/environmentVariable", text)
    await asked(world, environment, "deploy")
    found = world.engine.running[app].variables
    assert (found[named(job, "A")], found["B"]) == ("{{STRIPE_KEY}}", "{{STRIPE_KEY}}")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (written({"A": "1", "a": "2"}), "Write a once to the output file"),
        (written({"A-B": "1", "A_B": "2"}), "Write A_B once to the output file"),
        (written({"A": "x\0y"}), "Write no NUL to the output file"),
        (written(dict.fromkeys("ABC", "x" * 60_000)), "Write less to the output file"),
        (written({f"A{number}": "" for number in range(201)}), "Write less to the output file"),
    ],
)
async def test_an_output_file_with_invalid_names_or_values_fails_the_run(
    world: World, output: bytes, message: str
) -> None:
    world.engine.output = output
    job = await new_job(world, schedule=events("on_start"))
    deployment = await deployed(world, job)
    assert (deployment["status"], message in deployment["message"]) == ("FAILED", True)
    assert await outputs(world, job) == {}


async def test_a_run_with_another_command_sets_no_outputs(world: World) -> None:
    programs = Programs(world)
    job = await ready_job(world, schedule=events("on_start"))
    world.engine.output = written({"A": "1"})
    for body, expected in (({"arguments": ["other"]}, {}), ({}, {"A": "1"})):
        run = await world.post(f"/job/{job}/run", body)
        await world.settle()
        assert (await world.get(f"/job/{job}/run/{run['id']}"))["status"] == "SUCCEEDED"
        assert programs.started[-1].writes_output is bool(expected)
        assert await outputs(world, job) == expected


@pytest.mark.parametrize("sensitive", [False, True])
async def test_a_cloned_environment_has_the_outputs_and_their_aliases(world: World, sensitive: bool) -> None:
    environment, _, job, _ = await environment_with(world, "on_start")
    kind = "secret" if sensitive else "environmentVariable"
    world.engine.output = written({"A": "1"}, sensitive=sensitive)
    await asked(world, environment, "deploy")
    listed = await world.get(f"/compat/environment/{environment}/{kind}?page_size=1000")
    id = next(row["id"] for row in listed["results"] if row["key"] == named(job, "A", "QOVERY_"))
    alias = await world.post(f"/environment/{environment}/{kind}/{id}/alias", {"key": "OF_JOB"})
    assert alias.status == 201
    text = {"key": "MENTIONS", "value": f"{{{{{named(job, 'A')}}}}}"}
    await world.made(f"/environment/{environment}/environmentVariable", text)
    copy = (await world.post(f"/environment/{environment}/clone", {"name": "copy"}))["id"]
    (copied_job,) = (await world.get(f"/environment/{copy}/job"))["results"]
    (app,) = (await world.get(f"/environment/{copy}/application"))["results"]
    for value, output in (("1", b""), ("2", written({"A": "2"}, sensitive=sensitive))):
        world.engine.output = output
        await asked(world, copy, "deploy")
        found = world.engine.running[app["id"]].variables
        keys = ("OF_JOB", "MENTIONS", named(copied_job["id"], "A"))
        assert [found[key] for key in keys] == [value] * 3


async def test_outputs_and_their_aliases_go_with_the_job(world: World) -> None:
    environment, _, job, app = await environment_with(world, "on_start")
    world.engine.output = written({"A": "1"})
    await asked(world, environment, "deploy")
    listed = await world.get(f"/compat/application/{app}/environmentVariable?page_size=1000")
    id = next(row["id"] for row in listed["results"] if row["key"] == named(job, "A", "QOVERY_"))
    assert (
        await world.post(f"/application/{app}/environmentVariable/{id}/alias", {"key": "B"})
    ).status == 201
    assert (await world.delete(f"/job/{job}")).status == 204
    await world.settle()
    assert "B" not in {
        row["key"] for row in (await world.get(f"/application/{app}/environmentVariable"))["results"]
    }
    assert await world.installation.ctx.store.reads.job_outputs.get(job) is None


@pytest.mark.parametrize("most", [2000, job_outputs.MAX_OUTPUTS_BYTES_OF_ENVIRONMENT])
async def test_the_outputs_of_all_jobs_of_an_environment_are_limited_together(
    world: World, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Each service of the environment gets all of them, and lists of variables read them."""
    monkeypatch.setattr(job_outputs, "MAX_OUTPUTS_BYTES_OF_ENVIRONMENT", most)
    environment, other = await world.environment(), await world.environment()
    world.engine.output = written({"A": "x" * 1000})
    first, second = [await new_job(world, environment, schedule=events("on_start")) for _ in range(2)]
    for _ in range(2):
        assert (await deployed(world, first))["status"] == "SUCCEEDED"
    run = await deployed(world, second)
    is_limited = most == 2000
    assert run["status"] == ("FAILED" if is_limited else "SUCCEEDED")
    assert ("outputs of all jobs" in str(run)) is is_limited
    copy = {"name": "copy", "environment_id": environment}
    assert (await world.post(f"/job/{first}/clone", copy)).status == (409 if is_limited else 202)
    assert (await world.post(f"/job/{first}/clone", copy | {"environment_id": other})).status == 202
