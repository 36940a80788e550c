"""Commands of an operator with two real engines: `windlass doctor`, and `windlass stop --all`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.dockers import DockerHost, docker_host, second_host
from tests.engines.test_second_host import Cluster, access, connected, first, on, windlass
from tests.free_ports import free_port
from tests.operate.installations import apart
from tests.operate.test_commands import findings
from windlass.docker.client import Docker
from windlass.operate import stopping
from windlass.terminal.command_errors import CommandFailed

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def host() -> Iterator[DockerHost]:
    with second_host() as made:
        yield made


def doctor(folder: Path, host: DockerHost) -> dict[str, tuple[str, str]]:
    return findings(
        "--data-dir",
        str(folder),
        WINDLASS_ENGINE="docker",
        WINDLASS_DOCKER_HOST=Docker(docker_host()).host,
        WINDLASS_OUTBOUND_ALLOW=f"{host.address}/32",
    )


def sure(count: int) -> None:
    """Yes."""


async def _is_stopped() -> None:
    """The server was stopped before its world is."""


async def test_doctor_lists_services_of_a_second_host_and_stop_ends_them(tmp_path, host, monkeypatch):
    data, port = tmp_path / "data", free_port()
    async with windlass(tmp_path, host) as there:
        settings = there.ctx.settings
        east = Cluster(there, (await connected(there, "east", access(host, router_port=port)))["id"], "east")
        local = Cluster(there, await first(there), "here")
        for one in (east, local):
            await one.make()
            await one.do("deploy")
        told = await asyncio.to_thread(doctor, data, host)
        level, said = told["Cluster east"]
        assert level == "ok"
        assert f"at {host.url}; services 1 run there, with instances 1" in said
        assert told["Cluster east: clock"] == ("ok", "as this one")
        assert "the router of a Windlass" in told["Cluster east: router port"][1]
        assert told["Cluster east: certificates"][0] == "warn"  # those of the test last a day
        docker = Docker(host.host)
        ((container,), _) = await on(host.host)
        await there.installation.stop()
        monkeypatch.setattr(there.installation, "stop", _is_stopped)
        await docker.json("POST", f"/containers/{container['Id']}/stop", params={"t": 0})
        told = await asyncio.to_thread(doctor, data, host)
        assert told["Cluster east"][0] == "warn"
        assert told["Cluster east"][1].startswith("deploy east again, or read their logs")
        await docker.json("POST", f"/containers/{container['Id']}/start")
        await docker.close()
        host.kill()
        try:
            told = await asyncio.to_thread(doctor, data, host)
            assert told["Cluster east"][0] == "fail"
            assert told["Docker"][0] == "ok"
            with pytest.raises(
                CommandFailed, match=r"\(east\), and repeat the command: what runs there keeps running"
            ):
                await apart(stopping.here(settings, sure))
        finally:
            host.start()
        assert await apart(stopping.here(settings, sure)) == 1
        assert (await on(host.host))[0] == []
        assert len((await on(host.host))[1]) == 1, "data stays"
