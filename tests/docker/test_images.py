"""The Docker engine takes, pulls and refuses images; commands, usage and ends of instances."""

from __future__ import annotations

import asyncio

import pytest

from tests.docker.watched import FOREVER, SECONDS, again, nothing_left, seen, until, wanted
from tests.engines.dockers import BOX
from tests.marks import nightly
from windlass.docker.client.client import Pace
from windlass.docker.execute import TIMED_OUT
from windlass.engines.engine import UNKNOWN_LIMITS, ArtifactLost, EngineError
from windlass.engines.workload import (
    Artifact,
    Phase,
    Volume,
)

pytestmark = pytest.mark.slow


async def test_a_missing_built_image_is_not_requested_from_a_registry(engine):
    it = wanted(artifact=Artifact(kind="image", ref="windlass/shop:abc"))
    with pytest.raises(
        ArtifactLost, match="Deploy again: the image of this release is no longer on the Docker engine"
    ):
        await engine.run(it, 0)
    assert await engine.copies(it.service) == []


async def test_an_instance_above_the_limits_of_the_machine_is_refused_and_leaves_nothing(engine):
    await until(lambda: engine.limits != UNKNOWN_LIMITS)
    it = wanted(cpu=1_000_000)
    with pytest.raises(EngineError, match="cpu: must be at most"):
        await engine.run(it, 0)
    assert await engine.copies(it.service) == []


async def test_an_instance_that_docker_refuses_is_an_error_and_leaves_nothing(engine):
    await until(lambda: engine.limits != UNKNOWN_LIMITS)
    engine.limits = UNKNOWN_LIMITS  # as if the machine had not told them yet
    it = wanted(cpu=1_000_000)
    with pytest.raises(EngineError, match="CPUs"):
        await engine.run(it, 0)
    assert await engine.copies(it.service) == []


async def test_an_image_with_an_unknown_user_is_refused_with_advice(engine, raw):
    name = "windlass-test/shopper"
    made = (await raw.json("POST", "/containers/create", body={"Image": BOX, "Cmd": ["true"]}))["Id"]
    params = {"container": made, "repo": name, "tag": "1", "changes": "USER shopper"}
    await raw.json("POST", "/commit", params=params)
    try:
        with pytest.raises(EngineError, match=r"^Correct USER in the Dockerfile, or add the user shopper"):
            await engine.run(wanted(artifact=Artifact(kind="image", ref=f"{name}:1")), 0)
        assert await engine.all() == []
    finally:
        await raw.raw("DELETE", f"/containers/{made}")
        await raw.raw("DELETE", f"/images/{name}:1")


async def test_an_image_that_cannot_be_pulled_says_what_to_do_and_nothing_runs(engine):
    said: list[str] = []
    with pytest.raises(EngineError, match=r"Check the host of localhost:1/none:1, .*does not answer"):
        await engine.prepare(Artifact(kind="image", ref="localhost:1/none:1"), said.append)
    assert said == ["Pulling localhost:1/none:1"]
    assert await engine.all() == []


async def test_an_image_reference_by_id_is_refused(engine, raw):
    """It could be anybody's: those that were built for other services have ids, too."""
    id = (await raw.json("GET", f"/images/{BOX}/json"))["Id"]
    for ref in (id, id[:13]):
        assert (await raw.json("GET", f"/images/{ref}/json"))["Id"] == id
        with pytest.raises(EngineError, match="Name the image by its name and tag"):
            await engine.prepare(Artifact(kind="image", ref=ref), lambda line: None)


async def test_an_image_present_on_the_engine_is_not_pulled(engine):
    said: list[str] = []
    await engine.prepare(Artifact(kind="image", ref=BOX), said.append)
    assert said == []


async def test_a_missing_command_is_reported_as_exit_code_127(engine, watched):
    it = wanted(command=("no-such-program",))
    await engine.run(it, 0)
    found = await seen(engine, it.service, lambda each: each.exit_code is not None)
    assert found.reason == "exited with code 127: the command was not found"
    await until(lambda: any("no-such-program" in line for line in watched.said()))


async def test_an_image_with_its_own_init_runs_it_as_process_1(engine):
    plain = await engine.run(wanted(), 0)
    own = await engine.run(wanted(entrypoint=("init",), command=()), 0)
    first = ["cat", "/proc/1/cmdline"]
    assert (await engine.execute(own, first, 10))[1].rstrip("\0") == "init"
    assert "docker-init" in (await engine.execute(plain, first, 10))[1]


async def test_a_delayed_start_of_a_replaced_generation_is_refused(engine, watched):
    old = wanted()
    new = again(old, generation=2)
    await engine.run(old, 0)
    await engine.run(new, 0)
    await engine.remove(old.service, generation=1, grace=0)
    with pytest.raises(EngineError, match="was removed"):
        await engine.run(old, 0)
    await watched.begin_anew()
    with pytest.raises(EngineError, match="was removed"):
        await watched.engine.run(old, 0)
    assert [each.generation for each in await watched.engine.copies(old.service)] == [2]


async def test_after_removing_a_failed_release_the_older_generation_can_still_be_scaled(engine):
    old = wanted()
    new = again(old, generation=2)
    for it in (old, new):
        await engine.run(it, 0)
    await engine.remove(old.service, generation=2, grace=0)
    assert (await engine.run(old, 1)).phase is Phase.RUNNING


async def test_resources_of_another_installation_on_the_engine_are_not_touched(host, make_engine, engine):
    other = make_engine(host)
    it = wanted(volumes=(Volume(name="data", mount="/data"),))
    await other.engine.run(it, 0)
    await engine.sweep(await engine.services())
    await engine.discard(it.service)
    await engine.remove(it.service)
    assert await engine.copies(it.service) == []
    assert [each.phase for each in await other.engine.all()] == [Phase.RUNNING]
    await nothing_left(other)


async def test_a_container_made_by_hand_of_a_built_image_is_no_instance(engine, watched, raw):
    """It inherits the labels of the image, and must neither be counted nor ended nor confuse anybody."""
    it = wanted()
    labels = {"windlass.installation": watched.installation, "windlass.service": it.service}
    made = await raw.json(
        "POST", "/containers/create", body={"Image": BOX, "Labels": labels, "Cmd": ["sleep", "60"]}
    )
    try:
        await raw.json("POST", f"/containers/{made['Id']}/start")
        assert await engine.copies(it.service) == []
        await engine.sweep(await engine.services())
        state = (await raw.json("GET", f"/containers/{made['Id']}/json"))["State"]
        assert state["Running"]
    finally:
        await raw.json("DELETE", f"/containers/{made['Id']}", params={"force": True})


async def test_an_executed_command_is_killed_after_its_timeout(engine):
    it = await engine.run(wanted("sleep 1000"), 0)
    code, output = await engine.execute(it, ["sh", "-c", "echo begun; sleep 4321"], 1)
    assert code != 0
    assert "begun" in output
    assert "did not end within 1 s" in output
    assert "4321" not in (await engine.execute(it, ["ps"], 10))[1]


@pytest.mark.parametrize("waits", [True, *nightly(False)])
async def test_a_command_that_writes_without_end_is_read_slowly(engine, monkeypatch, waits):
    read, keep = [0], Pace.keep

    async def keep_pace(pace: Pace, count: int) -> None:
        read[0] += count
        if waits:  # the control reads as fast as it can
            await keep(pace, count)

    monkeypatch.setattr(Pace, "keep", keep_pace)
    it = await engine.run(wanted("sleep 1000", cpu=1000), 0)
    code, _ = await engine.execute(it, ["yes", "x" * 100], 3)
    assert code == TIMED_OUT
    assert (read[0] < 6 << 20) is waits


async def test_executing_a_command_in_a_removed_instance_fails(engine):
    it = await engine.run(wanted(), 0)
    await engine.remove(it.service, grace=0)
    with pytest.raises(EngineError, match="does not run"):
        await engine.execute(it, ["true"], 10)


async def test_usage_reports_processor_time_and_memory_of_an_instance(engine):
    busy = await engine.run(wanted("while true; do :; done", cpu=500), 0)
    async with asyncio.timeout(SECONDS):
        while (await engine.usage())[busy.id].cpu_ms < 100:  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0.05)
    assert (await engine.usage())[busy.id].memory > 0


async def test_usage_can_be_asked_for_while_instances_come_and_go(engine):
    async def come_and_go() -> None:
        for it in (wanted(), wanted()):
            await engine.run(it, 0)
            await engine.remove(it.service, grace=0)

    coming_and_going = asyncio.gather(come_and_go(), come_and_go())
    while not coming_and_going.done():
        await engine.usage()
    await coming_and_going


async def test_an_instance_gets_sigterm_before_it_is_killed(engine, watched):
    it = wanted("trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.1; done")
    await engine.run(it, 0)
    await until(lambda: watched.said() == ["up"])
    await engine.remove(it.service, grace=20)
    assert watched.said() == ["up", "bye"]


async def test_a_container_start_requested_by_windlass_sends_no_event_notice(watched, raw):
    it = wanted(FOREVER)
    made = await watched.engine.run(it, 0)
    # Events come in order: once this one is heard, that of the start has been.
    await raw.raw("POST", f"/containers/{made.id}/pause")
    await until(lambda: bool(watched.noticed))
    assert watched.noticed == [it.service]


async def test_stopping_the_engine_client_ends_all_followers(watched):
    it = wanted("echo up; " + FOREVER)
    await watched.engine.run(it, 0)
    await until(lambda: bool(watched.said()))
    await watched.engine.remove(it.service, grace=0)
    while len(watched.noticed) < 2:  # noqa: ASYNC110 (it ended, and is gone: who listens has yet to find out)
        await asyncio.sleep(0)
    await watched.engine.stop()
    listening = [task for task in asyncio.all_tasks() if "Follower" in repr(task.get_coro())]
    assert listening == []
