"""Prepares the volumes of a service before a container with them is created.

The engine copies files of the image into an empty volume, as root of its machine, and follows links in the
volume meanwhile. It also follows links on the way to a mount point, whenever it looks at a file of a
container that does not run. A program that changes a volume at that time could have files written anywhere on
the machine. So the image's files are copied, and its links are followed, only while no container of the
service could change something.

Each service has at most one container for that, with a fixed name. An engine keeps the name until its copying
has ended, even if the call was cancelled, or the server has ended since.
"""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from windlass.docker import create, names
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.mount_points import examine_mount_points
from windlass.engines.engine import EngineError
from windlass.engines.workload import Workload

COPY_TIMEOUT: Final = 1800.0
"""Time limit in seconds for copying the files of an image into the volumes of a service."""
LABEL: Final = "windlass.volume-files"
"""Label of these containers; its value is the installation's id."""


async def prepare_volumes(
    docker: Docker, installation: str, workload: Workload, image: Mapping[str, Any], *, is_alone: bool
) -> None:
    """Fills empty volumes with the image's files if `is_alone`: no other container of the service exists.
    Otherwise examines the image's links to its mount points. Raises EngineError for links that lead into
    volumes of the service."""
    mounts = create.volume_mounts(workload, installation) if is_alone else []
    async with _made(docker, installation, workload, mounts) as container:
        if not is_alone:
            shared = {_path(volume.mount) for volume in workload.volumes}
            own = set(map(_path, (image.get("Config") or {}).get("Volumes") or ()))
            if create.needs_etc_copy(workload, image):
                own.add(create.ETC_COPY["Target"])
            await examine_mount_points(docker, container, shared, own - shared)


async def discard_container(docker: Docker, installation: str, service: str) -> None:
    """Removes a container that a server left because it was killed."""
    await _remove(docker, names.volume_files(installation, service))


def may_be_redirected(shared: Collection[str], service_volumes: Collection[str]) -> bool:
    """Returns whether a program could have replaced a folder on the way to one of its mount points by a link
    into a volume that other containers of the service have, too."""
    return any(posixpath.dirname(path) != "/" and {*shared} - {path} for path in {*shared, *service_volumes})


@asynccontextmanager
async def _made(
    docker: Docker, installation: str, workload: Workload, mounts: Collection[Mapping[str, Any]]
) -> AsyncIterator[str]:
    name = names.volume_files(installation, workload.service)
    body = create.unstarted_container(
        workload.artifact.ref, {LABEL: installation}, HostConfig={"Mounts": [*mounts]}
    )
    try:
        await _create(docker, name, body)
    except EngineRefused as refused:
        if refused.status != 409:
            raise
        if not await _remove(docker, name):
            raise EngineError(
                "Deploy again when the Docker engine has copied the files of the image into the volumes: it "
                "is still copying them for an earlier attempt"
            ) from refused
        await _create(docker, name, body)
    try:
        yield name
    finally:
        await _remove(docker, name)


async def _create(docker: Docker, name: str, body: Mapping[str, Any]) -> None:
    await docker.json("POST", "/containers/create", params={"name": name}, body=body, timeout=COPY_TIMEOUT)


async def _remove(docker: Docker, name: str) -> bool:
    """Removes a container. Returns whether it existed."""
    try:
        await docker.raw("DELETE", f"/containers/{name}", params={"force": True, "v": True})
    except EngineRefused as refused:
        if refused.status not in (404, 409):
            raise
        return refused.status == 409
    return True


def _path(mount: str) -> str:
    return posixpath.normpath(f"/{mount.lstrip('/')}")
