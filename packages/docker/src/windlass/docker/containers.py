"""Creates, starts, stops and removes single containers. The caller must hold the container's lock."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from math import ceil
from typing import Any, Final

from windlass.base.log import log
from windlass.base.subprocesses import in_thread
from windlass.docker import create, start_files
from windlass.docker import names as words
from windlass.docker.archives import FILE, BadEngineArchive, read_entries
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.answers import NOT_AN_ENGINE
from windlass.docker.client.pulled_images import ImageUser
from windlass.docker.descriptions import ContainerList, ContainerSummary, has_labels, instances_of, is_cut_off
from windlass.docker.host_ports import HostPorts
from windlass.docker.hung_containers import kill_processes
from windlass.docker.images import DockerImages
from windlass.docker.mount_points import examine_mount_points
from windlass.docker.resources import DockerResources
from windlass.docker.restarts import Restarts
from windlass.docker.start_locks import StartLocks
from windlass.docker.volume_files import may_be_redirected, prepare_volumes
from windlass.docker.watch import EventWatcher
from windlass.engines.engine import Demand, EngineError, EngineLimits, output_too_long, unmet
from windlass.engines.workload import MAX_OUTPUT_BYTES, OUTPUT_FILE, Workload

_READABLE_BY_ALL: Final = 0o444
"""Mode of files in a container. An image may run as any user; other users of the machine cannot reach the
files."""
_WRITABLE_BY_ALL: Final = 0o1777


def pack(files: Mapping[str, bytes], folder: str = "") -> bytes:
    """Packs files into a tar archive for a container that is not started yet, with an optional `folder` that
    every user of the container may write to."""
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
    """Returns the content of an archive's only file; None if the entry is not a regular file. Raises
    BadEngineArchive."""
    file = io.BytesIO(archive)
    entry = next(read_entries(file), None)
    return file.read(entry.size) if entry is not None and entry.kind == FILE else None


def _relative_path(path: str) -> str:
    name = posixpath.normpath("/" + path).lstrip("/")
    if not name or "\0" in name:
        raise EngineError(f"{path!r} is no path for a file: give one such as /etc/app/config.json")
    return name


STOP_TIMEOUT: Final = 60.0
"""Seconds that the engine may need to stop a container in addition to its grace period."""

# Transient failures of creating or starting a container, which a retry fixes. "already exists", "id already
# in use": remains of a container that an engine was starting when it was killed.
TRANSIENT_ERRORS: Final = (
    "network",
    "already in use",
    "port is already allocated",
    "marked for removal",
    "already exists",
)

Inspection = Mapping[str, Any]
"""The engine's description of a container."""

_MAX_TAR_OVERHEAD_BYTES: Final = 65_536
"""Maximum overhead of an archive with one file, in bytes."""
_log = log("engines.docker")


class ContainerClient:
    def __init__(
        self,
        docker: Docker,
        installation: str,
        resources: DockerResources,
        images: DockerImages,
        watch: EventWatcher,
        restarts: Restarts,
        starts: StartLocks,
    ) -> None:
        """`starts`: locks by service, and by container for one whose only volumes are its own. While volumes
        are examined, none of their containers starts."""
        self._starts = starts
        self._restarts = restarts
        self._docker, self._installation = docker, installation
        self._resources, self._images, self._watch = resources, images, watch
        self._ports = HostPorts(docker)

    async def list(self, **labels: str) -> list[ContainerSummary]:
        """Returns the containers of this installation with these labels. Filters the answer again, because
        the engine is not trusted."""
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

    async def run(self, workload: Workload, index: int, name: str, *, runs_once: bool) -> Inspection | None:
        """Ensures that a container runs (or has run, if `runs_once`). Returns its description if it was
        already running."""
        if not workload.volumes:
            return await self._run(workload, index, name, runs_once=runs_once)
        async with self._starts.of(workload.service):
            return await self._run(workload, index, name, runs_once=runs_once)

    async def _run(self, workload: Workload, index: int, name: str, *, runs_once: bool) -> Inspection | None:
        inspection = await self.inspect(name)
        if inspection and inspection["State"]["Status"] in ("removing", "dead"):
            await self.remove(inspection["Id"])
            inspection = None
        elif inspection and inspection["Config"]["Labels"].get(words.DEPLOYMENT_LABEL) != workload.deployment:
            # The same number of another deployment: a restored database assigns numbers again.
            await self.stop(inspection["Id"], workload.grace)
            await self.remove(inspection["Id"])
            inspection = None
        elif (
            inspection
            and not runs_once  # what it has done already must not be done twice
            and inspection["State"]["Status"] == "running"
            and is_cut_off(inspection)
        ):
            await self.stop(inspection["Id"], workload.grace)
            await self.remove(inspection["Id"])
            inspection = None
        elif inspection and not runs_once and await self._is_replaced(inspection):
            await self.remove(inspection["Id"])
            inspection = None
        container = inspection["Id"] if inspection else await self._make(workload, index, name, runs_once)
        match inspection["State"]["Status"] if inspection else "created":
            case "running" | "restarting":
                pass
            case "exited" if runs_once or self._restarts.is_due(container):
                pass
            case "paused":
                await self._docker.raw("POST", f"/containers/{container}/unpause")
            case status:
                # The server may have been killed before it copied the files into the container.
                self._watch.begins(container)
                await self._start(container, status, workload)
        self._watch.listen(container, words.labels(self._installation, workload, index))
        return inspection if inspection and inspection["State"]["Status"] == "running" else None

    async def wait_for_end(self, container: str) -> Inspection | None:
        """Waits until a container has exited, and returns its description; None if it was removed."""
        while inspection := await self.inspect(container):
            if inspection["State"]["Status"] == "removing":
                return None
            if inspection["State"]["Status"] in ("exited", "dead"):
                return inspection
            try:
                await self._docker.raw("POST", f"/containers/{container}/wait", timeout=None)
            except EngineRefused as refused:
                if refused.status != 404:
                    raise
        return None

    async def stop(self, container: str, grace: float) -> None:
        """Stops a container. Waits until its last output was read."""
        try:
            await self._stop(container, grace)
        except Away:
            if self._docker.is_elsewhere or not await in_thread(kill_processes, container):
                raise
            _log.warning("the Docker engine could not end a container: its processes were killed")
            await self._stop(container, 0)
        await self._watch.wait_until_read(container)

    async def _stop(self, container: str, grace: float) -> None:
        path, params = f"/containers/{container}/stop", {"t": ceil(grace)}
        self._restarts.note_stop(container)  # the signal of its image may look harmless
        try:
            await self._docker.raw("POST", path, params=params, timeout=grace + STOP_TIMEOUT)
        except EngineRefused as refused:
            if refused.status != 404:
                raise

    async def kill(self, container: str) -> None:
        """Kills a container, which is started again after a pause."""
        self._restarts.expect_kill(container)
        try:
            await self._docker.raw("POST", f"/containers/{container}/kill")
        except EngineRefused as refused:
            if refused.status not in (404, 409):
                raise

    async def remove(self, container: str) -> None:
        """Removes a container, running or not, with its anonymous volumes."""
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
            await self._docker.raw("POST", path, params={"condition": "removed"}, timeout=STOP_TIMEOUT)

    async def _make(self, workload: Workload, index: int, name: str, runs_once: bool) -> str:
        resources = self._resources
        await resources.check_volumes(workload)  # first: without the volumes, an image is not needed
        user = ImageUser(workload.service, workload.org)
        image = await self._images.have(workload.artifact.ref, user=user)
        await resources.make_volumes(workload)
        if workload.volumes:
            others = await self.list(service=workload.service)
            await prepare_volumes(self._docker, self._installation, workload, image, is_alone=not others)
        count = len(create.published_ports(workload, runs_once=runs_once))
        async with resources.network(workload) as network, self._ports.claim(workload.org, count) as ports:
            body = create.container(
                workload,
                index,
                installation=self._installation,
                network=network,
                aliases=()
                if runs_once
                else words.aliases(workload),  # only long-running instances get host names
                publish=self._docker.address,
                host_ports=ports,
                image=image,
                runs_once=runs_once,
            )
            created = await self._docker.json("POST", "/containers/create", params={"name": name}, body=body)
        for warning in created.get("Warnings") or ():
            _log.warning("the Docker engine warns", extra={"container": name, "reason": warning})
        self._restarts.take_over(name, str(created["Id"]))
        self._watch.take_over(name, str(created["Id"]))
        await self._remove_if_port_shared(str(created["Id"]), ports)
        return str(created["Id"])

    async def _remove_if_port_shared(self, container: str, ports: Sequence[int]) -> None:
        try:
            await self._ports.check_alone(container, ports)
        except EngineRefused:
            await self.remove(container)
            raise

    def skip_port(self, refusal: EngineRefused) -> bool:
        """Returns whether to retry with another port, because the engine refused the start for a port in
        use."""
        return self._ports.skip(refusal)

    async def _copy_files_into(self, container: str, workload: Workload) -> None:
        folder = posixpath.dirname(OUTPUT_FILE) if workload.writes_output else ""
        if workload.files or folder:
            path = f"/containers/{container}/archive"
            await self._docker.raw("PUT", path, params={"path": "/"}, data=pack(workload.files, folder))

    async def read_output(self, container: str) -> bytes | None:
        """Returns the content of an exited container's output file; None if it does not exist."""
        content = b""
        try:
            async with self._docker.stream(
                "GET", f"/containers/{container}/archive", params={"path": OUTPUT_FILE}
            ) as answer:
                async for chunk in answer.chunks():
                    content += chunk
                    if len(content) > MAX_OUTPUT_BYTES + _MAX_TAR_OVERHEAD_BYTES:
                        raise output_too_long()
        except EngineRefused as refused:
            if refused.status != 404:
                raise
            return None
        try:
            file = read_packed(content)
        except BadEngineArchive as error:
            raise EngineError(NOT_AN_ENGINE) from error
        if file is None:
            raise EngineError(f"Write a plain file to {OUTPUT_FILE}: the run left something else there")
        return file

    async def start_again(self, container: str) -> bool:
        """Starts a container that has ended; does nothing if it runs or is gone. Returns False if the
        container was removed instead, because it has to be created anew."""
        detail = await self.inspect(container) or {}
        shared, *_ = _mounts_of(detail)
        service = words.identity(detail["Config"]["Labels"])[0] if shared else ""
        async with self._starts.of(service) if shared else nullcontext():
            detail = await self.inspect(container) or {}
            if not detail or detail["State"]["Status"] != "exited":
                return True
            if await self._is_replaced(detail):
                self._restarts.hand_over(container, str(detail["Name"]).lstrip("/"))
                await self.remove(container)
                return False
            await self._start(container, "exited")
        return True

    async def _is_replaced(self, detail: Inspection) -> bool:
        """Returns whether a container that has ended must not be examined, and so not be started again: its
        program may have left links that another container of the service could change meanwhile."""
        if detail["State"]["Status"] != "exited" or self._restarts.is_due(detail["Id"]):
            return False
        shared, own, _ = _mounts_of(detail)
        service, *_ = words.identity(detail["Config"]["Labels"])
        return may_be_redirected(shared, own) and len(await self.list(service=service)) > 1

    async def _start(self, container: str, status: str, workload: Workload | None = None) -> None:
        """Examines and starts a container, after copying the files of its workload into it. Does nothing if
        its status has changed: another server has started it."""
        try:
            detail = await self.inspect(container)
            shared, own, has_etc_copy = _mounts_of(detail or {})
            is_alone = bool(own or has_etc_copy) and not shared
            async with self._starts.of(container) if is_alone else nullcontext():
                detail = await self.inspect(container) if is_alone else detail
                if detail is not None and detail["State"]["Status"] != status:
                    return
                if workload is not None:
                    if has_etc_copy:  # files of the service could hide those of the image
                        await self._examine(container, shared, own, has_etc_copy=True)
                    await self._copy_files_into(container, workload)
                await self._examine(container, shared, own, has_etc_copy=has_etc_copy)
                await self._docker.raw("POST", f"/containers/{container}/start")
        except (EngineRefused, EngineError):
            # A container that fails to start is removed; the next attempt creates a new one.
            await self.remove(container)
            raise

    async def _examine(self, container: str, shared: set[str], own: set[str], *, has_etc_copy: bool) -> None:
        await examine_mount_points(self._docker, container, shared, own)
        await start_files.examine(self._docker, container, shared | own, has_etc_copy=has_etc_copy)


def _mounts_of(detail: Inspection) -> tuple[set[str], set[str], bool]:
    """Returns the paths of the volumes of the service, those of the container's own volumes, and whether it
    has a copy of `/etc`, which is not among them."""
    mounts = {str(mount.get("Destination")) for mount in detail.get("Mounts") or ()}
    defined = (detail.get("HostConfig") or {}).get("Mounts") or ()
    has_etc_copy = any(
        mount.get("Target") == create.ETC_COPY["Target"] and not mount.get("Source") for mount in defined
    )
    if has_etc_copy:
        mounts.discard(create.ETC_COPY["Target"])
    shared = mounts & {posixpath.normpath(f"/{str(mount.get('Target')).lstrip('/')}") for mount in defined}
    return shared, mounts - shared, has_etc_copy


def is_passing(refusal: EngineRefused) -> bool:
    return refusal.status == 409 or any(word in refusal.message for word in TRANSIENT_ERRORS)


def refuse_unmet(limits: EngineLimits, workload: Workload) -> None:
    for field, reason in unmet(limits, Demand(workload.cpu, workload.memory)):
        raise EngineError(f"{field}: {reason}")
