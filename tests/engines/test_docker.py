"""The Docker engine: what it promises beyond what every engine does, tried on a real one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.conformance import Conformance
from tests.engines.dockers import BOX, DockerRig, docker_host, own_engine
from tests.engines.proxies import proxied
from windlass.core.deploy.workload import (
    Artifact,
    Instance,
    OutputLine,
    Phase,
    Volume,
    Workload,
    WorkloadPort,
)
from windlass.docker import Docker, EngineRefused
from windlass.engines.docker import DockerEngine
from windlass.engines.docker import names as words
from windlass.engines.docker.resources import DockerResources
from windlass.engines.engine import EngineAway, EngineError

FOREVER = "while true; do sleep 1; done"
SECONDS = 30.0


class Watched:
    """A Docker engine, and what it told."""

    def __init__(self, host: str, folder: Path, installation: str) -> None:
        self.host = host
        self.folder = folder
        self.installation = installation
        self.lines: list[OutputLine] = []
        self.noticed: list[str] = []
        self.engine = self._made()

    async def begin(self) -> None:
        await self.engine.start(self.noticed.append, lambda _, lines: self.lines.extend(lines))

    async def begin_anew(self) -> None:
        """As after a restart of Windlass."""
        await self.engine.stop()
        self.engine = self._made()
        await self.begin()

    def said(self) -> list[str]:
        return [line.message for line in self.lines]

    def _made(self) -> DockerEngine:
        return DockerEngine(host=self.host, folder=self.folder, installation=self.installation)


@pytest.fixture(scope="module")
def host():
    return docker_host()


@pytest.fixture(scope="module")
def dockerd():
    """An engine that may be killed."""
    with own_engine() as made:
        yield made


@pytest.fixture
def make_engine(tmp_path):
    """Engines of one test, with an installation of its own; nothing of it is there afterwards."""
    made: list[Watched] = []

    def make(host: str, installation: str = "") -> Watched:
        made.append(Watched(host, tmp_path / f"engine-{len(made)}", installation or f"test-{uuid.uuid4()}"))
        return made[-1]

    return make


@pytest.fixture
async def watched(host, make_engine):
    made = make_engine(host)
    await made.begin()
    yield made
    await nothing_left(made)


@pytest.fixture
def engine(watched):
    return watched.engine


@pytest.fixture
async def raw(host):
    """The engine, asked without Windlass."""
    docker = Docker(host)
    yield docker
    await docker.close()


async def nothing_left(watched: Watched) -> None:
    await watched.engine.sweep(await watched.engine.services())
    filters = {"label": [f"windlass.installation={watched.installation}"]}
    docker = Docker(watched.host)
    try:
        for path in ("/containers/json", "/networks", "/volumes"):
            left = await docker.json("GET", path, params={"filters": filters, "all": True})
            assert not (left["Volumes"] if path == "/volumes" else left)
    finally:
        await docker.close()
        await watched.engine.stop()


def wanted(script: str = FOREVER, **given: Any) -> Workload:
    service = str(uuid.uuid4())
    return Workload(
        **{
            "service": service,
            "family": "application",
            "name": f"Shop {service[:4]}",
            "environment": str(uuid.uuid4()),
            "org": "acme",
            "generation": 1,
            "deployment": "d1",
            "artifact": Artifact(kind="image", ref=BOX),
            "command": ("sh", "-c", script),
            "memory": 64,
            "grace": 0.0,
            **given,
        }
    )


def again(it: Workload, **given: Any) -> Workload:
    """The same service, otherwise."""
    return Workload(**{**{name: getattr(it, name) for name in it.__struct_fields__}, **given})


async def until(true: Callable[[], Any]) -> Any:
    """Waits for what must come; the time is only there so that a failure ends."""
    async with asyncio.timeout(SECONDS):
        while not (found := true()):  # noqa: ASYNC110 (what is waited for happens elsewhere)
            await asyncio.sleep(0.02)
    return found


async def seen(engine: DockerEngine, service: str, fits: Callable[[Instance], bool]) -> Instance:
    async with asyncio.timeout(SECONDS):
        while True:
            for instance in await engine.copies(service):
                if fits(instance):
                    return instance
            await asyncio.sleep(0.02)


async def test_an_instance_has_the_capabilities_that_official_images_need_and_no_more(engine):
    it = await engine.run(wanted(), 0)
    code, status = await engine.execute(it, ["cat", "/proc/1/status"], 10)
    assert code == 0
    facts = dict(line.split(":\t") for line in status.splitlines())
    assert int(facts["CapBnd"], 16) == sum(1 << number for number in (0, 1, 3, 5, 6, 7, 10))
    assert facts["NoNewPrivs"] == "1"


async def test_an_instance_has_its_limits(engine, raw):
    it = await engine.run(wanted(cpu=250, memory=48), 0)
    limits = (await raw.json("GET", f"/containers/{it.id}/json"))["HostConfig"]
    assert limits["NanoCpus"] == 250_000_000
    assert limits["Memory"] == limits["MemorySwap"] == 48 * 1024 * 1024
    assert limits["PidsLimit"] == 2048
    assert limits["LogConfig"]["Config"]["max-size"]


async def test_an_instance_that_takes_too_much_memory_is_started_anew_and_says_why(engine):
    it = wanted("sleep 0.5; tail /dev/zero", memory=16)
    await engine.run(it, 0)
    found = await seen(engine, it.service, lambda each: "memory" in each.reason)
    assert found.reason == "was killed: out of memory (it may use 16 MB)"
    assert found.exit_code == 137
    await seen(engine, it.service, lambda each: each.restarts > 0)


async def test_what_ends_is_started_anew_and_the_reason_is_known_while_it_runs_again(engine, watched):
    it = wanted("[ -e /tmp/second ] || { touch /tmp/second; exit 3; }; " + FOREVER)
    await engine.run(it, 0)
    found = await seen(engine, it.service, lambda each: each.restarts == 1 and each.phase is Phase.RUNNING)
    await until(lambda: watched.noticed.count(it.service) >= 2)
    found = await seen(engine, it.service, lambda each: each.exit_code == 3)
    assert found.reason == "exited with code 3"


async def test_services_of_one_environment_find_each_other_by_name_and_others_do_not(engine):
    page = "mkdir /tmp/www; echo hello > /tmp/www/index.html; httpd -f -p 8000 -h /tmp/www"
    shop = wanted(page, name="Böok Shop!", aliases=("app-z1",))
    await engine.run(shop, 0)
    friend = await engine.run(wanted(environment=shop.environment), 0)
    stranger = await engine.run(wanted(), 0)
    address = await engine.neighbour_address(shop.environment, shop.service, shop.name, 8000)
    sure, port = address.host, address.port
    for name in ("book-shop", "app-z1", sure):
        asks = ["wget", "-qO-", f"http://{name}:{port}/"]
        assert await engine.execute(friend, asks, 20) == (0, "hello\n")
        assert (await engine.execute(stranger, asks, 20))[0] != 0


async def test_of_two_names_that_resemble_each_other_the_first_service_keeps_its_own(engine, raw):
    first = wanted(name="my shop")
    second = wanted(name="My-Shop", environment=first.environment)
    for it in (first, second):
        await engine.run(it, 0)
    names = [await _names_of(engine, raw, it) for it in (first, second)]
    assert "my-shop" in names[0]
    assert "my-shop" not in names[1]
    address = await engine.neighbour_address(second.environment, second.service, second.name, 1)
    assert address.host in names[1]


async def test_of_two_that_begin_at_once_with_names_that_resemble_each_other_one_has_the_plain_name(
    engine, raw
):
    first = wanted(name="my shop")
    second = wanted(name="My-Shop", environment=first.environment)
    await asyncio.gather(engine.run(first, 0), engine.run(second, 0))
    names = [await _names_of(engine, raw, it) for it in (first, second)]
    assert ["my-shop" in each for each in names].count(True) == 1


async def _names_of(engine, raw, it) -> set[str]:
    (made,) = await engine.copies(it.service)
    said = await raw.json("GET", f"/containers/{made.id}/json")
    (network,) = said["NetworkSettings"]["Networks"].values()
    return set(network["Aliases"])


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
            answer = await reader.read()
            writer.close()
            if answer:
                break
    assert b"200 OK" in answer


async def test_files_and_variables_are_there_before_the_first_line_runs(engine, watched):
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


async def test_a_network_is_there_as_long_as_something_of_its_environment_is(engine, raw):
    first = wanted()
    second = wanted(environment=first.environment)
    for it in (first, second):
        await engine.run(it, 0)
    filters = {"label": [f"windlass.environment={first.environment}"]}
    await engine.discard(first.service)
    assert len(await raw.json("GET", "/networks", params={"filters": filters})) == 1
    await engine.discard(second.service)
    assert not await raw.json("GET", "/networks", params={"filters": filters})


async def test_a_network_into_which_something_is_just_being_put_does_not_go_away_and_holds_up_nobody(raw):
    place, environment = DockerResources(raw, f"test-{uuid.uuid4()}"), str(uuid.uuid4())
    async with place.network(environment) as network:
        async with asyncio.timeout(SECONDS), place.network(environment) as same:
            assert same == network
        await place.discard_networks()
        assert (await raw.json("GET", f"/networks/{network}"))["Id"] == network
    await place.discard_networks()  # nothing is in it, and nobody is about to put anything there
    with pytest.raises(EngineRefused):
        await raw.json("GET", f"/networks/{network}")


async def test_twins_that_run_the_same_instance_at_once_make_one(host, make_engine):
    one = make_engine(host)
    other = make_engine(host, one.installation)
    it = wanted()
    found = await asyncio.gather(*(each.engine.run(it, 0) for each in (one, other) for _ in range(3)))
    assert len({(each.id, each.started_at) for each in found}) == 1
    assert len(await one.engine.copies(it.service)) == 1
    await other.engine.stop()
    await nothing_left(one)


async def test_what_was_made_and_never_started_is_started_with_its_files(engine, watched, raw):
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


async def test_an_image_of_ours_that_is_gone_is_asked_of_no_registry(engine):
    it = wanted(artifact=Artifact(kind="image", ref="windlass/shop:abc"))
    with pytest.raises(EngineError, match="no longer on the Docker engine: deploy again"):
        await engine.run(it, 0)
    assert await engine.copies(it.service) == []


async def test_what_the_engine_cannot_start_is_an_error_and_leaves_nothing(engine):
    it = wanted(cpu=1_000_000)
    with pytest.raises(EngineError, match="CPUs"):
        await engine.run(it, 0)
    assert await engine.copies(it.service) == []


async def test_an_image_that_cannot_be_pulled_says_what_to_do_and_nothing_runs(engine):
    said: list[str] = []
    with pytest.raises(EngineError, match=r"Check the registry: that of localhost:1/none:1 does not answer"):
        await engine.prepare(Artifact(kind="image", ref="localhost:1/none:1"), said.append)
    assert said == ["Pulling localhost:1/none:1"]
    assert await engine.all() == []


async def test_an_image_is_not_taken_by_the_beginning_of_its_id(engine, raw):
    """It could be anybody's: those that were built for other services have ids, too."""
    id = (await raw.json("GET", f"/images/{BOX}/json"))["Id"]
    for ref in (id, id[:13]):
        assert (await raw.json("GET", f"/images/{ref}/json"))["Id"] == id
        with pytest.raises(EngineError, match="Name the image by its name and tag"):
            await engine.prepare(Artifact(kind="image", ref=ref), lambda line: None)


async def test_an_image_that_is_there_is_not_pulled(engine):
    said: list[str] = []
    await engine.prepare(Artifact(kind="image", ref=BOX), said.append)
    assert said == []


async def test_a_command_that_is_not_in_the_image_says_so(engine, watched):
    it = wanted(command=("no-such-program",))
    await engine.run(it, 0)
    found = await seen(engine, it.service, lambda each: each.exit_code is not None)
    assert found.reason == "exited with code 127: the command was not found"
    await until(lambda: any("no-such-program" in line for line in watched.said()))


async def test_an_image_with_an_init_of_its_own_begins_with_that(engine):
    plain = await engine.run(wanted(), 0)
    own = await engine.run(wanted(entrypoint=("init",), command=()), 0)
    first = ["cat", "/proc/1/cmdline"]
    assert (await engine.execute(own, first, 10))[1].rstrip("\0") == "init"
    assert "docker-init" in (await engine.execute(plain, first, 10))[1]


async def test_a_late_run_of_a_replaced_generation_brings_nothing_back(engine, watched):
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


async def test_after_a_failed_release_was_removed_the_older_one_may_still_be_scaled(engine):
    old = wanted()
    new = again(old, generation=2)
    for it in (old, new):
        await engine.run(it, 0)
    await engine.remove(old.service, generation=2, grace=0)
    assert (await engine.run(old, 1)).phase is Phase.RUNNING


async def test_of_another_installation_on_the_same_engine_nothing_is_touched(host, make_engine, engine):
    other = make_engine(host)
    it = wanted(volumes=(Volume(name="data", mount="/data"),))
    await other.engine.run(it, 0)
    await engine.sweep(await engine.services())
    await engine.discard(it.service)
    await engine.remove(it.service)
    assert await engine.copies(it.service) == []
    assert [each.phase for each in await other.engine.all()] == [Phase.RUNNING]
    await nothing_left(other)


async def test_what_somebody_makes_of_an_image_of_ours_by_hand_is_no_instance(engine, watched, raw):
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


async def test_a_command_that_takes_too_long_is_ended(engine):
    it = await engine.run(wanted("sleep 1000"), 0)
    code, output = await engine.execute(it, ["sh", "-c", "echo begun; sleep 4321"], 1)
    assert code != 0
    assert "begun" in output
    assert "did not end within 1 s" in output
    assert "4321" not in (await engine.execute(it, ["ps"], 10))[1]


async def test_a_command_in_an_instance_that_is_gone_says_so(engine):
    it = await engine.run(wanted(), 0)
    await engine.remove(it.service, grace=0)
    with pytest.raises(EngineError, match="does not run"):
        await engine.execute(it, ["true"], 10)


async def test_usage_counts_what_an_instance_uses(engine):
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


async def test_an_instance_is_asked_to_end_before_it_is_ended(engine, watched):
    it = wanted("trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.1; done")
    await engine.run(it, 0)
    await until(lambda: watched.said() == ["up"])
    await engine.remove(it.service, grace=20)
    assert watched.said() == ["up", "bye"]


async def test_nobody_is_told_of_the_beginning_of_what_was_asked_for(watched, raw):
    it = wanted(FOREVER)
    made = await watched.engine.run(it, 0)
    # Events come in order: once this one is heard, that of the start has been.
    await raw.raw("POST", f"/containers/{made.id}/pause")
    await until(lambda: bool(watched.noticed))
    assert watched.noticed == [it.service]


async def test_nothing_of_it_goes_on_once_it_stopped_not_even_listening_to_what_was_just_removed(watched):
    it = wanted("echo up; " + FOREVER)
    await watched.engine.run(it, 0)
    await until(lambda: bool(watched.said()))
    await watched.engine.remove(it.service, grace=0)
    while len(watched.noticed) < 2:  # noqa: ASYNC110 (it ended, and is gone: who listens has yet to find out)
        await asyncio.sleep(0)
    await watched.engine.stop()
    listening = [task for task in asyncio.all_tasks() if "Follower" in repr(task.get_coro())]
    assert listening == []


class TestConformance(Conformance):
    """What every engine promises."""

    @pytest.fixture
    def rig(self, host, tmp_path):
        return DockerRig(host, tmp_path)


class TestOutput:
    async def test_no_line_is_lost_or_repeated_over_restarts_of_windlass(self, watched):
        it = wanted(
            "i=0; while [ $i -lt 150 ]; do echo $i; echo $i >&2; i=$((i+1)); sleep 0.01; done; " + FOREVER
        )
        await watched.engine.run(it, 0)
        for many in (10, 100, 200):
            await until(lambda many=many: len(watched.lines) > many)  # type: ignore[misc]
            await watched.begin_anew()
        await until(lambda: len(watched.lines) >= 300)
        assert sorted(map(int, watched.said())) == sorted([*range(150), *range(150)])

    async def test_what_was_written_while_windlass_was_down_is_read_afterwards(self, watched):
        it = wanted("echo one; sleep 1; echo two; exit 0")
        await watched.engine.run(it, 0)
        await until(lambda: watched.said() == ["one"])
        await watched.engine.stop()
        await asyncio.sleep(1.5)
        await watched.begin_anew()
        await until(lambda: watched.said()[:2] == ["one", "two"])

    async def test_lines_are_cut_at_16_kilobytes_and_whole_when_put_together(self, watched):
        it = wanted("head -c 40000 /dev/zero | tr '\\\\0' x; echo; echo end; " + FOREVER)
        await watched.engine.run(it, 0)
        await until(lambda: watched.said()[-1:] == ["end"])
        assert [len(line) for line in watched.said()[:-1]] == [16_384, 16_384, 40_000 - 2 * 16_384]

    async def test_lines_tell_their_instance_their_deployment_and_the_moment(self, watched):
        it = wanted("echo hello; " + FOREVER, name="Shop", deployment="d-7")
        await watched.engine.run(it, 2)
        (line,) = await until(lambda: watched.lines)
        assert (line.pod, line.version) == ("shop-1-2", "d-7")
        instance = (await watched.engine.all())[0]
        assert abs(line.at - instance.started_at) < 60_000

    async def test_a_flood_is_read_whole(self, watched):
        it = wanted("seq 1 50000; echo end; " + FOREVER, cpu=1000)
        await watched.engine.run(it, 0)
        await until(lambda: watched.said()[-1:] == ["end"])
        assert watched.said() == [*map(str, range(1, 50_001)), "end"]


class TestAway:
    @pytest.fixture
    async def proxy(self, host, tmp_path):
        socket = Path(Docker(host).host.removeprefix("unix://"))
        async with proxied(socket, tmp_path) as made:
            yield made

    async def test_every_call_says_so_and_none_of_them_hangs(self, proxy, make_engine):
        watched = make_engine(proxy.host)
        await watched.begin()
        it = wanted()
        found = await watched.engine.run(it, 0)
        await proxy.vanish()
        engine = watched.engine
        assert "start it, or set docker_host" in await engine.trouble()
        for call in (
            engine.run(it, 0),
            engine.copies(it.service),
            engine.all(),
            engine.remove(it.service),
            engine.discard(it.service),
            engine.execute(found, ["true"], 5),
            engine.usage(),
            engine.services(),
            engine.sweep(()),
        ):
            with pytest.raises(EngineAway, match="does not answer"):
                await call
        await proxy.appear()
        assert await engine.trouble() == ""
        await nothing_left(watched)

    async def test_windlass_starts_without_the_engine_and_finds_what_runs_when_it_comes(
        self, proxy, host, make_engine
    ):
        other = make_engine(host)
        it = wanted("echo hello; " + FOREVER)
        await other.engine.run(it, 0)
        await proxy.vanish()
        watched = make_engine(proxy.host, other.installation)
        await watched.begin()
        assert watched.noticed == []
        await proxy.appear()
        await until(lambda: it.service in watched.noticed and watched.said() == ["hello"])
        await watched.engine.stop()
        await nothing_left(other)

    async def test_nothing_of_what_happened_meanwhile_is_missed(self, proxy, make_engine):
        watched = make_engine(proxy.host)
        await watched.begin()
        it = wanted("echo one; sleep 1; echo two; sleep 1; exit 4")
        await watched.engine.run(it, 0)
        await until(lambda: watched.said() == ["one"])
        await proxy.vanish()
        await asyncio.sleep(2.5)
        watched.noticed.clear()
        await proxy.appear()
        await until(lambda: it.service in watched.noticed)
        found = await seen(watched.engine, it.service, lambda each: each.exit_code == 4)
        assert found.reason == "exited with code 4"
        await until(lambda: watched.said()[:3] == ["one", "two", "one"])
        await nothing_left(watched)

    async def test_where_there_is_no_engine_the_message_says_what_to_do(self, tmp_path, make_engine):
        nowhere = make_engine(f"unix://{tmp_path}/none.sock")
        await nowhere.begin()
        assert f"{tmp_path}/none.sock does not answer" in await nowhere.engine.trouble()
        strange = make_engine("ssh://somewhere")
        assert "must begin with unix://" in await strange.engine.trouble()
        await nowhere.engine.stop()


class TestKilled:
    """The engine itself dies, and comes back."""

    async def test_what_ran_runs_again_and_its_lines_are_neither_lost_nor_repeated(
        self, dockerd, make_engine
    ):
        watched = make_engine(dockerd.host)
        await watched.begin()
        it = wanted(
            "echo began >> /log/starts; wc -l < /log/starts; " + FOREVER,
            volumes=(Volume(name="l", mount="/log"),),
        )
        await watched.engine.run(it, 0)
        await until(lambda: watched.said() == ["1"])
        dockerd.kill()
        with pytest.raises(EngineAway):
            await watched.engine.copies(it.service)
        await asyncio.to_thread(dockerd.start)
        await watched.engine.run(it, 0)
        await until(lambda: watched.said() == ["1", "2"])
        await nothing_left(watched)

    async def test_killed_while_an_instance_is_started_there_is_one_afterwards(self, dockerd, make_engine):
        watched = make_engine(dockerd.host)
        await watched.begin()
        for pause in (0.01, 0.1, 0.3):
            it = wanted(volumes=(Volume(name="data", mount="/data"),))
            running = asyncio.create_task(watched.engine.run(it, 0))
            await asyncio.sleep(pause)
            dockerd.kill()
            await asyncio.gather(running, return_exceptions=True)
            assert not isinstance(running.exception(), EngineRefused)
            await asyncio.to_thread(dockerd.start)
            assert (await watched.engine.run(it, 0)).phase is Phase.RUNNING
            assert len(await watched.engine.copies(it.service)) == 1
        await nothing_left(watched)

    async def test_killed_while_an_instance_is_stopped_it_is_gone_afterwards(self, dockerd, make_engine):
        watched = make_engine(dockerd.host)
        await watched.begin()
        it = wanted("trap '' TERM; " + FOREVER)
        await watched.engine.run(it, 0)
        removing = asyncio.create_task(watched.engine.remove(it.service, grace=5))
        await asyncio.sleep(0.3)
        dockerd.kill()
        with pytest.raises(EngineAway):
            await removing
        await asyncio.to_thread(dockerd.start)
        await watched.engine.remove(it.service, grace=0)
        assert await watched.engine.copies(it.service) == []
        await nothing_left(watched)
