"""With a runc that trusts the devices of a container, no build step runs with content that covers them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docker.builds.benches import Bench
from tests.docker.builds.test_docker_guard import PLATFORM
from tests.engines.dockers import BOX
from tests.tables import rows
from windlass.builders.builder import BuildError
from windlass.docker.builds import engine_version
from windlass.docker.builds.engine_version import has_volumes, trusts_devices
from windlass.docker.builds.guard import Around, rewritten

TRUSTS_DEVICES = trusts_devices
"""The function itself: the fixtures of Docker tests replace it."""
MOUNTED = "RUN --mount=type=bind,from=made,source=/d,target=/x,rw true"
LEADS_OUT = f"FROM {BOX} AS made\nRUN mkdir /d\nFROM {BOX}\nRUN ln -s /dev /x\n{MOUNTED}\n"


def of(text: str, **given: Any) -> str:
    around = Around(service="acme", scope="s", arguments={}, platform=PLATFORM, heredocs=True, **given)
    return rewritten(f"FROM a AS made\nFROM b\n{text}\n", around).text.decode().partition("FROM b\n")[2]


@rows(
    ("runc", "is_old"),
    [
        ("1.1.5+ds1", True),
        ("1.2.7", True),
        ("v1.2.8", False),
        ("1.3.0", True),
        ("1.3.2", True),
        ("1.3.3", False),
        ("1.4.0-rc.2", True),
        ("1.4.0-rc.3", False),
        ("1.4.0", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_versions_of_runc_that_trust_the_devices_are_known(runc, is_old):
    version = {"Components": [{"Name": "Engine", "Version": "1.0.0"}, {"Name": "runc", "Version": runc}]}
    assert TRUSTS_DEVICES(version) is is_old
    assert not TRUSTS_DEVICES({})


def test_steps_run_without_their_caches_and_bind_mounts_are_refused():
    cached = "RUN --mount=type=cache,target=/c --mount=type=tmpfs,target=/t make"
    assert "RUN --mount=type=tmpfs,target=/t make\n" in of(cached, refuses_mounts=True)
    assert "type=cache" in of(cached)
    for mount in ("type=bind,from=made,target=/x", "target=/x", "type=cache,from=made,target=/x"):
        assert "/x" in of(f"RUN --mount={mount} make")
        with pytest.raises(BuildError, match=r"line 3: COPY what RUN --mount=.* mounts, or have"):
            of(f"RUN --mount={mount} make", refuses_mounts=True)


@rows(
    ("text", "given", "is_refused"),
    [
        ("RUN a\nVOLUME /x", {}, False),
        ("VOLUME /x\nRUN a", {}, True),
        ("ONBUILD VOLUME /x\nFROM c\nRUN a", {}, True),
        ("VOLUME /x\nCOPY a /b", {}, False),
        ("RUN a", {"has_volumes": True}, True),
        ("COPY a /b", {"has_volumes": True}, False),
    ],
)
def test_steps_of_the_classic_builder_have_no_volumes(text, given, is_refused):
    assert of(text, **given)
    if is_refused:
        with pytest.raises(BuildError, match="run this step before VOLUME"):
            of(text, refuses_volumes=True, **given)
    else:
        assert of(text, refuses_volumes=True, **given)


def test_volumes_and_triggers_of_base_images_are_found():
    assert has_volumes({"Config": {"Volumes": {"/x": {}}}})
    assert has_volumes({"Config": {"OnBuild": ["volume /x"]}})
    assert not has_volumes({"Config": {"OnBuild": ["ENV A=1"]}})
    assert not has_volumes({"Config": None})


@pytest.mark.slow
async def test_a_build_with_a_mount_is_refused_by_an_engine_with_an_old_runc(host, tmp_path, monkeypatch):
    bench = Bench(host, tmp_path, buildkit=True)
    try:
        assert (await bench.build(LEADS_OUT)).ref, "as with a newer runc"
        monkeypatch.setattr(engine_version, "trusts_devices", lambda version: True)
        with pytest.raises(BuildError, match="line 5: COPY what"):
            await bench.build(LEADS_OUT, key="k2")
        await bench.build(f"FROM {BOX}\nRUN --mount=type=cache,target=/c true\n", key="k3")
        assert any("Cache mounts of RUN are left out" in line for line in bench.log)
    finally:
        await bench.close()
