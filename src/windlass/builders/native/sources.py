"""What a commit says of itself: its code laid out, what it is started with, and what it needs installed."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field

from windlass.builders import dockerfile, ignore
from windlass.builders.builder import BuildError, Order
from windlass.builders.dockerfile import DockerfileError
from windlass.builders.native import installs, node, python, start, tree
from windlass.builders.native.layout import Found, Laid, Layout, Note, lay_out
from windlass.builders.native.recipe import Config, Recipe, recipe
from windlass.builders.native.start import Start

USUAL: Final = "Dockerfile"


class Sources(Struct, kw_only=True):
    layout: Layout
    start: Start
    package: node.Package | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the Dockerfile."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What a RUN would know."""
    ports: tuple[int, ...] = ()
    wanted_python: str = ""
    """A version such as 3.12, if one is named."""
    wishes: tuple[python.Wish, ...] = ()
    installs_node: bool = False
    """A RUN does."""
    dev: bool = False
    """And what is for development as well."""
    undone: tuple[str, ...] = ()
    said: list[str] = field(default_factory=list)
    """For the build log."""


def read(order: Order, scratch: Path) -> Sources:
    """Lays out in `scratch` what is not used where it is."""
    said: list[str] = []
    context = _context(order)
    tree.without_ways_out(context, said.append)
    if procfile := start.by_procfile(context):
        found = _as_it_is(order, context, procfile)
        if _dockerfile(order, context):
            said.append("There is a Procfile: it says what runs, and the Dockerfile is not read.")
    elif file := _dockerfile(order, context):
        found = _by_dockerfile(order, context, file, scratch)
    else:
        found = _as_it_is(order, context, None)
    found.said = [*said, *found.said, f"It is started by {found.start.origin}."]
    return found


def _context(order: Order) -> Path:
    found = tree.inside(order.source, order.source / order.root.strip("/"))
    if found is None or not found.is_dir():
        raise BuildError(f"root_path: there is no folder {order.root} in this commit.")
    return found


def _dockerfile(order: Order, context: Path) -> Path | None:
    if order.dockerfile is None:
        usual = context / USUAL
        return usual if usual.is_file() else None
    found = tree.inside(context, context / order.dockerfile.strip("/"))
    if found is None or not found.is_file():
        raise BuildError(
            f"dockerfile_path: there is no file {order.dockerfile} in the folder that is deployed."
        )
    return found


def _as_it_is(order: Order, context: Path, procfile: Start | None) -> Sources:
    package = node.package(context)
    wish = python.wish_of(context)
    # A package.json beside requirements may only be for tools; what says how to start comes first.
    chosen = procfile or start.by_package(package) or start.plain_to_see(context)
    if chosen is None:
        raise start.nothing_found(context)
    return Sources(
        layout=Layout(app=context),
        start=chosen,
        package=package,
        variables=order.arguments,
        wishes=(wish,) if wish else (),
        wanted_python=_version_file(context),
    )


def _by_dockerfile(order: Order, context: Path, file: Path, scratch: Path) -> Sources:
    name = file.relative_to(context)
    try:
        cooked = _recipe(order, file)
    except DockerfileError as error:
        raise BuildError(f"{name} {error}.") from error
    ignored = ignore.beside(context, PurePosixPath(name))
    laid = lay_out(cooked, context, ignored, scratch)
    config = cooked.wanted.config
    runs = [_Run(found, context, laid.layout) for found in laid.runs]
    notes = sorted([*laid.notes, *(run.note for run in runs)])
    layout = laid.layout
    package = next(
        (made for at in (layout.folder, layout.app) if (made := node.package(at)) is not None), None
    )
    wishes = tuple(wish for run in runs for wish in run.wishes())
    usual = python.wish_of(layout.folder)
    return Sources(
        layout=layout,
        start=_start(config, laid, package, name),
        package=package,
        environment=config.environment,
        variables=config.known,
        ports=tuple(config.ports),
        wanted_python=_version_in(config.image),
        wishes=wishes or ((usual,) if usual else ()),
        installs_node=any(
            isinstance(each, installs.NodeInstall) for run in runs for each in run.reading.installs
        ),
        dev=any(run.dev for run in runs) and config.environment.get("NODE_ENV") != "production",
        undone=tuple(run.undone for run in runs if run.undone),
        said=[f"{name} line {note.line}: {note.text}" for note in notes],
    )


def _recipe(order: Order, file: Path) -> Recipe:
    read = dockerfile.read(file.read_text(encoding="utf-8-sig", errors="replace"))
    stage = read.stage(order.stage)
    if stage is None:
        names = ", ".join(each.name or str(each.index) for each in read.stages)
        raise BuildError(f"docker_target_build_stage: there is no stage {order.stage} in it; it has {names}.")
    return recipe(read, stage, order.arguments)


def _start(config: Config, laid: Laid, package: node.Package | None, name: Path) -> Start:
    if config.command is not None:
        return Start(start.without_npm(config.command, package), f"the command of {name}")
    if found := start.by_package(package) or start.plain_to_see(laid.layout.folder):
        return found
    raise BuildError(
        f"{name} has neither CMD nor ENTRYPOINT, and what its base image {config.image} starts is not known "
        "without a container engine: add a CMD, or deploy to a cluster with the engine docker."
    )


class _Run:
    """A RUN, judged: what of it the native step does."""

    def __init__(self, found: Found, context: Path, layout: Layout) -> None:
        self.running = found.running
        self.root = found.root
        self.context = context
        self.layout = layout
        self.reading = installs.read(found.running.text)

    @property
    def note(self) -> Note:
        shown = f"{self.running.shown}: "
        if self.reading.installs:
            rest = "; its other commands are not executed" if self.reading.more else ""
            return Note(
                self.running.line, f"{shown}what it installs is installed by the native step instead{rest}."
            )
        if not self.undone:
            return Note(self.running.line, f"{shown}not executed, and not needed here.")
        return Note(self.running.line, f"{shown}not executed, a container engine would run it.")

    @property
    def undone(self) -> str:
        if not self.reading.more:
            return ""
        return f"line {self.running.line}: {self.running.shown[:80]}"

    @property
    def dev(self) -> bool:
        return any(isinstance(each, installs.NodeInstall) and each.dev for each in self.reading.installs)

    def wishes(self) -> list[python.Wish]:
        return [
            self._wish(each) for each in self.reading.installs if isinstance(each, installs.PythonInstall)
        ]

    def _wish(self, each: installs.PythonInstall) -> python.Wish:
        cwd, ground = self._cwd()
        files = [self._file(name) for name in each.files]
        return python.Wish(
            files=tuple(files),
            constraints=tuple(self._file(name) for name in each.constraints),
            lines=(*each.options, *each.packages),
            project=cwd if each.project else None,
            cwd=cwd,
            top=self.context if any(file.is_relative_to(self.context) for file in files) else self.root,
            ground=ground,
        )

    def _cwd(self) -> tuple[Path, Path]:
        """Where its files come to be in the end; by then there may be more of them."""
        final = self.layout.at(self.running.workdir)
        if final and final.is_dir():
            return final, self.layout.app
        here = self.root / self.running.workdir.lstrip("/")
        return here if here.is_dir() else self.root, self.root

    def _file(self, name: str) -> Path:
        path = posixpath.normpath(posixpath.join(self.running.workdir, name)).lstrip("/")
        for top, below in ((self.root, path), (self.context, posixpath.basename(path))):
            found = tree.inside(top, top / below)
            if found and found.is_file():
                return found
        raise BuildError(
            f"Dockerfile line {self.running.line} installs from {name}, which is neither copied nor in the "
            "folder that is deployed; what other instructions make is not there."
        )


def _version_in(image: str) -> str:
    """`python:3.12-slim` wants Python 3.12."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    version = ".".join(tag.partition("-")[0].split(".")[:2])
    return version if name == "python" and version.replace(".", "").isdigit() and "." in version else ""


def _version_file(folder: Path) -> str:
    """Of .python-version, or the older runtime.txt."""
    for name in (".python-version", "runtime.txt"):
        if (folder / name).is_file():
            told = (folder / name).read_text(errors="replace")[:100].strip().removeprefix("python-")
            version = ".".join(told.split(".")[:2])
            if version.count(".") == 1 and version.replace(".", "").isdigit():
                return version
    return ""
