"""A Docker engine that is unavailable or killed costs nothing but time."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from tests.docker.watched import FOREVER, ended, nothing_left, seen, until, wanted
from tests.engines.dockers import own_engine
from tests.engines.proxies import proxied, run_when_available
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.containers import is_passing
from windlass.engines.engine import EngineUnavailable, NotReady
from windlass.engines.workload import (
    Phase,
    Volume,
)

pytestmark = pytest.mark.slow

_PATIENCE = 300.0


@pytest.fixture(scope="module")
def dockerd():
    """An engine that may be killed."""
    with own_engine() as made:
        yield made


class TestAway:
    @pytest.fixture
    async def proxy(self, host, tmp_path):
        socket = Path(Docker(host).host.removeprefix("unix://"))
        async with proxied(socket, tmp_path) as made:
            yield made

    async def test_while_the_engine_is_unavailable_every_call_fails_quickly(self, proxy, make_engine):
        watched = make_engine(proxy.host)
        await watched.begin()
        it = wanted()
        found = await watched.engine.run(it, 0)
        await proxy.vanish()
        engine = watched.engine
        assert "start it, or set docker_host" in await engine.problem()
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
            with pytest.raises(EngineUnavailable, match="does not answer"):
                await call
        await proxy.appear()
        assert {*await run_when_available(engine.services)} == {it.service}
        assert await engine.problem() == ""
        await nothing_left(watched)

    async def test_windlass_starts_without_the_engine_and_finds_running_instances_when_it_is_back(
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

    async def test_events_and_output_during_an_engine_outage_are_noticed_afterwards(
        self, proxy, make_engine, raw
    ):
        watched = make_engine(proxy.host)
        await watched.begin()
        it = wanted("echo one; sleep 0.5; echo two; exit 4")
        await watched.engine.run(it, 0)
        await until(lambda: watched.said() == ["one"])
        await proxy.vanish()
        await ended(raw, it.service)
        watched.noticed.clear()
        await proxy.appear()
        await until(lambda: it.service in watched.noticed)
        found = await seen(watched.engine, it.service, lambda each: each.exit_code == 4)
        assert found.reason == "exited with code 4"
        await until(lambda: watched.said()[:3] == ["one", "two", "one"])
        await nothing_left(watched)

    async def test_an_unreachable_or_invalid_docker_host_is_reported_with_advice(self, tmp_path, make_engine):
        nowhere = make_engine(f"unix://{tmp_path}/none.sock")
        await nowhere.begin()
        assert f"{tmp_path}/none.sock does not answer" in await nowhere.engine.problem()
        strange = make_engine("ssh://somewhere")
        assert "must begin with unix://" in await strange.engine.problem()
        await nowhere.engine.stop()


class TestKilled:
    """The engine itself dies, and comes back."""

    async def test_instances_run_again_after_a_restart_of_the_engine_without_lost_or_repeated_lines(
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
        with pytest.raises(EngineUnavailable):
            await watched.engine.copies(it.service)
        await asyncio.to_thread(dockerd.start)
        await run_when_available(lambda: watched.engine.run(it, 0))
        await until(lambda: watched.said() == ["1", "2"])
        await nothing_left(watched)

    @pytest.mark.timeout(400)
    @pytest.mark.parametrize("ends_by", ["a stop", "a kill"])
    @pytest.mark.parametrize("then", [FOREVER, "exit 3"])
    async def test_a_version_does_not_fail_because_the_engine_was_restarted_while_it_started(
        self, dockerd, make_engine, ends_by, then
    ):
        """The control is a program that ends by itself when it is started again."""
        watched = make_engine(dockerd.host)
        await watched.begin()
        it = wanted(
            f"trap 'exit 0' TERM; echo began; test -e /log/before && {{ {then}; }}; touch /log/before; "
            + FOREVER,
            volumes=(Volume(name="l", mount="/log"),),
            settle=8.0,
            patience=_PATIENCE,
        )
        await watched.engine.apply(it, 1)
        await until(lambda: watched.said() == ["began"])
        waiting = asyncio.create_task(watched.engine.wait_until_ready(it, 1))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(dockerd.kill if ends_by == "a kill" else dockerd.shut_down)
        await asyncio.to_thread(dockerd.start)
        with pytest.raises(NotReady, match="exited with code 3") if then == "exit 3" else nullcontext():
            await waiting
        assert watched.said()[:2] == ["began", "began"]
        await nothing_left(watched)

    @pytest.mark.timeout(400)
    async def test_a_version_does_not_fail_because_the_engine_came_back_empty_while_it_started(
        self, dockerd, make_engine
    ):
        watched = make_engine(dockerd.host)
        await watched.begin()
        it = wanted(settle=8.0, patience=_PATIENCE)
        await watched.engine.apply(it, 1)
        waiting = asyncio.create_task(watched.engine.wait_until_ready(it, 1))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(dockerd.come_back_empty)
        await waiting
        assert len(await watched.engine.copies(it.service)) == 1
        await nothing_left(watched)

    async def test_a_kill_during_the_start_of_an_instance_leaves_one_instance(self, dockerd, make_engine):
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
            assert (await run_when_available(partial(watched.engine.run, it, 0))).phase is Phase.RUNNING
            assert len(await run_when_available(partial(watched.engine.copies, it.service))) == 1
        await nothing_left(watched)

    async def test_a_kill_during_the_stop_of_an_instance_leaves_none(self, dockerd, make_engine):
        watched = make_engine(dockerd.host)
        await watched.begin()
        it = wanted("trap '' TERM; " + FOREVER)
        await watched.engine.run(it, 0)
        removing = asyncio.create_task(watched.engine.remove(it.service, grace=5))
        await asyncio.sleep(0.3)
        dockerd.kill()
        with pytest.raises(EngineUnavailable):
            await removing
        await asyncio.to_thread(dockerd.start)
        await run_when_available(lambda: watched.engine.remove(it.service, grace=0))
        assert await watched.engine.copies(it.service) == []
        await nothing_left(watched)


@pytest.mark.parametrize(
    ("message", "passes"),
    [
        ("id already in use", True),
        ('Conflict. The container name "/a" is already in use', True),
        ("container 8f3a: already exists", True),
        ("driver failed programming external connectivity: address already in use", True),
        ('exec: "nothing": executable file not found in $PATH', False),
        ("invalid CPU count", False),
    ],
)
def test_only_a_start_failure_that_a_new_container_fixes_is_retried(message, passes):
    assert is_passing(EngineRefused(500, message)) is passes
