"""The Docker engine starts instances with their limits, files, networks and volumes."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import nullcontext, suppress

import pytest

from tests.docker.watched import (
    FOREVER,
    SECONDS,
    again,
    nothing_left,
    restarted,
    seen,
    until,
    wanted,
)
from tests.engines.dockers import BOX, build
from windlass.docker import names as words
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.engine import DockerEngine
from windlass.docker.execute import execute
from windlass.docker.inspection import CUT_OFF
from windlass.docker.resources import DockerResources
from windlass.engines.engine import UNKNOWN_LIMITS, EngineError, InstanceEnded, NotReady
from windlass.engines.workload import (
    Artifact,
    Phase,
    Volume,
    WorkloadPort,
)

pytestmark = pytest.mark.slow


async def test_an_instance_has_only_the_capabilities_that_official_images_need(engine):
    it = await engine.run(wanted(), 0)
    code, status = await engine.execute(it, ["cat", "/proc/1/status"], 10)
    assert code == 0
    facts = dict(line.split(":\t") for line in status.splitlines())
    assert int(facts["CapBnd"], 16) == sum(1 << number for number in (0, 1, 3, 5, 6, 7, 10))
    assert facts["NoNewPrivs"] == "1"


async def test_an_engine_reads_its_resource_limits_and_refuses_workloads_above_them(engine, raw):
    machine = await raw.json("GET", "/info")
    await until(lambda: engine.limits != UNKNOWN_LIMITS)
    assert engine.limits.cpu == machine["NCPU"] * 1000
    learned = engine.limits
    for unmet in ({"cpu": learned.cpu + 1}, {"cpu": 9}, {"memory": 5}):
        (field,) = unmet
        with pytest.raises(EngineError, match=f"{field}: must be at "):
            await engine.run(wanted(**unmet), 0)
        # The limits are those of Docker itself.
        engine.limits = UNKNOWN_LIMITS
        with pytest.raises(EngineError, match="the Docker engine refuses"):
            await engine.run(wanted(**unmet), 0)
        engine.limits = learned


async def test_an_instance_has_processor_memory_process_and_log_limits(engine, raw):
    it = await engine.run(wanted(cpu=250, memory=48), 0)
    limits = (await raw.json("GET", f"/containers/{it.id}/json"))["HostConfig"]
    assert limits["NanoCpus"] == 250_000_000
    assert limits["Memory"] == limits["MemorySwap"] == 48 * 1024 * 1024
    assert limits["PidsLimit"] == 2048
    assert limits["OomScoreAdj"] == 400
    assert limits["LogConfig"]["Config"]["max-size"]


async def test_an_instance_that_exceeds_its_memory_is_restarted_with_the_reason(engine):
    it = wanted("sleep 0.5; tail /dev/zero", memory=16)
    await engine.run(it, 0)
    found = await seen(engine, it.service, lambda each: "memory" in each.reason)
    assert found.reason == "was killed: out of memory (it may use 16 MB)"
    assert found.exit_code == 137
    await seen(engine, it.service, lambda each: each.restarts > 0)


async def test_an_ended_instance_is_restarted_and_keeps_the_reason(engine, watched):
    it = wanted("[ -e /tmp/second ] || { touch /tmp/second; exit 3; }; " + FOREVER)
    await engine.run(it, 0)
    found = await seen(engine, it.service, lambda each: each.restarts == 1 and each.phase is Phase.RUNNING)
    await until(lambda: watched.noticed.count(it.service) >= 2)
    found = await seen(engine, it.service, lambda each: each.exit_code == 3)
    assert found.reason == "exited with code 3"


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_version_does_not_fail_because_somebody_stopped_its_container_while_it_started(
    engine, raw, is_stopped
):
    """The control is a program that ends itself with the same signal."""
    it = wanted(FOREVER if is_stopped else "sleep 1; kill -9 0", settle=4.0)
    await engine.apply(it, 1)
    waiting = asyncio.create_task(engine.wait_until_ready(it, 1))
    if is_stopped:
        (copy,) = await engine.copies(it.service)
        await raw.raw("POST", f"/containers/{copy.id}/stop", params={"t": 0})
    with nullcontext() if is_stopped else pytest.raises(NotReady, match="while it was starting"):
        await waiting
    await engine.remove(it.service)


async def test_connections_of_an_ended_instance_are_not_taken_for_unseen_ones(engine, raw):
    found = await engine.run(wanted(), 0)
    assert await engine.queued(found, 8080) is None  # the control: it runs, and listens nowhere
    await raw.raw("POST", f"/containers/{found.id}/stop", params={"t": 0})
    with pytest.raises(InstanceEnded):
        await engine.queued(found, 8080)


async def test_services_reach_each_other_by_name_only_within_their_environment(engine):
    page = "mkdir /tmp/www; echo hello > /tmp/www/index.html; httpd -f -p 8000 -h /tmp/www"
    shop = wanted(page, name="Böok Shop!", known_as="book-shop")
    await engine.run(shop, 0)
    friend = await engine.run(wanted(environment=shop.environment), 0)
    stranger = await engine.run(wanted(), 0)
    address = await engine.neighbour_address(shop.environment, shop.service, shop.name, 8000)
    sure, port = address.host, address.port
    for name in ("book-shop", sure):
        asks = ["wget", "-qO-", f"http://{name}:{port}/"]
        assert await engine.execute(friend, asks, 20) == (0, "hello\n")
        assert (await engine.execute(stranger, asks, 20))[0] != 0


async def test_a_published_port_is_reached_on_this_machine_alone(engine, raw):
    it = wanted(
        "httpd -f -p $PORT -h /etc",
        ports=(
            WorkloadPort(name="web", internal=8123),
            WorkloadPort(name="dns", internal=53, protocol="UDP"),
        ),
    )
    found = await engine.run(it, 0)
    assert set(found.ports) == {8123, 53}
    bound = (await raw.json("GET", f"/containers/{found.id}/json"))["NetworkSettings"]["Ports"]
    assert {each["HostIp"] for each in bound["8123/tcp"]} == {"127.0.0.1"}
    async with asyncio.timeout(SECONDS):
        while True:
            reader, writer = await asyncio.open_connection(found.address, found.ports[8123])
            writer.write(b"GET /passwd HTTP/1.0\r\n\r\n")
            answer = b""
            with suppress(ConnectionResetError):  # by Docker's proxy: nothing listens behind it yet
                answer = await reader.read()
            writer.close()
            if answer:
                break
    assert b"200 OK" in answer


async def test_files_and_variables_are_in_place_before_the_program_starts(engine, watched):
    it = wanted(
        f"cat /etc/app/config; cat /etc/second; echo $GREETING $WHO; {FOREVER}",
        files={"/etc/app/config": b"one\n", "etc/second": b"two\n"},
        artifact=Artifact(kind="image", ref=BOX, environment={"GREETING": "hello", "WHO": "nobody"}),
        variables={"WHO": "world"},
    )
    await engine.run(it, 0)
    await until(lambda: len(watched.lines) == 3)
    assert watched.said() == ["one", "two", "hello world"]


async def test_a_user_without_rights_can_read_files(engine, watched, raw):
    it = wanted("su shop -c 'cat /etc/secret'; " + FOREVER, files={"/etc/secret": b"seen\n"})
    await engine.run(it, 0)
    await until(lambda: watched.said() == ["seen"])


async def test_the_files_in_the_volumes_of_a_service_are_measured(engine):
    it = wanted(volumes=(Volume(name="data", mount="/data"),))
    instance = await engine.run(it, 0)
    before = (await engine.volume_sizes())[it.service]
    code, _ = await engine.execute(instance, ["sh", "-c", "head -c 3145728 /dev/zero > /data/zeros"], 30)
    assert code == 0
    assert (await engine.volume_sizes())[it.service] - before >= 3 << 20
    # Docker gives no size for a volume with a longer path than the kernel takes at once.
    hides = "cd /data; for i in $(seq 60); do mkdir $N; cd $N; done; head -c 3145728 /dev/zero > hidden"
    code, _ = await engine.execute(instance, ["sh", "-c", f"N=$(printf %0120d 1); {hides}"], 30)
    assert code == 0
    assert (await engine.volume_sizes())[it.service] - before >= 6 << 20


@pytest.mark.nightly
async def test_a_volume_outlives_instances_and_ends_with_the_service(engine, raw):
    it = wanted(volumes=(Volume(name="my data", mount="/data"), Volume(name="my-data", mount="/other")))
    first = await engine.run(it, 0)
    await engine.execute(first, ["sh", "-c", "echo kept > /data/file"], 10)
    await engine.remove(it.service, grace=0)
    second = await engine.run(again(it, generation=2), 0)
    assert await engine.execute(second, ["sh", "-c", "cat /data/file; ls /other"], 10) == (0, "kept\n")
    await engine.discard(it.service)
    filters = {"label": [f"windlass.service={it.service}"]}
    assert not (await raw.json("GET", "/volumes", params={"filters": filters}))["Volumes"]


async def test_a_docker_network_exists_until_the_last_service_of_its_environment_is_discarded(engine, raw):
    first = wanted()
    second = wanted(environment=first.environment)
    for it in (first, second):
        await engine.run(it, 0)
    filters = {"label": [f"windlass.environment={first.environment}"]}
    await engine.discard(first.service)
    assert len(await raw.json("GET", "/networks", params={"filters": filters})) == 1
    await engine.discard(second.service)
    assert not await raw.json("GET", "/networks", params={"filters": filters})


async def test_an_instance_whose_network_was_removed_is_noticed_and_created_again(engine, watched, raw):
    it = wanted()
    first = await engine.run(it, 0)
    network = words.network(watched.installation, it.environment)
    watched.noticed.clear()
    await raw.raw("POST", f"/networks/{network}/disconnect", body={"Container": first.id, "Force": True})
    await raw.raw("DELETE", f"/networks/{network}")
    await until(lambda: it.service in watched.noticed)
    [cut_off] = await engine.copies(it.service)
    assert (cut_off.phase, cut_off.reason) == (Phase.EXITED, CUT_OFF)
    assert [presence.is_running for presence in await engine.present()] == [False]
    second = await engine.run(it, 0)
    assert second.phase is Phase.RUNNING
    assert second.started_at > first.started_at
    assert second.inside


async def test_a_job_whose_network_was_removed_is_not_run_twice(engine, watched, raw):
    it = wanted("echo began; sleep 2; echo ended")
    job = asyncio.create_task(engine.once(it))
    await until(lambda: watched.said() == ["began"])
    network = words.network(watched.installation, it.environment)
    container = words.container(watched.installation, it.service, it.generation, 0)
    await raw.raw("POST", f"/networks/{network}/disconnect", body={"Container": container, "Force": True})
    await raw.raw("DELETE", f"/networks/{network}")
    again = await engine.once(it)  # as after a start of the server
    assert (await job).exit_code == again.exit_code == 0
    assert watched.said() == ["began", "ended"]


async def test_a_network_in_use_by_a_start_is_not_removed_and_blocks_no_other_start(raw):
    place, environment = DockerResources(raw, f"test-{uuid.uuid4()}"), str(uuid.uuid4())
    it = wanted(environment=environment)
    async with place.network(it) as network:
        async with asyncio.timeout(SECONDS), place.network(it) as same:
            assert same == network
        await place.discard_networks()
        assert (await raw.json("GET", f"/networks/{network}"))["Id"] == network
    await place.discard_networks()  # it is empty, and no process is about to write to it
    with pytest.raises(EngineRefused):
        await raw.json("GET", f"/networks/{network}")


@pytest.mark.nightly
async def test_concurrent_starts_of_the_same_instance_by_two_servers_create_one_container(host, make_engine):
    one = make_engine(host)
    other = make_engine(host, one.installation)
    it = wanted()
    found = await asyncio.gather(*(each.engine.run(it, 0) for each in (one, other) for _ in range(3)))
    assert len({(each.id, each.started_at) for each in found}) == 1
    assert len(await one.engine.copies(it.service)) == 1
    await other.engine.stop()
    await nothing_left(one)


async def test_a_container_that_was_created_and_never_started_is_started_with_its_files(engine, watched, raw):
    it = wanted("cat /etc/secret; " + FOREVER, files={"/etc/secret": b"all here\n"})
    labels = {**await labels_of(engine, raw), "windlass.service": it.service}
    half = {"Image": BOX, "Cmd": list(it.command), "Labels": labels}
    name = words.container(labels["windlass.installation"], it.service, 1, 0)
    await raw.json("POST", "/containers/create", params={"name": name}, body=half)
    assert [each.phase for each in await engine.copies(it.service)] == [Phase.WAITING]
    assert (await engine.run(it, 0)).phase is Phase.RUNNING
    await until(lambda: watched.said() == ["all here"])


async def labels_of(engine: DockerEngine, raw: Docker) -> dict[str, str]:
    other = await engine.run(wanted(), 0)
    return dict((await raw.json("GET", f"/containers/{other.id}/json"))["Config"]["Labels"])


async def test_a_container_that_the_engine_is_still_making_is_waited_for(engine, monkeypatch):
    """Its name is taken, and nothing is found under it yet, as after a call that was cut off."""
    to_the_engine = Docker.json
    until = asyncio.get_running_loop().time() + 0.4

    async def json(docker, method, path, **given):
        if path == "/containers/create" and asyncio.get_running_loop().time() < until:
            raise EngineRefused(409, "Conflict. The container name is already in use")
        return await to_the_engine(docker, method, path, **given)

    monkeypatch.setattr(Docker, "json", json)
    assert (await engine.run(wanted(), 0)).phase is Phase.RUNNING


FALSE_LABELS = "LABEL exitCode=abc traefik.enable=true windlass.generation=x"
CRASHING = "[ -e /tmp/second ] || { touch /tmp/second; exit 3; }; " + FOREVER


@pytest.fixture
async def labelled(raw):
    """An image with labels that resemble what an engine says of its containers."""
    ref = f"windlass-test/labelled-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": f"FROM {BOX}\n{FALSE_LABELS}\n"})
    yield ref
    await raw.raw("DELETE", f"/images/{ref}", params={"force": True})


async def test_labels_of_an_image_stop_no_watch_and_reach_no_other_tool(engine, watched, raw, labelled):
    poisoned, other = wanted(CRASHING, artifact=Artifact(kind="image", ref=labelled)), wanted(CRASHING)
    it = await engine.run(poisoned, 0)
    await restarted(raw, poisoned.service)
    await engine.run(other, 0)
    found = await seen(engine, other.service, lambda each: each.exit_code == 3)
    assert found.reason == "exited with code 3"
    assert watched.noticed.count(poisoned.service) >= 2
    container = await raw.json("GET", f"/containers/{it.id}/json")
    assert container["Config"]["Labels"]["traefik.enable"] == ""


@pytest.mark.nightly
async def test_without_cleared_labels_an_image_could_forge_its_exit_code(raw, labelled):
    body = {"Image": labelled, "Cmd": ["sh", "-c", "exit 3"]}
    container = (await raw.json("POST", "/containers/create", body=body))["Id"]
    await raw.raw("POST", f"/containers/{container}/start")
    await raw.raw("POST", f"/containers/{container}/wait")
    query = {"filters": {"container": [container], "event": ["die"]}, "since": "1"}
    async with raw.stream("GET", "/events", params=query) as answer:
        said = (await anext(answer.events()))["Actor"]["Attributes"]
    assert said["exitCode"] == "abc"
    assert said["traefik.enable"] == "true"
    await raw.raw("DELETE", f"/containers/{container}")


CHECKED = "HEALTHCHECK --interval=1ms --timeout=1s CMD echo checked >>/tmp/checks"


@pytest.fixture
async def checked(raw):
    """An image whose check the engine starts again and again, which takes it far more time than the check."""
    ref = f"windlass-test/checked-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": f"FROM {BOX}\n{CHECKED}\n"})
    yield ref
    await raw.raw("DELETE", f"/images/{ref}", params={"force": True})


async def test_the_health_check_of_an_image_is_not_executed(engine, raw, checked):
    it = await engine.run(wanted(artifact=Artifact(kind="image", ref=checked)), 0)
    await asyncio.sleep(1)
    container = await raw.json("GET", f"/containers/{it.id}/json")
    assert "Health" not in container["State"]
    code, said = await engine.execute(it, ("cat", "/tmp/checks"), 5.0)
    assert (code, "checked" in said) == (1, False)


@pytest.mark.nightly
async def test_without_disabling_it_the_engine_runs_the_images_health_check(raw, checked):
    body = {"Image": checked, "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": "none"}}
    container = (await raw.json("POST", "/containers/create", body=body))["Id"]
    try:
        await raw.raw("POST", f"/containers/{container}/start")
        await asyncio.sleep(3)
        code, said = await execute(raw, container, ("cat", "/tmp/checks"), 5.0)
        assert (code, said.count("checked") > 5) == (0, True)
    finally:
        await raw.raw("DELETE", f"/containers/{container}", params={"force": True})
