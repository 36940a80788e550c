"""Instances as containers of a Docker engine, here or on another machine.

The engine restarts them itself, with growing pauses, and they go on when Windlass ends. Whatever is ours
bears labels, and names of containers follow from (service, generation, index): so nothing has to be
remembered to find it again, and there are never two of one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypeVar

from windlass.base import subprocesses as group
from windlass.base.locks import Locks
from windlass.base.log import log
from windlass.core.deploy.workload import (
    Artifact,
    Instance,
    Outcome,
    ServiceAddress,
    StoredData,
    Usage,
    Workload,
)
from windlass.docker import NO_ANSWER, Away, Docker, EngineRefused
from windlass.engines.by_hand.engine import EngineByHand
from windlass.engines.by_hand.removed_generations import RemovedGenerations
from windlass.engines.docker import create
from windlass.engines.docker import names as words
from windlass.engines.docker.execute import execute
from windlass.engines.docker.files import packed
from windlass.engines.docker.inspection import ended, instance
from windlass.engines.docker.resources import DockerResources
from windlass.engines.docker.usage import used
from windlass.engines.docker.watch import EventWatcher
from windlass.engines.engine import EngineAway, EngineError, Notice, Sink

T = TypeVar("T")

TRIES: Final = 3
AT_ONCE: Final = 16
SOON: Final = 5.0
GRACE: Final = 10.0
LEAVING: Final = 60.0
"""Seconds that the engine may take to stop a container beyond its grace."""

# Failures between creating and starting a container that creating it again fixes.
# "already exists": an engine that was killed while it started a container finds a trace of that.
PASSING: Final = (
    "network",
    "address already in use",
    "port is already allocated",
    "marked for removal",
    "already exists",
)

_log = log("engines.docker")


class DockerEngine(EngineByHand):
    name = "docker"
    takes: Literal["native", "image"] = "image"
    has_go_between = True

    def __init__(self, *, host: str | Docker, folder: Path, installation: str) -> None:
        """`installation` tells what is ours from what another Windlass has on the same engine; `folder` keeps
        what must outlive Windlass and belongs to this engine alone."""
        super().__init__()
        self._docker = host if isinstance(host, Docker) else Docker(host)
        self._installation = installation
        self._place = DockerResources(self._docker, installation)
        self._watch = EventWatcher(self._docker, installation, folder / "read")
        self._removed = RemovedGenerations(folder / "removed", durable=True)
        self._locks = Locks()

    async def start(self, notice: Notice, sink: Sink) -> None:
        await super().start(notice, sink)
        await self._watch.start(notice, sink, SOON)

    async def stop(self) -> None:
        await super().stop()
        await self._watch.stop()
        await self._docker.close()

    async def run(self, wanted: Workload, index: int) -> Instance:
        name = words.container(self._installation, wanted.service, wanted.generation, index)
        with _translated():
            async with self._locks[name]:
                said = await self._begun(wanted, index, name)
                return self._instance(said or await self._inspect(name) or _vanished(wanted))

    async def once(self, wanted: Workload, index: int = 0) -> Outcome:
        name = words.container(self._installation, wanted.service, wanted.generation, index)
        with _translated():
            async with self._locks[name]:
                await self._begun(wanted, index, name, once=True)
                container = str((await self._inspect(name) or _vanished(wanted))["Id"])
            said = await self._over(container)
            self._refuse_removed(wanted)
            await self._watch.silent(container)
            return ended(said or _vanished(wanted))

    async def copies(self, service: str) -> list[Instance]:
        return await self._instances(service=service)

    async def all(self) -> list[Instance]:
        return await self._instances()

    async def prepare(self, artifact: Artifact, say: Callable[[str], None]) -> None:
        with _translated():
            await self._place.image(artifact.ref, say)

    async def end(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = 10.0,
    ) -> None:
        with _translated():
            there = await self._containers(service=service)
            if indexes is None:
                doomed = {_generation(each) for each in there} if generation is None else {generation}
                self._removed.note(service, doomed)
                # What was begun before that was noted is there by now; what begins later finds the note.
                meant = [
                    each for each in await self._containers(service=service) if _generation(each) in doomed
                ]
            else:
                meant = [each for each in there if _meant(each, generation, indexes)]
            await group.run_together(*(self._end(each, grace) for each in meant))

    async def discard(self, service: str) -> None:
        await self.remove(service, grace=0)
        with _translated():
            await self._place.discard_volumes(service)
            await self._place.discard_networks()

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        with _translated():
            return await execute(self._docker, instance.id, command, timeout)

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        return ServiceAddress(words.sure(service, name), internal)

    async def usage(self) -> Mapping[str, Usage]:
        with _translated():
            running = [each for each in await self._containers() if each["State"] == "running"]
            found = await _some_at_once([self._used(each) for each in running])
        return dict(each for each in found if each)

    async def services(self) -> Mapping[str, StoredData]:
        with _translated():
            return {
                **{service: StoredData() for service in self._removed.services()},
                **await self._kept(),
            }

    async def sweep(self, erase: Collection[str]) -> None:
        with _translated():
            there = await self._kept() if erase else {}
            await _some_at_once([self.discard(service) for service in there.keys() & set(erase)])
            await self._place.discard_networks()
        self._removed.forget(erase)

    async def set_aside(self, service: str, into: Path) -> None:
        """Stops its containers, until `run` starts them again; nothing has to be moved."""
        with _translated():
            await group.run_together(*(self._halt(each) for each in await self._containers(service=service)))

    async def put_back(self, service: str, out: Path) -> None:
        """Does nothing: `set_aside` moved nothing."""

    async def trouble(self) -> str:
        try:
            async with asyncio.timeout(SOON):
                await self._docker.ping()
        except TimeoutError:
            return f"The Docker engine at {self._docker.host} does not answer"
        except (Away, EngineRefused) as error:
            return str(error)
        return ""

    async def _kept(self) -> dict[str, StoredData]:
        """Returns what the engine has of each service."""
        containers, volumes = await self._containers(), await self._place.volumes_by_service()
        instances = Counter(each["Labels"][words.SERVICE] for each in containers)
        names = {each["Labels"][words.SERVICE]: each["Labels"].get(words.ALIAS, "") for each in containers}
        return {
            service: StoredData(
                name=names.get(service, ""), instances=instances[service], volumes=volumes[service]
            )
            for service in sorted(instances | volumes)
        }

    async def _begun(
        self, wanted: Workload, index: int, name: str, *, once: bool = False
    ) -> dict[str, Any] | None:
        """Returns the engine's description of the container, if it was running already."""
        await self._take_leave_of_removal(wanted)
        for attempt in range(1, TRIES + 1):
            self._refuse_removed(wanted)
            try:
                said = await self._running(wanted, index, name, once)
                break
            except EngineRefused as refused:
                if attempt == TRIES or not _passes(refused):
                    raise
        if wanted.generation in self._removed.of(wanted.service):  # meanwhile, by another
            await self._gone(name)
        self._refuse_removed(wanted)
        return said

    async def _over(self, container: str) -> dict[str, Any] | None:
        """Returns the engine's description of a container once it has ended; None if it is gone."""
        while said := await self._inspect(container):
            if said["State"]["Status"] == "removing":
                return None
            if said["State"]["Status"] in ("exited", "dead"):
                return said
            try:
                await self._docker.raw("POST", f"/containers/{container}/wait", patience=None)
            except EngineRefused as refused:
                if refused.status != 404:
                    raise
        return None

    async def _running(self, wanted: Workload, index: int, name: str, once: bool) -> dict[str, Any] | None:
        """Returns the engine's description of the container, if it was running already."""
        said = await self._inspect(name)
        if said and said["State"]["Status"] in ("removing", "dead"):
            await self._gone(said["Id"])
            said = None
        container = said["Id"] if said else await self._made(wanted, index, name, once)
        match said["State"]["Status"] if said else "created":
            case "running" | "restarting":
                pass
            case "exited" if once:
                pass
            case "paused":
                await self._docker.raw("POST", f"/containers/{container}/unpause")
            case _:
                # The creator may have been killed before the files were copied into it.
                await self._filled(container, wanted)
                await self._started(container)
        self._watch.listen(container, words.labels(self._installation, wanted, index))
        return said if said and said["State"]["Status"] == "running" else None

    async def _made(self, wanted: Workload, index: int, name: str, once: bool) -> str:
        image = await self._place.image(wanted.artifact.ref)
        await self._place.volumes(wanted)
        async with self._place.network(wanted.environment) as network, self._place.names(wanted) as aliases:
            body = create.container(
                wanted,
                index,
                installation=self._installation,
                network=network,
                aliases=aliases,
                publish=self._docker.address,
                init=not create.begins_by_itself(wanted, image),
                once=once,
            )
            made = await self._docker.json("POST", "/containers/create", params={"name": name}, body=body)
        for warning in made.get("Warnings") or ():
            _log.warning("the Docker engine warns", extra={"container": name, "reason": warning})
        return str(made["Id"])

    async def _filled(self, container: str, wanted: Workload) -> None:
        if wanted.files:
            path = f"/containers/{container}/archive"
            await self._docker.raw("PUT", path, params={"path": "/"}, data=packed(wanted.files))

    async def _started(self, container: str) -> None:
        self._watch.begins(container)
        try:
            await self._docker.raw("POST", f"/containers/{container}/start")
        except EngineRefused:
            # A container that cannot start is removed; if it could start, it is created again.
            await self._gone(container)
            raise

    async def _end(self, said: Mapping[str, Any], grace: float) -> None:
        async with self._locks[_name(said)]:
            await self._ended(said["Id"], grace)

    async def _halt(self, said: Mapping[str, Any]) -> None:
        async with self._locks[_name(said)]:
            await self._stopped(said["Id"], GRACE)

    async def _ended(self, container: str, grace: float) -> None:
        await self._stopped(container, grace)
        await self._gone(container)

    async def _stopped(self, container: str, grace: float) -> None:
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
        await self._watch.silent(container)

    async def _gone(self, container: str) -> None:
        """Removes the container with its unnamed volumes."""
        try:
            await self._docker.raw("DELETE", f"/containers/{container}", params={"force": True, "v": True})
        except EngineRefused as refused:
            if refused.status == 409:  # another Windlass is removing it
                await self._awaited(container)
            elif refused.status != 404:
                raise

    async def _awaited(self, container: str) -> None:
        with suppress(EngineRefused):
            path = f"/containers/{container}/wait"
            await self._docker.raw("POST", path, params={"condition": "removed"}, patience=LEAVING)

    async def _take_leave_of_removal(self, wanted: Workload) -> None:
        """One that was removed as a whole may be needed again, in the place of a later one that failed."""
        if wanted.generation in self._removed.of(wanted.service):
            there = await self._containers(service=wanted.service)
            later = any(_generation(each) > wanted.generation for each in there)
            self._removed.returns(wanted.service, wanted.generation, later=later)

    def _refuse_removed(self, wanted: Workload) -> None:
        if wanted.generation in self._removed.of(wanted.service):
            raise EngineError(
                f"Deployment {wanted.generation} of {wanted.name} was removed, and is not started again"
            )

    async def _instances(self, **labels: str) -> list[Instance]:
        with _translated():
            there = await self._containers(**labels)
            said = await _some_at_once([self._inspect(each["Id"]) for each in there])
            found = [self._instance(each) for each in said if each and each["State"]["Status"] != "removing"]
        return sorted(found, key=lambda each: (each.service, each.generation, each.index))

    async def _containers(self, **labels: str) -> list[dict[str, Any]]:
        filters = words.instances(installation=self._installation, **labels)
        found = await self._docker.json("GET", "/containers/json", params={"all": True, "filters": filters})
        return list(found)

    async def _inspect(self, container: str) -> dict[str, Any] | None:
        try:
            return dict(await self._docker.json("GET", f"/containers/{container}/json"))
        except EngineRefused as refused:
            if refused.status == 404:
                return None
            raise

    def _instance(self, said: Mapping[str, Any]) -> Instance:
        return instance(said, self._docker.address, self._watch.last_end(said["Id"]))

    async def _used(self, container: Mapping[str, Any]) -> tuple[str, Usage] | None:
        path = f"/containers/{container['Id']}/stats"
        try:
            said = await self._docker.json("GET", path, params={"stream": False, "one-shot": True})
        except EngineRefused as refused:
            if refused.status in (404, 409):  # it ended meanwhile
                return None
            raise
        return (_name(container), used(said)) if said else None  # nothing is said of what ends just now


async def _some_at_once(deeds: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    free = asyncio.Semaphore(AT_ONCE)

    async def one(deed: Coroutine[Any, Any, T]) -> T:
        async with free:
            return await deed

    return await group.run_together(*(one(deed) for deed in deeds))


def _name(container: Mapping[str, Any]) -> str:
    """By which others of its network call it comes after a slash more."""
    return str(min(container["Names"], key=len)).lstrip("/")


def _generation(container: Mapping[str, Any]) -> int:
    return words.identity(container["Labels"])[1]


def _meant(container: Mapping[str, Any], generation: int | None, indexes: Collection[int]) -> bool:
    _, its_generation, its_index = words.identity(container["Labels"])
    return generation in (None, its_generation) and its_index in indexes


def _passes(refused: EngineRefused) -> bool:
    return refused.status == 409 or any(word in refused.message for word in PASSING)


def _vanished(wanted: Workload) -> NoReturn:
    raise EngineError(f"{wanted.name} was removed from the Docker engine while it was being started")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Away as away:
        raise EngineAway(NO_ANSWER) from away
    except EngineRefused as refused:
        raise EngineError(f"The Docker engine refuses: {refused.message}") from refused
