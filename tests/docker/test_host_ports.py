"""A container keeps the ports of the machine at which it is reached, across all of its starts."""

from __future__ import annotations

import socket

import pytest

from tests.docker.watched import wanted
from tests.engines.dockers import BOX
from windlass.docker import host_ports
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.host_ports import HostPorts, choose_ports
from windlass.engines.engine import EngineError
from windlass.engines.workload import Phase, WorkloadPort

WEB = (WorkloadPort(name="web", internal=8080),)


def serving(**given):
    return wanted(ports=WEB, **given)


async def port_of(raw: Docker, container: str) -> int:
    published = (await raw.json("GET", f"/containers/{container}/json"))["NetworkSettings"]["Ports"]
    return int(published["8080/tcp"][0]["HostPort"])


async def start(raw: Docker, container: str) -> int:
    await raw.raw("POST", f"/containers/{container}/start")
    return await port_of(raw, container)


async def stop(raw: Docker, container: str) -> None:
    await raw.raw("POST", f"/containers/{container}/stop", params={"t": 0})


@pytest.mark.slow
async def test_a_restarted_container_keeps_its_host_port(engine, raw):
    victim = await engine.run(serving(), 0)
    await stop(raw, victim.id)
    others = [await engine.run(serving(), 0) for _ in range(3)]
    ports = {await port_of(raw, other.id) for other in others}
    assert await start(raw, victim.id) == victim.ports[8080]
    assert victim.ports[8080] not in ports


@pytest.mark.nightly
@pytest.mark.slow
async def test_without_a_fixed_number_docker_gives_the_port_to_another_container(raw):
    """The control: Docker gives ports of its own choice anew at each start."""
    body = {
        "Image": BOX,
        "Cmd": ["sleep", "100"],
        "ExposedPorts": {"8080/tcp": {}},
        "HostConfig": {"PortBindings": {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}},
    }
    ids = [(await raw.json("POST", "/containers/create", body=body))["Id"] for _ in range(2)]
    try:
        before = await start(raw, ids[0])
        await stop(raw, ids[0])
        await start(raw, ids[1])
        assert await start(raw, ids[0]) != before
    finally:
        for each in ids:
            await raw.raw("DELETE", f"/containers/{each}", params={"force": True})


@pytest.mark.slow
async def test_a_host_port_in_use_by_another_program_is_skipped(engine, monkeypatch):
    with socket.socket() as taken, socket.socket() as free:
        for each in (taken, free):
            each.bind(("127.0.0.1", 0))
        taken.listen()
        numbers = [each.getsockname()[1] for each in (taken, free)]
        free.close()
        monkeypatch.setattr(host_ports, "PORT_RANGE", numbers)
        for _ in range(3):  # either is chosen first
            it = serving()
            assert (await engine.run(it, 0)).ports == {8080: numbers[1]}
            await engine.remove(it.service, grace=0)


@pytest.mark.slow
async def test_a_run_without_a_route_publishes_no_port(engine, raw):
    it = serving(command=("sh", "-c", "exit 0"))
    await engine.once(it)
    found = await raw.json("GET", f"/containers/{await only(raw, it.service)}/json")
    assert found["HostConfig"]["PortBindings"] in ({}, None)


async def only(raw: Docker, service: str) -> str:
    params = {"filters": {"label": [f"windlass.service={service}"]}, "all": True}
    (container,) = await raw.json("GET", "/containers/json", params=params)
    return str(container["Id"])


@pytest.mark.slow
async def test_a_host_port_conflict_between_two_servers_makes_the_second_choose_again(
    host, make_engine, monkeypatch
):
    one = make_engine(host)
    other = make_engine(host, one.installation)
    first = (await one.engine.run(serving(), 0)).ports[8080]
    choices = iter([first])
    choose_well = host_ports.choose_ports
    monkeypatch.setattr(
        host_ports, "choose_ports", lambda *given: [next(choices, None) or choose_well(*given)[0]]
    )
    found = await other.engine.run(serving(), 0)
    assert found.phase is Phase.RUNNING
    assert found.ports[8080] != first
    await one.engine.sweep(await one.engine.services())


def test_one_organization_may_use_at_most_half_of_the_free_host_ports():
    half = len(host_ports.PORT_RANGE) // 2
    taken = set(host_ports.PORT_RANGE[:half])
    assert len(choose_ports(20, half - 20, taken - set(host_ports.PORT_RANGE[:20]))) == 20
    with pytest.raises(EngineError, match="Run fewer instances, or declare fewer ports"):
        choose_ports(1, half, taken)
    assert not set(choose_ports(half, 0, taken)) & taken  # another one


def test_one_organization_may_use_at_most_an_eighth_of_the_host_ports_of_this_machine():
    limit = host_ports.MAX_PORTS_OF_ORGANIZATION
    assert limit == len(host_ports.PORT_RANGE) // 8
    assert len(choose_ports(20, limit - 20, (), limit)) == 20
    with pytest.raises(EngineError, match=f"may have {limit}"):
        choose_ports(21, limit - 20, (), limit)


@pytest.mark.parametrize(
    ("message", "is_new"),
    [
        ("Bind for 127.0.0.1:20013 failed: port is already allocated", True),
        ("failed to bind host port 127.0.0.1:20013/tcp: address already in use", True),
        ("Error starting userland proxy: listen tcp4 127.0.0.1:80: bind: address already in use", False),
        ("container name 127.0.0.1:20013 is already in use by", False),
    ],
)
def test_the_engine_says_which_port_is_taken(message, is_new):
    ports = HostPorts(Docker("unix:///nowhere"))
    assert ports.skip(EngineRefused(500, message)) is is_new
    assert not ports.skip(EngineRefused(500, message))  # and is not asked for it for ever
