"""A probe that fails says why, and what the program must do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.free_ports import free_port
from windlass.engines.engine import EngineError, InstanceEnded
from windlass.engines.rollout import kernel_listeners, probes
from windlass.engines.rollout.listeners import queued_at
from windlass.engines.rollout.probes import run_probe
from windlass.engines.workload import HealthProbe, Instance, Phase, ProbeKind

ENGINE = SimpleNamespace(has_go_between=False)


def instance(port: int) -> Instance:
    return Instance(
        id="web-1",
        service="web",
        generation=1,
        index=0,
        phase=Phase.RUNNING,
        address="127.0.0.1",
        ports={8080: port},
    )


@pytest.mark.parametrize("kind", [ProbeKind.TCP, ProbeKind.HTTP])
async def test_a_program_that_listens_nowhere_fails_the_probe_with_advice_about_port(kind):
    problem = await run_probe(ENGINE, instance(free_port()), HealthProbe(kind=kind, port=8080))
    assert "on port 8080 (connection refused)" in problem
    assert "listen at 0.0.0.0, on the port in the variable PORT" in problem
    assert "`internal_port` must be the port on which it listens" in problem


async def test_a_program_that_listens_on_its_port_passes():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await run_probe(ENGINE, instance(port), HealthProbe(kind=ProbeKind.TCP, port=8080)) == ""


OPEN = HealthProbe(kind=ProbeKind.TCP, port=8080)
ACCEPTED = replace(OPEN, accepted=True)


def seeing(look: Callable[[int], int | None]) -> Any:
    """An engine that looks in this way how many connections wait."""

    async def queued(instance: Instance, port: int) -> int | None:
        return look(instance.ports[port])

    return SimpleNamespace(has_go_between=False, queued=queued)


def unable(port: int) -> int | None:
    raise EngineError("no")


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.mark.parametrize(
    "read", [kernel_listeners.queued, lambda port: queued_at(Path("/proc/net/tcp").read_text(), port)]
)
def test_the_number_of_connections_waiting_to_be_accepted_is_read_from_the_kernel(listener, read):
    port = listener.getsockname()[1]
    assert read(port) == 0
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
        assert read(port) == 2
        listener.accept()[0].close()
        assert read(port) == 1
    listener.shutdown(socket.SHUT_RDWR)  # it keeps its port, which nobody else may take meanwhile
    assert read(port) is None


async def test_a_program_that_listens_but_accepts_no_connection_passes_only_a_tcp_probe(
    listener, monkeypatch
):
    monkeypatch.setattr(probes, "_ACCEPT_TIMEOUT", 0.05)
    web, engine = instance(listener.getsockname()[1]), seeing(kernel_listeners.queued)
    problem = await run_probe(engine, web, ACCEPTED)
    assert problem.startswith("it listens on port 8080, but accepts no connections yet: it must finish")
    assert "`readiness_probe` with `tcp`" in problem
    assert await run_probe(engine, web, OPEN) == ""


async def test_a_connection_that_is_accepted_late_passes(listener):
    looks = []

    def look(port: int) -> int | None:
        looks.append(kernel_listeners.queued(port))
        if len(looks) == 3:
            listener.accept()[0].close()
        return looks[-1]

    assert await run_probe(seeing(look), instance(listener.getsockname()[1]), ACCEPTED) == ""
    assert looks[0] == 1
    assert looks[-2:] == [0, 0]


async def test_a_program_that_ends_without_having_accepted_does_not_pass(listener):
    def end(port: int) -> int | None:
        listener.close()
        return kernel_listeners.queued(port)

    problem = await run_probe(seeing(end), instance(listener.getsockname()[1]), ACCEPTED)
    assert problem == "it does not answer on port 8080 (the connection is closed at once)"


async def test_a_probe_fails_if_the_instance_ended_during_the_check(listener):
    """As a container, whose network goes with it before it can say that a connection is closed."""

    def end(port: int) -> int | None:
        raise InstanceEnded("gone")

    problem = await run_probe(seeing(end), instance(listener.getsockname()[1]), ACCEPTED)
    assert problem == "it does not answer on port 8080 (the connection is closed at once)"


@pytest.mark.parametrize("look", [lambda port: None, unable])
async def test_an_open_port_passes_if_the_engine_cannot_see_waiting_connections(listener, look):
    assert await run_probe(seeing(look), instance(listener.getsockname()[1]), ACCEPTED) == ""


async def test_an_answer_with_an_overlong_first_line_fails_the_probe():
    """It is a reason like others: an exception would be tried again for good, and no deployment would end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200" + b"x" * (1 << 17))
        await writer.drain()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        problem = await run_probe(
            ENGINE, instance(port), HealthProbe(kind=ProbeKind.HTTP, port=8080, path="/")
        )
        assert problem == "what it answered GET / on port 8080 is not HTTP"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ValueError, match="limit"):  # without the protection
            await reader.readline()
        writer.close()
