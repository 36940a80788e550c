"""A volume is not mounted over the devices of a container, whatever links its image has.

A program that chooses what `/dev/null` is has a file of the kernel as its output, with some versions of runc.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.docker.watched import until, wanted
from tests.engines.dockers import BOX, build
from windlass.docker import containers
from windlass.docker.client import Docker
from windlass.engines.engine import EngineError
from windlass.engines.workload import Artifact, Volume

pytestmark = pytest.mark.slow

SHOWS = 'awk \'$2 == "/dev" && $3 != "tmpfs" {print "replaced"}\' /proc/mounts; sleep 1000'


@pytest.fixture
async def linked(raw: Docker) -> AsyncIterator[str]:
    """An image in which `/x` leads to `/dev`."""
    ref = f"windlass-test/linked-{uuid.uuid4()}:1"
    await build(raw, ref, {"Dockerfile": f"FROM {BOX}\nRUN ln -s /dev /x\n"})
    yield ref
    await raw.raw("DELETE", f"/images/{ref}", params={"force": True})


async def test_a_volume_is_not_mounted_through_a_link_of_the_image(engine, linked):
    it = wanted(artifact=Artifact(kind="image", ref=linked), volumes=(Volume(name="v", mount="/x"),))
    with pytest.raises(EngineError, match="/x is at /dev, which belongs to the system"):
        await engine.run(it, 0)
    assert await engine.copies(it.service) == []


async def test_without_the_examination_the_volume_replaces_the_devices(watched, engine, linked, monkeypatch):
    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(containers, "examine_mount_points", nothing)
    it = wanted(SHOWS, artifact=Artifact(kind="image", ref=linked), volumes=(Volume(name="v", mount="/x"),))
    await engine.run(it, 0)
    await until(lambda: "replaced" in watched.said())


async def test_a_program_cannot_lead_another_volume_of_its_service_elsewhere(engine):
    volumes = (Volume(name="v", mount="/data"), Volume(name="w", mount="/data/inner"))
    with pytest.raises(EngineError, match="/data/inner lies in the volume at /data"):
        await engine.run(wanted(volumes=volumes), 0)
