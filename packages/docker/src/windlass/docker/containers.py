"""Creates, starts, stops and removes single containers. The caller holds the lock of the container."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, Final

from windlass.base.log import log
from windlass.docker import create
from windlass.docker import names as words
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.client.answers import NONSENSE
from windlass.docker.client.pulled_images import ImageUser
from windlass.docker.descriptions import ContainerList, ContainerSummary, has_labels, instances_of
from windlass.docker.host_ports import HostPorts
from windlass.docker.images import DockerImages
from windlass.docker.resources import DockerResources
from windlass.docker.watch import EventWatcher
from windlass.engines.engine import Demand, EngineError, EngineLimits, output_too_long, unmet
from windlass.engines.workload import LONGEST_OUTPUT, OUTPUT_FILE, Workload

_READABLE_BY_ALL: Final = 0o444
"""Readable by every user inside: an image may run as any user, and other users of the machine cannot reach
the files."""
_WRITABLE_BY_ALL: Final = 0o1777


def pack(files: Mapping[str, bytes], folder: str = "") -> bytes:
    """Returns an archive of files. They appear at once and whole, because the container has not begun yet.
    The archive also makes `folder`, in which every user of the container may write."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        if folder:
            entry = tarfile.TarInfo(_relative_path(folder))
            entry.type, entry.mode = tarfile.DIRTYPE, _WRITABLE_BY_ALL
            tar.addfile(entry)
        for path, content in files.items():
            entry = tarfile.TarInfo(_relative_path(path))
            entry.size, entry.mode = len(content), _READABLE_BY_ALL
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def read_packed(archive: bytes) -> bytes | None:
    """Returns the content of the only file of an archive; None if it is anything but a plain file."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        entry = tar.next()
        file = tar.extractfile(entry) if entry is not None and entry.isreg() else None
        return file.read() if file else None


def _relative_path(path: str) -> str:
    name = posixpath.normpath("/" + path).lstrip("/")
    if not name or "\0" in name:
        raise EngineError(f"{path!r} is no path for a file: give one such as /etc/app/config.json")
    return name


LEAVING: Final = 60.0
"""Seconds that the Docker engine may take to stop a container beyond its grace."""

# Failures between creating and starting a container that creating it again fixes.
# "already exists", "id already in use": an engine that was killed while it started a container finds a trace.
PASSING: Final = (
    "network",
    "already in use",
    "port is already allocated",
    "marked for removal",
    "already exists",
)

Inspection = Mapping[str, Any]
"""The description of a container, as the Docker engine gives it."""

_TAR_ROOM: Final = 65_536
"""Overhead, in bytes, of an archive with one file."""
_log = log("engines.docker")


class ContainerClient:
    def __init__(
        self,
        docker: Docker,
        installation: str,
        resources: DockerResources,
        images: DockerImages,
        watch: EventWatcher,
    ) -> None:
        self._docker, self._installation = docker, installation
        self._resources, self._images, self._watch = resources, images, watch
        self._ports = HostPorts(docker)

    async def list(self, **labels: str) -> list[ContainerSummary]:
        """Returns the containers with these labels, and no others that the engine may name."""
        wanted = {"installation": self._installation, **labels}
        params = {"all": True, "filters": words.instances(**wanted)}
        listed = await self._docker.read_list("/containers/json", ContainerList, params=params)
        made = instances_of(self._installation, listed)
        return [container for container in made if has_labels(container["Labels"], wanted)]

    async def inspect(self, container: str) -> Inspection | None:
        try:
            return dict(await self._docker.json("GET", f"/containers/{container}/json"))
        except EngineRefused as refused:
            if refused.status == 404:
                return None
            raise

    async def run(self, workload: Workload, index: int, name: str, *, once: bool) -> Inspection | None:
        """Makes sure that a container runs, or has run if it runs once. Returns its description if it was
        running before."""
        inspection = await self.inspect(name)
        if inspection and inspection["State"]["Status"] in ("removing", "dead"):
            await self.remove(inspection["Id"])
            inspection = None
        elif inspection and inspection["Config"]["Labels"].get(words.DEPLOYMENT) != workload.deployment:
            # A restored database gives out numbers again.
            await self.stop(inspection["Id"], workload.grace)
            await self.remove(inspection["Id"])
            inspection = None
        container = inspection["Id"] if inspection else await self._make(workload, index, name, once)
        match inspection["State"]["Status"] if inspection else "created":
            case "running" | "restarting":
                pass
            case "exited" if once:
                pass
            case "paused":
                await self._docker.raw("POST", f"/containers/{container}/unpause")
            case _:
                # The server that made it may have been killed before its files were in it.
                await self._fill(container, workload)
                await self._start(container)
        self._watch.listen(container, words.labels(self._installation, workload, index))
        return inspection if inspection and inspection["State"]["Status"] == "running" else None

    async def wait_for_end(self, container: str) -> Inspection | None:
        """Returns the description of a container once it has ended; None if it was removed."""
        while inspection := await self.inspect(container):
            if inspection["State"]["Status"] == "removing":
                return None
            if inspection["State"]["Status"] in ("exited", "dead"):
                return inspection
            try:
                await self._docker.raw("POST", f"/containers/{container}/wait", patience=None)
            except EngineRefused as refused:
                if refused.status != 404:
                    raise
        return None

    async def stop(self, container: str, grace: float) -> None:
        """Stops a container. Returns after its last output was read."""
        try:
            await self._docker.raw(
                "POST",
                f"/containers/{container}/stop",
                params={"t": ceil(grace)},
                patience=grace + LEAVING,
            )
        except EngineRefused as refused:
            if refused.status != 404:
                raise
        await self._watch.wait_until_read(container)

    async def remove(self, container: str) -> None:
        """Removes a container, running or not, with its volumes that have no name."""
        try:
            await self._docker.raw("DELETE", f"/containers/{container}", params={"force": True, "v": True})
        except EngineRefused as refused:
            if refused.status == 409:  # another call is removing it already
                await self._wait_for_removal(container)
            elif refused.status != 404:
                raise

    async def _wait_for_removal(self, container: str) -> None:
        with suppress(EngineRefused):
            path = f"/containers/{container}/wait"
            await self._docker.raw("POST", path, params={"condition": "removed"}, patience=LEAVING)

    async def _make(self, workload: Workload, index: int, name: str, once: bool) -> str:
        resources = self._resources
        await resources.check_volumes(workload)  # an image is of no use until the volume is back
        user = ImageUser(workload.service, workload.org)
        image = await self._images.have(workload.artifact.ref, user=user)
        await resources.make_volumes(workload)
        count = len(create.published_ports(workload, once=once))
        async with resources.network(workload) as network, self._ports.claim(workload.org, count) as ports:
            body = create.container(
                workload,
                index,
                installation=self._installation,
                network=network,
                aliases=() if once else words.aliases(workload),  # neighbours look for what serves
                publish=self._docker.address,
                host_ports=ports,
                image=image,
                once=once,
            )
            created = await self._docker.json("POST", "/containers/create", params={"name": name}, body=body)
        for warning in created.get("Warnings") or ():
            _log.warning("the Docker engine warns", extra={"container": name, "reason": warning})
        await self._keep_if_alone(str(created["Id"]), ports)
        return str(created["Id"])

    async def _keep_if_alone(self, container: str, ports: Sequence[int]) -> None:
        try:
            await self._ports.check_alone(container, ports)
        except EngineRefused:
            await self.remove(container)
            raise

    def skip_port(self, refused: EngineRefused) -> bool:
        """Returns whether another port may be free, where the engine refused the start for one that is
        taken."""
        return self._ports.skip(refused)

    async def _fill(self, container: str, workload: Workload) -> None:
        folder = posixpath.dirname(OUTPUT_FILE) if workload.writes_output else ""
        if workload.files or folder:
            path = f"/containers/{container}/archive"
            await self._docker.raw("PUT", path, params={"path": "/"}, data=pack(workload.files, folder))

    async def read_output(self, container: str) -> bytes | None:
        """Returns the output file of a container that has ended."""
        content = b""
        try:
            async with self._docker.stream(
                "GET", f"/containers/{container}/archive", params={"path": OUTPUT_FILE}
            ) as answer:
                async for chunk in answer.chunks():
                    content += chunk
                    if len(content) > LONGEST_OUTPUT + _TAR_ROOM:
                        raise output_too_long()
        except EngineRefused as refused:
            if refused.status != 404:
                raise
            return None
        try:
            file = read_packed(content)
        except tarfile.TarError as error:
            raise EngineError(NONSENSE) from error
        if file is None:
            raise EngineError(f"Write a plain file to {OUTPUT_FILE}: the run left something else there")
        return file

    async def _start(self, container: str) -> None:
        self._watch.begins(container)
        try:
            await self._docker.raw("POST", f"/containers/{container}/start")
        except EngineRefused:
            # A container that cannot start is not left behind; the next attempt makes another.
            await self.remove(container)
            raise


def is_passing(refused: EngineRefused) -> bool:
    return refused.status == 409 or any(word in refused.message for word in PASSING)


def refuse_unmet(limits: EngineLimits, workload: Workload) -> None:
    for field, reason in unmet(limits, Demand(workload.cpu, workload.memory)):
        raise EngineError(f"{field}: {reason}")
