"""The mount points of a container are resolved as the engine would resolve them."""

from __future__ import annotations

import pytest

from tests.docker.test_start_files import FOLDER, FakeDocker, link
from windlass.docker.mount_points import examine_mount_points
from windlass.engines.engine import EngineError

USUAL = {
    "/data": {"mode": FOLDER},
    "/var": {"mode": FOLDER},
    "/var/run": link("/run"),
    "/run": {"mode": FOLDER},
}


@pytest.mark.parametrize(
    ("shared", "own"),
    [
        ((), ()),
        (("/data", "/other"), ("/var/lib/app",)),
        (("/var/run/app", "/new/folder"), ()),
        (("/var/www/uploads",), ("/var/www",)),
        (("/device", "/system/a"), ("/processes",)),
    ],
)
async def test_usual_mount_points_are_accepted(shared, own):
    await examine_mount_points(FakeDocker(USUAL), "c", shared, own)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="/dev is at /dev"):
        await examine_mount_points(FakeDocker(USUAL), "c", shared, [*own, "/dev"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("files", "shared", "own", "message"),
    [
        ({"/x": link("/dev")}, ["/x"], [], "/x is at /dev, which belongs to the system"),
        ({"/x": link("dev")}, ["/x/null"], [], "/x/null is at /dev/null"),
        ({"/x": link("../../proc/sys")}, [], ["/x"], "/x is at /proc/sys"),
        ({}, [], ["/dev"], "/dev is at /dev"),
        ({"/x": link("/")}, [], ["/x"], "/x is at /,"),
        ({"/x": link("/y"), "/y": link("/x")}, ["/x"], [], "a chain of links"),
        ({}, ["/a", "/a/b"], [], "/a/b lies in the volume at /a"),
        ({}, ["/a"], ["/a/b"], "/a/b lies in the volume at /a"),
        ({"/x": link("/a/b")}, ["/a", "/x"], [], "/x lies in the volume at /a"),
        ({"/x": link("/y")}, ["/x", "/y/z"], [], "/y/z lies in the volume at /y"),
    ],
)
async def test_a_mount_point_in_the_system_or_in_a_volume_of_the_service_is_refused(
    files, shared, own, message
):
    with pytest.raises(EngineError, match=message):
        await examine_mount_points(FakeDocker(files), "c", shared, own)  # type: ignore[arg-type]
