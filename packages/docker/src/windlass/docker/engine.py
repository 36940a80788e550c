"""Runs instances as containers of a Docker engine, on this machine or another machine.

Containers keep running when Windlass ends. One that ends is started again, with a back-off: see `restarts`.
All objects of Windlass have labels. A container's name is derived from (service, generation, index), so that
Windlass finds a container without a record, and the engine ensures that each instance exists only once.
"""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from msgspec.structs import replace

from windlass.base import subprocesses
from windlass.base.locks import Locks
from windlass.base.log import log
from windlass.docker import names
from windlass.docker.client import Away, Docker, EngineRefused
from windlass.docker.client.answers import NOT_AN_ENGINE, refusal
from windlass.docker.client.pulled_images import NOTES_FOLDER, ImageUser, PulledImages
from windlass.docker.containers import ContainerClient, Inspection, is_passing, refuse_unmet
from windlass.docker.descriptions import (
    ContainerSummary,
    container_name,
    generation_of,
    is_chosen,
    presence_of,
)
from windlass.docker.disk_watch import EngineDisk
from windlass.docker.execute import execute
from windlass.docker.execution import DockerExecution, ExecutionFiles
from windlass.docker.export import export_folder
from windlass.docker.images import DockerImages
from windlass.docker.inspection import held_instance, instance, outcome_of
from windlass.docker.listening import listeners, queued
from windlass.docker.machine import DockerMachine, server_host_of
from windlass.docker.memory_watch import MemoryWatch
from windlass.docker.resources import DockerResources
from windlass.docker.restarts import Restarts
from windlass.docker.start_locks import StartLocks
from windlass.docker.watch import EventWatcher
from windlass.engines.engine import (
    UNKNOWN_LIMITS,
    EngineError,
    EngineUnavailable,
    Execution,
    ExecutionRequest,
    Missed,
    Notice,
    Say,
    Sink,
    ignore_lost_lines,
)
from windlass.engines.registries import BuildRegistry, PullRequest, RegistryLogin
from windlass.engines.rollout.engine import RolloutEngine
from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.rollout.removed_generations import RECORDS_FOLDER, RemovedGenerations
from windlass.engines.workload import (
    Artifact,
    Instance,
    Outcome,
    Phase,
    Presence,
    ServiceAddress,
    StoredData,
    Usage,
    Workload,
)

_FIGURE_LIMIT: Final = 2**63


async def read_usage(docker: Docker, container: ContainerSummary) -> tuple[str, Usage] | None:
    """Returns a container's name and resource usage; None if the container has ended or is about to end, or
    if the engine cannot measure it."""
    path = f"/containers/{container['Id']}/stats"
    try:
        async with asyncio.timeout(INSPECT_TIMEOUT):
            stats = await docker.json("GET", path, params={"stream": False, "one-shot": True})
    except TimeoutError:
        return None
    except EngineRefused as refused:
        if refused.status in (404, 409):
            return None
        raise
    return (container_name(container), usage_of(stats)) if stats else None


def usage_of(stats: Mapping[str, Any]) -> Usage:
    memory = stats.get("memory_stats") or {}
    details = memory.get("stats") or {}
    # Page cache that the kernel can reclaim; the name differs between cgroup versions.
    spare = details.get("total_inactive_file", details.get("inactive_file", 0))
    processor = (stats.get("cpu_stats") or {}).get("cpu_usage") or {}
    return Usage(
        cpu_ms=_plausible_amount(processor.get("total_usage", 0)) // 1_000_000,
        memory=max(0, _plausible_amount(memory.get("usage", 0)) - _plausible_amount(spare)),
    )


def _plausible_amount(figure: object) -> int:
    """Returns a measurement of the engine, which is not trusted. Raises ValueError for an implausible
    value."""
    if not isinstance(figure, int) or not 0 <= figure < _FIGURE_LIMIT:
        raise ValueError("not a measurement")
    return figure


RETRY_PAUSES: Final = (0.0, 0.1, 0.5, 2.0)
"""Pauses between attempts, in seconds. While the engine creates a container for an earlier request (which may
have been cancelled), its name is in use, but the container cannot be found."""
AT_ONCE: Final = 16
PING_TIMEOUT: Final = 5.0
STOP_GRACE_SECONDS: Final = 10.0
INSPECT_TIMEOUT: Final = 2.0
"""Time limit in seconds for describing a container, and for measuring it. The engine cannot describe a
container while its start hangs, or the start of a command in it."""
FIRST_INSPECT_TIMEOUT: Final = 10.0
"""Time limit in seconds for describing a running container for the first time. An engine may be busy."""
REQUERY_SECONDS: Final = 60.0
"""Seconds during which a container that could not be described is not queried again."""

_log = log("engines.docker")


class DockerEngine(RolloutEngine):
    name = "docker"
    takes: Literal["native", "image"] = "image"
    has_go_between = True

    def __init__(
        self,
        *,
        host: str | Docker,
        folder: Path,
        installation: str,
        registry: BuildRegistry | None = None,
        pool: IPv4Network | None = None,
        disk_reserve: int = 0,
    ) -> None:
        """`installation`: id that distinguishes this installation's objects on a shared engine. `folder`:
        persistent data about this engine. `pool`: the subnets of networks. `disk_reserve`: bytes of the
        engine's disk to keep free, if it is a disk of this machine."""
        super().__init__()
        self.limits = UNKNOWN_LIMITS
        self._docker = host if isinstance(host, Docker) else Docker(host, disk_reserve=disk_reserve)
        self._machine = DockerMachine(self._docker, folder / "identity")
        self.identity = self._machine.remembered()
        self._installation = installation
        self._resources = DockerResources(self._docker, installation, pool)
        self._images = DockerImages(self._docker, PulledImages(self._docker, folder / NOTES_FOLDER), registry)
        self._restarts = Restarts(self._start_again)
        self._watch = EventWatcher(
            self._docker, installation, folder / "read", self._learn_machine, self._restarts
        )
        self._removed = RemovedGenerations(folder / RECORDS_FOLDER, durable=True)
        self._starts = StartLocks(self._docker, installation, folder / "starts")
        self._containers = ContainerClient(
            self._docker,
            installation,
            self._resources,
            self._images,
            self._watch,
            self._restarts,
            self._starts,
        )
        self._locks = Locks()
        self._executions = ExecutionFiles(folder / "executions")
        self._held: dict[str, tuple[float, str]] = {}
        """Containers that the engine could not describe, with the end of the period in which they are not
        queried again, and their state."""
        self._started: dict[str, tuple[Workload, int]] = {}
        """Workloads with volumes that this server has started, with the index, by the name of the container.
        Their containers may have to be created anew while the reconciler waits for a one-off run."""
        self._memory = MemoryWatch(self._list_running, self._measure, self._end_for)
        self._disk = EngineDisk(
            self._docker, disk_reserve, self._list_watched, self._containers.inspect, self._empty
        )
        self._watch_tasks: list[asyncio.Task[None]] = []
        self._described: dict[str, Instance] = {}
        """The last descriptions of running containers."""

    async def start(self, notice: Notice, sink: Sink, on_missed_notices: Missed = ignore_lost_lines) -> None:
        await super().start(notice, sink)
        await self._watch.start(notice, sink, on_missed_notices, PING_TIMEOUT)
        if self._docker.is_on_this_machine:
            self._watch_tasks = [asyncio.create_task(each.run()) for each in (self._memory, self._disk)]

    async def _learn_machine(self) -> None:
        """Reads the machine's limits and identity. Called for each new connection, which may lead to another
        machine."""
        self._held.clear()
        self.limits, self.identity = await self._machine.learn()
        self._executions.start_ending_orphans(self._docker)

    @property
    def is_unavailable(self) -> bool:
        return self._watch.is_unavailable

    @property
    def server_host(self) -> str:
        return server_host_of(self._docker)

    async def stop(self) -> None:
        await super().stop()
        for task in self._watch_tasks:
            task.cancel()
        await asyncio.gather(*self._watch_tasks, return_exceptions=True)
        await self._watch.stop()
        await self._restarts.stop()
        await self._executions.stop()
        await self._starts.close()
        await self._docker.close()

    async def run(self, workload: Workload, index: int) -> Instance:
        name = names.container(self._installation, workload.service, workload.generation, index)
        with self._translated_errors():
            async with self._locks[name]:
                detail = await self._start_copy(workload, index, name)
                if workload.volumes:
                    self._started[name] = workload, index
                return self._instance_of_inspection(
                    detail or await self._containers.inspect(name) or _refuse_removed_workload(workload)
                )

    async def once(self, workload: Workload, index: int = 0) -> Outcome:
        name = names.container(self._installation, workload.service, workload.generation, index)
        with self._translated_errors():
            async with self._locks[name]:
                await self._start_copy(workload, index, name, runs_once=True)
                container = str(
                    (await self._containers.inspect(name) or _refuse_removed_workload(workload))["Id"]
                )
            detail = await self._containers.wait_for_end(container)
            self._refuse_removed(workload)
            await self._watch.wait_until_read(container)
            return outcome_of(detail or _refuse_removed_workload(workload))

    async def read_output(self, workload: Workload, index: int = 0) -> bytes | None:
        name = names.container(self._installation, workload.service, workload.generation, index)
        with self._translated_errors():
            return await self._containers.read_output(name)

    async def copies(self, service: str) -> list[Instance]:
        return await self._list_instances(service=service)

    async def all(self) -> list[Instance]:
        return await self._list_instances()

    async def present(self) -> Sequence[Presence]:
        with self._translated_errors():
            return [
                presence_of(container)
                for container in await self._containers.list()
                if container["State"] != "removing"
            ]

    async def resolve(self, request: PullRequest, write_line: Say) -> str:
        with self._translated_errors():
            return await self._images.resolve(request, write_line)

    async def prepare(
        self,
        artifact: Artifact,
        write_line: Say,
        login: RegistryLogin | None = None,
        org: str = "",
        service: str = "",
    ) -> None:
        user = ImageUser(service, org) if service else None
        with self._translated_errors():
            await self._images.have(artifact.ref, write_line, login, user)

    async def export(self, artifact: Artifact, folder: str, destination: Path) -> Path:
        with self._translated_errors():
            inside = posixpath.join(artifact.workdir or "/", folder)
            await export_folder(self._docker, self._installation, artifact.ref, inside, destination)
        return destination

    async def end(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = 10.0,
    ) -> None:
        with self._translated_errors():
            copies = await self._containers.list(service=service)
            if indexes is None:
                ending = {generation_of(copy) for copy in copies} if generation is None else {generation}
                self._removed.note(service, ending)
                self._started = {
                    name: entry
                    for name, entry in self._started.items()
                    if entry[0].service != service or entry[0].generation not in ending
                }
                # Starts before the note have created their containers by now; later starts see the note.
                chosen = [
                    container
                    for container in await self._containers.list(service=service)
                    if generation_of(container) in ending
                ]
            else:
                chosen = [container for container in copies if is_chosen(container, generation, indexes)]
            await subprocesses.run_together(*(self._end(container, grace) for container in chosen))

    async def discard(self, service: str) -> None:
        await self.remove(service, grace=0)
        with self._translated_errors():
            await self._resources.discard_volumes(service)
            await self._resources.discard_networks()

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        with self._translated_errors():
            return await execute(self._docker, instance.id, command, timeout)

    async def open_execution(self, instance: Instance, request: ExecutionRequest) -> Execution:
        execution = DockerExecution(
            self._docker, instance.id, self._executions, has_terminal=request.terminal is not None
        )
        with self._translated_errors():
            await execution.start(request)
        return execution

    async def listeners(self, instance: Instance) -> Collection[ListeningPort]:
        with self._translated_errors():
            return await listeners(self._docker, instance.id)

    async def queued(self, instance: Instance, port: int) -> int | None:
        with self._translated_errors():
            return await queued(self._docker, self._containers, instance.id, port)

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        return ServiceAddress(names.unique_name(service, name), internal)

    async def usage(self) -> Mapping[str, Usage]:
        with self._translated_errors():
            running = [
                container
                for container in await self._containers.list()
                if container["State"] == "running" and not self._is_held(container["Id"], "running")
            ]
            usages = await subprocesses.run_some(
                AT_ONCE, [read_usage(self._docker, container) for container in running]
            )
        return dict(usage for usage in usages if usage)

    async def services(self) -> Mapping[str, StoredData]:
        with self._translated_errors():
            removed = {service: StoredData() for service in self._removed.services()}
            return removed | await self._stored_data()

    async def sweep(self, deleted_services: Collection[str]) -> None:
        with self._translated_errors():
            volumes = await self._stored_data() if deleted_services else {}
            await subprocesses.run_some(
                AT_ONCE, [self.discard(service) for service in volumes.keys() & set(deleted_services)]
            )
            await self._resources.discard_networks()
            await self._starts.sweep()
        self._removed.forget(deleted_services)

    async def set_aside(self, service: str, destination: Path) -> None:
        """Stops the service's containers, until `run` starts them again. Volumes stay on the engine."""
        with self._translated_errors():
            containers = await self._containers.list(service=service)
            await subprocesses.run_together(*(self._stop_container(container) for container in containers))

    async def put_back(self, service: str, source: Path) -> None:
        """Does nothing: `set_aside` moved nothing."""

    async def problem(self) -> str:
        try:
            async with asyncio.timeout(PING_TIMEOUT):
                await self._docker.ping()
        except TimeoutError:
            return f"The Docker engine at {self._docker.host} does not answer"
        except (Away, EngineRefused) as error:
            return str(error)
        return ""

    async def volume_sizes(self) -> Mapping[str, int]:
        with self._translated_errors():
            return await self._resources.volume_sizes()

    async def _stored_data(self) -> dict[str, StoredData]:
        """Returns the stored data of each service: name, number of instances and number of volumes."""
        copies, volumes = await self._containers.list(), await self._resources.volumes_by_service()
        instances = Counter(container["Labels"].get(names.SERVICE_LABEL, "") for container in copies)
        titles = {
            container["Labels"].get(names.SERVICE_LABEL, ""): container["Labels"].get(names.ALIAS_LABEL, "")
            for container in copies
        }
        return {
            service: StoredData(
                name=titles.get(service, ""), instances=instances[service], volumes=volumes[service]
            )
            for service in sorted(instances | volumes)
        }

    async def _start_copy(
        self, workload: Workload, index: int, name: str, *, runs_once: bool = False
    ) -> Inspection | None:
        """Starts a container, unless its generation was removed. Returns its description if it was already
        running."""
        if not runs_once:
            await self._allow_return(workload)
        pauses = iter(RETRY_PAUSES)
        while True:
            self._refuse_removed(workload)
            refuse_unmet(self.limits, workload)
            await self._disk.refuse_early(name)
            try:
                detail = await self._containers.run(workload, index, name, runs_once=runs_once)
                break
            except EngineRefused as refused:
                pause = 0.0 if self._containers.skip_port(refused) else next(pauses, None)
                if pause is None or not is_passing(refused):
                    raise
            await asyncio.sleep(pause)
        if workload.generation in self._removed.of(workload.service):  # removed meanwhile by another server
            await self._containers.remove(name)
        self._refuse_removed(workload)
        return detail

    async def confirm_end(self, copy: Instance) -> Instance:
        if copy.phase is Phase.RUNNING:
            return copy
        await self._watch.wait_until_noted(copy.id)
        return next((each for each in await self.copies(copy.service) if each.id == copy.id), copy)

    async def _start_again(self, container: str) -> None:
        """Starts a container that has ended, unless it was removed."""
        service = ""
        try:
            with self._translated_errors():
                if (detail := await self._containers.inspect(container)) is None:
                    return
                service, generation, index = names.identity(detail["Config"]["Labels"])
                name = names.container(self._installation, service, generation, index)
                async with self._locks[name]:
                    if generation in self._removed.of(service):
                        return
                    if not await self._containers.start_again(container):
                        if started := self._started.get(name):
                            await self._start_copy(*started, name)
                        self._watch.notify(service)
        except EngineError as error:
            # A container that fails to start is removed; whoever is notified creates a new one.
            extra = {"container": container, "why": str(error)}
            _log.warning("a container cannot be started again", extra=extra)
            if service:
                self._watch.notify(service)

    async def _end(self, container: ContainerSummary, grace: float) -> None:
        async with self._locks[container_name(container)]:
            await self._containers.stop(container["Id"], grace)
            await self._containers.remove(container["Id"])

    async def _list_watched(self) -> Sequence[ContainerSummary]:
        return await self._containers.list() if self._watch.is_reader else ()

    async def _list_running(self) -> Sequence[ContainerSummary]:
        return [each for each in await self._list_watched() if each["State"] == "running"]

    async def _measure(self, container: ContainerSummary) -> int:
        usage = await read_usage(self._docker, container)
        return usage[1].memory if usage else 0

    async def _end_for(self, container: ContainerSummary, reason: str) -> None:
        self._watch.explain(container["Id"], reason)
        await self._containers.kill(container["Id"])

    async def _empty(self, container: ContainerSummary, reason: str) -> None:
        """Removes a container with its files. Whoever is notified creates a new one."""
        id, name = container["Id"], container_name(container)
        async with self._locks[name]:
            self._restarts.hand_over(id, name)
            self._watch.hand_over(name, reason)
            await self._containers.remove(id)
        self._watch.notify(container["Labels"][names.SERVICE_LABEL])

    async def _stop_container(self, container: ContainerSummary) -> None:
        async with self._locks[container_name(container)]:
            await self._containers.stop(container["Id"], STOP_GRACE_SECONDS)

    async def _allow_return(self, workload: Workload) -> None:
        """Allows a removed generation to run again if a later one was removed after it and no container of a
        later one is left: then it replaces one whose release failed."""
        if workload.generation in self._removed.of(workload.service):
            copies = await self._containers.list(service=workload.service)
            later = any(generation_of(container) > workload.generation for container in copies)
            self._removed.returns(workload.service, workload.generation, later=later)

    def _refuse_removed(self, workload: Workload) -> None:
        if workload.generation in self._removed.of(workload.service):
            raise EngineError(
                f"Deployment {workload.generation} of {workload.name} was removed, and is not started again"
            )

    async def _list_instances(self, **labels: str) -> list[Instance]:
        with self._translated_errors():
            copies = await self._containers.list(**labels)
            if not labels:
                present = {copy["Id"] for copy in copies}
                self._described = {id: seen for id, seen in self._described.items() if id in present}
            instances = await subprocesses.run_some(
                AT_ONCE, [self._instance_of_listed(copy) for copy in copies]
            )
        return sorted(filter(None, instances), key=lambda copy: (copy.service, copy.generation, copy.index))

    async def _instance_of_listed(self, container: ContainerSummary) -> Instance | None:
        """Returns the instance of a listed container; None if the container no longer exists. If the engine
        cannot describe the container, because its start or the start of a command in it hangs, returns an
        instance with what is known of it, so that other instances are not delayed."""
        id, state = container["Id"], container["State"]
        if self._is_held(id, state):
            return self._last_known_instance(container)
        try:
            async with asyncio.timeout(self._inspect_timeout(id, state)):
                detail = await self._containers.inspect(id)
        except TimeoutError:
            now = time.monotonic()
            self._held = {each: held for each, held in self._held.items() if now < held[0]}
            self._held[id] = now + REQUERY_SECONDS, state
            return self._last_known_instance(container)
        self._held.pop(id, None)
        self._described.pop(id, None)
        if detail is None or detail["State"]["Status"] == "removing":
            return None
        seen = self._instance_of_inspection(detail)
        if seen.phase is Phase.RUNNING:
            self._described[id] = seen
        return seen

    def _is_held(self, id: str, state: str) -> bool:
        until, held_state = self._held.get(id, (0.0, ""))
        return held_state == state and time.monotonic() < until

    def _inspect_timeout(self, id: str, state: str) -> float:
        """Returns the time limit for a description. A running instance that is not known yet gets more time,
        because its routes would end, unless many such instances would delay the others."""
        is_new = state == "running" and id not in self._described
        return FIRST_INSPECT_TIMEOUT if is_new and len(self._held) < AT_ONCE else INSPECT_TIMEOUT

    def _last_known_instance(self, container: ContainerSummary) -> Instance:
        known = self._described.get(container["Id"]) if container["State"] == "running" else None
        return known or held_instance(container, self._docker.address)

    def _instance_of_inspection(self, detail: Inspection) -> Instance:
        id = detail["Id"]
        seen = instance(
            detail,
            self._docker.address,
            self._watch.last_end(id),
            self._restarts.count(id),
            is_due=self._restarts.is_due(id),
            was_cut_off=self._watch.was_cut_off(id, detail["State"]),
        )
        # Container addresses of another machine are not reachable from here, or belong to other hosts.
        return replace(seen, inside="") if self._docker.is_elsewhere else seen

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except Away as away:
            raise EngineUnavailable(self._docker.advice(away)) from away
        except EngineRefused as refused:
            raise EngineError(refusal(refused.message)) from refused
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise EngineError(NOT_AN_ENGINE) from error


def _refuse_removed_workload(workload: Workload) -> NoReturn:
    raise EngineError(f"{workload.name} was removed from the Docker engine while it was being started")
