"""The builder for the process engine: uses this machine's Python and Node, and no container.

An artifact is a folder: `app`, the code, which the engine copies for each instance, beside files that they
share.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Literal
from weakref import WeakValueDictionary

from windlass import config
from windlass.base import subprocesses as group
from windlass.base.atomic_files import move
from windlass.base.isolation.isolation import Isolation
from windlass.base.private import private_folder
from windlass.builders.builder import FULL, BuildError, Order, Say
from windlass.builders.native import node, python, sources, tree
from windlass.builders.native.artifacts import (
    CACHE,
    COMPLETE,
    ArtifactStore,
    finish_removals,
    name_of,
    services,
    sync_file_system,
)
from windlass.builders.native.cells import Cells
from windlass.builders.native.command import Site
from windlass.builders.native.processes import resolve_processes
from windlass.builders.native.sources import Sources
from windlass.builders.native.tools import Tools, about_registries
from windlass.core.deploy.workload import Artifact

# A variable of the service must not direct where a tool finds itself and writes its files.
NOT_FOR_TOOLS: Final = frozenset(
    {"PATH", "HOME", "TMPDIR", "NODE_ENV", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH"}
)

_NODE = re.compile(r"(?<![\w-])(node|npm|npx|yarn|pnpm)(?![\w-])")


class NativeBuilder:
    makes: Literal["native", "image"] = "native"

    def __init__(
        self,
        folder: Path,
        surroundings: Mapping[str, str] | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        """`isolation` keeps builds apart; the default is as far as this machine allows. `surroundings` are
        variables that name proxies, certificates and registries; the default is the environment."""
        self._folder = folder.absolute()
        self._isolation = isolation or Isolation("auto", self._folder)
        self._surroundings = config.for_tools() if surroundings is None else surroundings
        self._with_pip: set[str] = set()
        self._busy: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def stop(self) -> None:
        """Does nothing: the builder holds nothing open."""

    async def find(self, service: str, key: str) -> Artifact | None:
        with _in_plain_words():
            return await group.in_thread(ArtifactStore(self._folder, service).find, key)

    async def build(self, order: Order, say: Say) -> Artifact:
        lock = self._busy.setdefault((order.service, order.key), asyncio.Lock())
        async with lock:
            if artifact := await self.find(order.service, order.key):
                say("This was built before, and is used again.")
                return artifact
            with _in_plain_words():
                return await self._build(order, say)

    async def discard(self, service: str) -> None:
        await group.in_thread(ArtifactStore(self._folder, service).discard)

    async def prune(self, service: str, keep: Collection[str]) -> None:
        await group.in_thread(ArtifactStore(self._folder, service).sweep, keep)

    async def services(self) -> Collection[str]:
        return await group.in_thread(services, self._folder)

    async def sweep(self, erase: Collection[str]) -> None:
        await group.in_thread(finish_removals, self._folder)
        gone = {name_of(service) for service in erase}
        for service in await self.services():
            store = ArtifactStore(self._folder, service)
            await group.in_thread(store.discard if service in gone else store.sweep)

    async def set_aside(self, service: str, into: Path) -> None:
        await group.in_thread(move, ArtifactStore(self._folder, service).folder, into / "builds")

    async def put_back(self, service: str, out: Path) -> None:
        await group.in_thread(move, out / "builds", ArtifactStore(self._folder, service).folder)

    async def _build(self, order: Order, say: Say) -> Artifact:
        store = ArtifactStore(self._folder, order.service)
        async with _aside() as held:
            folder = await group.in_thread(held.enter_context, store.making())
            home, cache = folder / "home", self._folder / CACHE / name_of(order.org)
            await group.in_thread(_folders, home, cache, folder / "artifact")
            found_sources = await group.in_thread(sources.read, order)
            for line in found_sources.remarks:
                say(line)
            cells = Cells(self._isolation, order.org, home, home, order.source, cache)
            tools = Tools(self._surroundings, home, cache, say, self._with_pip, cells)
            held.callback(tools.end_all)
            work = _Work(order, found_sources, tools, store, folder / "artifact", held)
            return await group.in_thread(store.put, folder / "artifact", await work.done())


class _Work:
    """One build, after its sources are read."""

    def __init__(
        self, order: Order, code: Sources, tools: Tools, store: ArtifactStore, into: Path, held: ExitStack
    ) -> None:
        self.order = order
        self.found = code
        self.layout = code.layout
        self.tools = tools
        self.say = tools.say
        self.store = store
        self.made = into
        self.held = held
        self.final = store.at(order.key)
        self.places: list[tuple[Path, Path]] = []
        """Folders of programs: the present path, and the final one."""
        self.environment: dict[str, str] = {"PYTHONUNBUFFERED": "1"}
        self.real_folders = _real_folders(code)
        """Checks files that we read and move as ourselves, after steps of the build could change them."""

    async def done(self) -> Artifact:
        await self._python()
        await self._node()
        self._check()
        lines: list[str] = []
        artifact = await group.in_thread(self._artifact, lines.append)
        for line in lines:
            self.say(line)
        await group.in_thread(tree.move, self.layout.app, self.made / "app")
        return artifact

    def _check(self) -> None:
        if _real_folders(self.found) != self.real_folders:
            raise BuildError("Mend the install script: it puts a link in the place of a folder.")

    async def _python(self) -> None:
        lines: list[str] = []
        wish = self.found.wish
        needed = await group.in_thread(python.needs, wish, lines.append, self.found.added) if wish else None
        for line in lines:
            self.say(line)
        version = await python.interpreter(self.tools, self.found.wanted_python, self.say)
        if needed is None or needed.nothing:
            python.alone(version, self.made / "bin")
            self.places.append((self.made / "bin", self.final / "bin"))
            return
        variables = about_registries(self.found.variables) | python.named_variables(
            needed, self.found.variables
        )
        venv = await self._venv(needed, version, variables)
        self.environment["VIRTUAL_ENV"] = str(venv)
        self.places.append((venv / "bin", venv / "bin"))
        if needed.project and not needed.whole:
            site = self.made / "site"  # the only part of the artifact that a step may change
            await group.in_thread(_folders, site)
            self.tools.cells.writable.append(site)
            await python.project(self.tools, version, needed, venv, site, variables)
            self.places.append((site / "bin", self.final / "site" / "bin"))
            self.environment["PYTHONPATH"] = str(self.final / "site")

    async def _venv(
        self, needed: python.PythonDependencies, version: python.Interpreter, variables: Mapping[str, str]
    ) -> Path:
        digest = await group.in_thread(python.digest, needed, version, variables)
        deps, is_present = await self._hold_dependencies(digest)
        if is_present:
            self.say("The Python dependencies have not changed: they are used as they were installed before.")
        else:
            await python.environment(self.tools, version, needed, deps, variables)
            await group.in_thread(_complete, deps)
        (self.made / "venv").symlink_to(Path("..", deps.parent.name, deps.name, "venv"))
        return deps / "venv"

    async def _hold_dependencies(self, digest: str) -> tuple[Path, bool]:
        """Holds the dependencies until the artifact is in its place, so that no sweep removes them before."""
        dependencies: tuple[Path, bool] = await group.in_thread(
            self.held.enter_context, self.store.depending(digest)
        )
        deps, is_present = dependencies
        if not is_present:
            self.tools.cells.writable.append(deps)
        return dependencies

    async def _node(self) -> None:
        package = self.found.package
        if package is None or not self._wants_node(package):
            return
        self.environment["NODE_ENV"] = "production"
        modules = package.folder / "node_modules"
        lines: list[str] = []
        needed = await group.in_thread(node.needs, package, self.layout.app, lines.append, self.found.build)
        if needed.nothing or modules.exists():
            if modules.exists():
                self.say("node_modules is part of the code: it is used as it is.")
            self.places.append((modules / ".bin", Path("node_modules/.bin")))
            return
        for line in lines:
            self.say(line)
        present = await self._modules(needed)
        self._check()
        modules.unlink(missing_ok=True)
        modules.symlink_to(self.final / "node_modules")
        self.places.append((present / ".bin", self.final / "node_modules" / ".bin"))

    def _wants_node(self, package: node.Package) -> bool:
        """True if a start command needs Node: in a Python project, package.json is often there for tools
        only."""
        start = self.found.start
        if self.found.wish is None or self.found.build or not start.command or _NODE.search(start.text):
            return True
        if package.dependencies:
            self.say(
                "package.json is not installed: this is a Python project, and its command is not Node's."
            )
        return False

    async def _modules(self, needed: node.NodeDependencies) -> Path:
        """Installs, and returns the folder where the packages are now."""
        variables = self.found.variables
        version = await node.version(self.tools)
        if needed.in_place:
            settings = {name: value for name, value in variables.items() if name.upper() not in NOT_FOR_TOOLS}
            await node.in_place(self.tools, needed, self.made, self.layout.app, settings)
            return self.made / "node_modules"
        settings = about_registries(variables) | node.named_variables(needed, variables)
        digest = await group.in_thread(node.digest, needed, version, settings)
        deps, is_present = await self._hold_dependencies(digest)
        if is_present:
            self.say("The Node dependencies have not changed: they are used as they were installed before.")
        else:
            await node.apart(self.tools, needed, deps, settings)
            await group.in_thread(_complete, deps)
        (self.made / "node_modules").symlink_to(Path("..", deps.parent.name, deps.name, "node_modules"))
        return deps / "node_modules"  # the link leads there only from the final place

    def _artifact(self, say: Say) -> Artifact:
        folder = self.found.static_folder
        if folder and not (self.layout.folder / folder).is_dir():
            raise BuildError(f"Make the build write to the folder {folder}: it is not there after the build.")
        self._of_the_image(say)
        now = [*(str(at) for at, _ in self.places), *self.tools.path]
        final = [*(str(at) for _, at in self.places), *self.tools.path]
        site = Site(layout=self.layout, path=tuple(now), final=tuple(final), undone=self.found.undone)
        commands = resolve_processes(self.found.start, site, say, self.order.settings)
        self.environment["PATH"] = os.pathsep.join(final)
        _writable((*commands.web, *self.environment, *self.environment.values()))
        return Artifact(
            kind="native",
            ref=str(self.final),
            key=self.order.key,
            command=commands.web,
            processes=commands.processes,
            release=commands.release,
            environment=self.environment,
            workdir=self.layout.below,
            ports=self.found.ports,
        )

    def _of_the_image(self, say: Say) -> None:
        """Adds the values of ENV, with paths of the image replaced by those here."""
        for name, value in self.found.environment.items():
            here = ":".join(self.layout.here(part) for part in value.split(":"))
            if here != value and name != "PATH":
                say(f"ENV {name}: {value} is {here} here, from the folder that it is started in.")
            if name == "PATH":
                self.places += [(self.layout.folder / part, Path(part)) for part in _own_places(value, here)]
            elif name == "PYTHONPATH" and name in self.environment:
                self.environment[name] += f":{here}"
            elif name not in ("VIRTUAL_ENV", "PYTHONHOME", "HOME"):
                self.environment[name] = here


def _real_folders(source: Sources) -> list[str]:
    folders = [source.layout.folder, source.layout.app, *([source.package.folder] if source.package else [])]
    return [os.path.realpath(folder) for folder in folders]


def _own_places(value: str, here: str) -> Iterator[str]:
    for original, part in zip(value.split(":"), here.split(":"), strict=True):
        if part and original != part:
            yield part


def _complete(deps: Path) -> None:
    sync_file_system(deps)
    tree.fresh(deps / COMPLETE).touch(exist_ok=False)


def _folders(*wanted: Path) -> None:
    for folder in wanted:
        private_folder(folder)


def _writable(texts: Collection[str]) -> None:
    if any("\0" in text for text in texts):
        raise BuildError("Take the NUL character out of the command or the variable: no program takes one.")


@asynccontextmanager
async def _aside() -> AsyncIterator[ExitStack]:
    """Leaves context managers off the event loop, because many files may have to be removed."""
    held = ExitStack()
    try:
        yield held
    finally:
        await group.in_thread(held.close)


@contextmanager
def _in_plain_words() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = _reason(error)
        if why in (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)):
            raise BuildError(FULL) from error
        raise BuildError(
            f"The machine that runs Windlass could not put together what is built: {why}."
        ) from error


def _reason(error: OSError) -> str:
    """Returns the reason of an error without the paths of this machine, of which a copied tree has many."""
    if isinstance(error, shutil.Error):
        text = " ".join(str(failure[-1]) for failure in error.args[0])
        numbers = re.findall(r"\[Errno (\d+)\]", text)
        return os.strerror(int(numbers[0])) if numbers else "files could not be copied"
    return error.strerror or type(error).__name__
