"""A probe that fails says why, and what the program must do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tests.free_ports import free_port
from windlass.core.deploy.workload import HealthProbe, Instance, Phase, ProbeKind
from windlass.engines.by_hand.probes import ask

ENGINE = SimpleNamespace(has_go_between=False)


def instance(port: int) -> Instance:
    return Instance(id="web-1", service="web", generation=1, index=0, phase=Phase.RUNNING, ports={8080: port})


@pytest.mark.parametrize("kind", [ProbeKind.TCP, ProbeKind.HTTP])
async def test_a_program_that_listens_nowhere_fails_with_the_variable_of_its_port_named(kind):
    trouble = await ask(ENGINE, instance(free_port()), HealthProbe(kind=kind, port=8080))
    assert "on port 8080 (connection refused)" in trouble
    assert "listen at 0.0.0.0, on the port in the variable PORT" in trouble
    assert "`internal_port` must be the port on which it listens" in trouble


async def test_a_program_that_listens_on_its_port_passes():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await ask(ENGINE, instance(port), HealthProbe(kind=ProbeKind.TCP, port=8080)) == ""
