"""The builder of the process engine. It uses the toolchains of this machine instead of containers.

An artifact is a folder. Its subfolder `app` contains the code, which the engine copies for each instance.
Instances share the other files.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Literal
from weakref import WeakValueDictionary

from msgspec.structs import replace

from windlass.base import environment, filelock, subprocesses
from windlass.base.atomic_files import move
from windlass.base.bounded import BoundedCalls
from windlass.base.disk_reserve import Amount, DiskWatch
from windlass.base.isolation.isolation import MAX_PROCESSES, Isolation
from windlass.base.isolation.step_launcher import NetworkOfSteps, StepLauncher, no_network
from windlass.base.step_limits import StepLimits
from windlass.builders.builder import (
    DISK_FULL_ERROR,
    FILES_BUILDER,
    BuildError,
    BuilderUnavailable,
    Order,
    Say,
)
from windlass.builders.detecting import bounded_detection, read_order
from windlass.engines.workload import Artifact
from windlass.process.builds import tree
from windlass.process.builds.artifacts import (
    ArtifactStore,
    finish_removals,
    name_of,
    services,
)
from windlass.process.builds.build_state import BuildState, make_folders
from windlass.process.builds.cache_limits import CacheLimits
from windlass.process.builds.caches import BuildCaches, CacheStore
from windlass.process.builds.cells import Cells
from windlass.process.builds.layout import folder_of
from windlass.process.builds.reserve import check_room, held_by_build, within_reserve
from windlass.process.builds.toolchains import Toolchains
from windlass.process.builds.tools import Tools


def take_files(store: ArtifactStore, order: Order, write_line: Say) -> Artifact:
    """Makes an artifact of the whole repository without building it. Its working folder is the folder `root`
    of the repository."""
    tree.remove_escaping_links(order.source, write_line)
    folder_of(order)
    with store.making() as folder_of_build:
        artifact = folder_of_build / "artifact"
        artifact.mkdir(mode=0o700)
        tree.move(order.source, artifact / "app")
        final = store.at(order.key)
        workdir = "" if order.root == "." else order.root
        made = Artifact(kind="native", ref=str(final), key=order.key, workdir=workdir)
        store.complete(artifact, made)
        return store.put(artifact, made)


_TOO_DEEP: Final = (
    "Take folders out of each other, and shorten paths and chains of symbolic links: the code or the build "
    "has some that are too deep to be read."
)


class NativeBuilder:
    makes: Literal["native", "image"] = "native"

    def __init__(
        self,
        folder: Path,
        surroundings: Mapping[str, str] | None = None,
        isolation: Isolation | None = None,
        *,
        fetches: bool = True,
        limits: CacheLimits = CacheLimits(),  # noqa: B008 (frozen)
        toolchain_limits: CacheLimits = CacheLimits(),  # noqa: B008 (frozen)
        network: NetworkOfSteps = no_network,
        calls: BoundedCalls | None = None,
        build_memory: int = 0,
        build_processes: int = MAX_PROCESSES,
        disk_reserve: int = 0,
    ) -> None:
        """Sets up the builder.

        - `surroundings`: variables for proxies, certificates and registries; the default is the environment
        - `isolation`: separates builds from each other; the default is the strongest supported one
        - `fetches`: whether toolchains that the machine lacks are downloaded from registries
        - `network`: provides the network of each step
        - `calls`: read the files of commits, with limits
        - `build_memory` (MiB) and `build_processes`: limits for all steps of an environment together
        - `disk_reserve`: bytes of the disk that builds must leave free
        """
        self._disk_reserve = disk_reserve
        self._folder = folder.absolute()
        self._isolation = isolation or Isolation("auto", self._folder)
        self._surroundings = environment.for_tools() if surroundings is None else surroundings
        self._steps = StepLauncher(network)
        self._step_limits = StepLimits(self._folder, build_memory, build_processes)
        self._calls = calls or bounded_detection()
        self._toolchains = Toolchains(self._folder, self._isolation, allowed=fetches, limits=toolchain_limits)
        self._caches = CacheStore(self._folder, limits)
        self._facts: dict[tuple[str, ...], str] = {}
        self._busy: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def stop(self) -> None:
        await subprocesses.in_thread(self._steps.close)

    async def find(self, service: str, key: str) -> Artifact | None:
        with _explain_error():
            return await subprocesses.in_thread(ArtifactStore(self._folder, service).find, key)

    async def build(self, order: Order, write_line: Say) -> Artifact:
        lock = self._busy.setdefault((order.service, order.key), asyncio.Lock())
        async with lock:
            if artifact := await self.find(order.service, order.key):
                write_line("This was built before, and is used again.")
                return artifact
            with _explain_error():
                await check_room(self._folder, self._disk_reserve)
                if order.settings.builder == FILES_BUILDER:
                    return await subprocesses.in_thread(
                        take_files, ArtifactStore(self._folder, order.service), order, write_line
                    )
                return await self._build(order, write_line)

    async def discard(self, service: str) -> None:
        await subprocesses.in_thread(ArtifactStore(self._folder, service).discard)
        await subprocesses.in_thread(self._caches.discard, service)

    async def prune(self, service: str, kept_keys: Collection[str]) -> None:
        await subprocesses.in_thread(ArtifactStore(self._folder, service).sweep, kept_keys)

    async def services(self) -> Collection[str]:
        return await subprocesses.in_thread(services, self._folder)

    async def sweep(self, deleted_services: Collection[str]) -> None:
        self._step_limits.sweep()
        await subprocesses.in_thread(finish_removals, self._folder)
        gone = {name_of(service) for service in deleted_services}
        for service in await self.services():
            store = ArtifactStore(self._folder, service)
            await subprocesses.in_thread(store.discard if service in gone else store.sweep)
        for service in deleted_services:
            await subprocesses.in_thread(self._caches.discard, service)
        await subprocesses.in_thread(self._caches.sweep)
        await subprocesses.in_thread(self._toolchains.sweep)

    async def set_aside(self, service: str, destination: Path) -> None:
        await subprocesses.in_thread(
            move, ArtifactStore(self._folder, service).folder, destination / "builds"
        )

    async def put_back(self, service: str, source: Path) -> None:
        await subprocesses.in_thread(move, source / "builds", ArtifactStore(self._folder, service).folder)

    async def _build(self, order: Order, write_line: Say) -> Artifact:
        store = ArtifactStore(self._folder, order.service)
        async with _exit_in_thread() as held:
            folder, caches = await subprocesses.in_thread(self._begin, order, store, write_line, held)
            order = replace(order, source=caches.source)
            began, cells = time.time(), self._cells(caches, order, folder / "home")

            def written() -> Amount:
                return held_by_build(folder, caches.own, began, cells.pids)

            with caches.trusted_at_the_end():
                return await within_reserve(
                    self._build_with(caches, order, store, folder, write_line, held, cells),
                    DiskWatch(self._folder, self._disk_reserve),
                    written,
                )

    def _cells(self, caches: BuildCaches, order: Order, home: Path) -> Cells:
        return Cells(
            self._isolation,
            order.service,
            home,
            home,
            order.source,
            kept_paths=(caches.downloads, caches.kept),
            launcher=self._steps,
            step_limits=self._step_limits,
            org=order.org,
            environment=order.environment,
            usage=order.usage,
        )

    def _begin(
        self, order: Order, store: ArtifactStore, write_line: Say, stack: ExitStack
    ) -> tuple[Path, BuildCaches]:
        """Moves the code to the folder where it is built. Returns the folder of the build, and its caches."""
        folder = stack.enter_context(store.making())
        make_folders(folder / "home", folder / "artifact")
        caches = stack.enter_context(
            self._caches.using(order.org, order.service, folder / "home", write_line)
        )
        tree.move(order.source, caches.source)
        return folder, caches

    async def _build_with(
        self,
        caches: BuildCaches,
        order: Order,
        store: ArtifactStore,
        folder: Path,
        write_line: Say,
        stack: ExitStack,
        cells: Cells,
    ) -> Artifact:
        # Imported at the first build: these modules load the support of all languages, which would slow down
        # the start.
        from windlass.process.builds import sources  # noqa: PLC0415
        from windlass.process.builds.work import make_artifact  # noqa: PLC0415

        code = await read_order(self._calls, sources.read, order)
        for line in code.remarks:
            write_line(line)
        home, artifact = folder / "home", folder / "artifact"
        tools = Tools(self._surroundings, home, caches.downloads, write_line, self._facts, cells)
        tools.hide(order.source, ".")
        tools.hide(self._folder, "…")
        stack.callback(tools.end_all)
        state = BuildState(order, code, tools, self._toolchains, caches, store, artifact, stack, self._calls)
        return await subprocesses.in_thread(_store_artifact, store, artifact, await make_artifact(state))


def _store_artifact(store: ArtifactStore, folder: Path, artifact: Artifact) -> Artifact:
    """Records a built artifact and moves it to its final place."""
    store.complete(folder, artifact)
    return store.put(folder, artifact)


@asynccontextmanager
async def _exit_in_thread() -> AsyncIterator[ExitStack]:
    """Yields an exit stack that is closed in a thread, because its exits may remove many files."""
    held = ExitStack()
    try:
        yield held
    finally:
        await subprocesses.in_thread(held.close)


@contextmanager
def _explain_error() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise BuildError(_TOO_DEEP) from error
    except filelock.LockTimeout as error:
        raise BuilderUnavailable(str(error)) from error
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise BuildError(_TOO_DEEP) from error
        why = _reason(error)
        if why in (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)):
            raise BuildError(DISK_FULL_ERROR) from error
        raise BuildError(
            "Ask the operator to look at the disk of the machine that runs Windlass: files of the build "
            f"could not be written ({why})."
        ) from error


def _reason(error: OSError) -> str:
    """Returns the reason of an error without paths. The error of a copied folder lists many of them."""
    if isinstance(error, shutil.Error):
        text = " ".join(str(failure[-1]) for failure in error.args[0])
        numbers = re.findall(r"\[Errno (\d+)\]", text)
        return os.strerror(int(numbers[0])) if numbers else "files could not be copied"
    return error.strerror or type(error).__name__
