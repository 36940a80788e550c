"""The state of one build, which its steps share.

`python_steps` and `node_steps` install and build. `work` runs these steps in order and describes the
artifact.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windlass.base import subprocesses
from windlass.base.atomic_files import sync_file_system
from windlass.base.bounded import BoundedCalls
from windlass.base.private import private_folder
from windlass.builders.builder import BuildError, Order
from windlass.process.builds import tree
from windlass.process.builds.artifacts import ArtifactStore, mark_complete
from windlass.process.builds.caches import BuildCaches
from windlass.process.builds.toolchains import Toolchains
from windlass.process.builds.tools import Tools

if TYPE_CHECKING:
    from windlass.process.builds.sources import Sources

# A variable of the service must not change where a build tool finds its programs and writes its files.
NOT_FOR_TOOLS: Final = frozenset(
    {"PATH", "HOME", "TMPDIR", "NODE_ENV", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH"}
)


class BuildState:
    """One build whose sources have been read."""

    def __init__(
        self,
        order: Order,
        code: Sources,
        tools: Tools,
        toolchains: Toolchains,
        caches: BuildCaches,
        store: ArtifactStore,
        destination: Path,
        stack: ExitStack,
        calls: BoundedCalls,
    ) -> None:
        """`calls` read files of the repository."""
        self.calls = calls
        self.order = order
        self.sources = code
        self.layout = code.layout
        self.tools = tools
        self.machine = [*tools.path]
        """Folders of programs that instances can also use. The folders of fetched toolchains are not among
        them."""
        self.toolchains = toolchains
        self.caches = caches
        self.say = tools.say
        self.store = store
        self.made = destination
        self.held = stack
        self.final = store.at(order.key)
        self.places: list[tuple[Path, Path]] = []
        """Folders of programs: the path during the build, and the final path."""
        self.environment: dict[str, str] = {"PYTHONUNBUFFERED": "1"}
        self.real_folders = _real_folders(code)
        """The real paths of the folders that Windlass itself reads and moves, resolved before a build step
        could replace one with a link."""
        tools.check = self.check

    def check(self) -> None:
        if _real_folders(self.sources) != self.real_folders:
            raise BuildError("Fix the install script: it puts a link in the place of a folder.")

    async def keep(self, fetched: Path, kind: str) -> Path:
        """Links a fetched toolchain into the artifact, because an instance cannot read the toolchain cache.
        Returns its path."""
        name = f"{kind}-of-{fetched.parent.name}"
        deps, is_present = await subprocesses.in_thread(self.held.enter_context, self.store.depending(name))
        if not is_present:
            await subprocesses.in_thread(tree.link, fetched, deps / kind)
            await subprocesses.in_thread(complete, deps)
        (self.made / kind).symlink_to(Path("..", deps.parent.name, deps.name, kind))
        self.tools.cells.readable.append(deps)
        return Path(deps / kind)

    async def hold_dependencies(self, digest: str) -> tuple[Path, bool]:
        """Locks the dependencies until the artifact is in its place, so that no sweep removes them. Returns
        their folder, and whether they are installed."""
        dependencies: tuple[Path, bool] = await subprocesses.in_thread(
            self.held.enter_context, self.store.depending(digest)
        )
        deps, is_present = dependencies
        (self.tools.cells.readable if is_present else self.tools.cells.writable).append(deps)
        return dependencies

    def variables_as_started(self) -> dict[str, str]:
        """Returns the environment of a step that runs the application itself."""
        variables = self.sources.variables
        settings = {name: text for name, text in variables.items() if name.upper() not in NOT_FOR_TOOLS}
        programs = [str(now) for now, _ in self.places]
        path = os.pathsep.join((*programs, *self.tools.path))
        python_path = {"PYTHONPATH": str(self.made / "site")} if "PYTHONPATH" in self.environment else {}
        return {**settings, **self.environment, **python_path, "PATH": path}


def _real_folders(source: Sources) -> list[str]:
    folders = [source.layout.folder, source.layout.app, *([source.package.folder] if source.package else [])]
    return [os.path.realpath(folder) for folder in folders]


@contextmanager
def explained(problem: str) -> Iterator[None]:
    """Prepends a complaint about a version to a BuildError, because the version may be the reason for the
    failure."""
    try:
        yield
    except BuildError as error:
        if problem:
            raise BuildError(f"{problem} {error}") from error
        raise


def complete(dependencies_folder: Path) -> None:
    sync_file_system(dependencies_folder)
    mark_complete(dependencies_folder)


def make_folders(*wanted: Path) -> None:
    for folder in wanted:
        private_folder(folder)
