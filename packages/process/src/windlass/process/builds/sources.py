"""Determines from the files of a commit how its application is started and what must be installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from windlass.base.file_names import read_beginning
from windlass.builders import dockerfile, node_packages
from windlass.builders.builder import BuildError, BuildSettings, Order
from windlass.builders.command_ports import fixed_port, with_given_port
from windlass.builders.dockerfile_hints import Hints, is_below, read_hints, text_of
from windlass.builders.folder_recipe import recipe_of, tree_of
from windlass.builders.instructions import DockerfileError
from windlass.builders.node_packages import Commands, Package, builds_of, workspace_of
from windlass.builders.plan import DockerfileChoice, open_problems, plan_of
from windlass.builders.small_files import read_small_text
from windlass.detect import Tree, node_version
from windlass.process.builds import container_only, detected, image_files, python, start, tree
from windlass.process.builds.detected import RecipeSteps
from windlass.process.builds.layout import Layout, folder_of
from windlass.process.builds.pyproject import read_pyproject
from windlass.process.builds.python_versions import PythonRequirement, wanted_in
from windlass.process.builds.start import Start

DEFAULT_DOCKERFILE: Final = "Dockerfile"


class Sources(Struct, kw_only=True):
    layout: Layout
    start: Start
    package: Package | None = None
    declaration: python.DependencyDeclaration | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the Dockerfile sets for the application."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables for the steps of the build."""
    ports: tuple[int, ...] = ()
    web_port: int = 0
    """The port of the web process unless PORT is set. 0 if no file shows a web process."""
    workspace: Package | None = None
    """The root package of the workspace, whose lock file applies to the application."""
    wanted_python: PythonRequirement = PythonRequirement()
    wanted_node: tuple[str, str] = ("", "")
    """A version or a range, and the file that requires it."""
    install: str = ""
    """The install command from the application's settings, if it is set."""
    build: Commands = ()
    """The commands that build a Node application."""
    prepare: str = ""
    """The command that builds a Python application."""
    steps: RecipeSteps | None = None
    """The commands that install and build an application in a language other than Python and Node."""
    static_folder: str = ""
    """A folder that the build creates and the gateway serves."""
    added: tuple[str, ...] = ()
    """Python packages that the start command needs although no file of the repository lists them."""
    undone: tuple[str, ...] = ()
    """Dockerfile instructions that may create a missing file."""
    remarks: list[str] = field(default_factory=list)
    """Lines for the build log."""


def read(order: Order) -> Sources:
    remarks = [*_of_system_packages(order)]
    context = folder_of(order)
    workspace = None
    if context != order.source:
        tree.remove_escaping_links(order.source, remarks.append)
        workspace = workspace_of(context, order.source)
    tree.remove_escaping_links(workspace.folder if workspace else context, remarks.append)
    procfile = start.by_procfile(context)
    file = _dockerfile(order, context)
    if file and (procfile is None or order.settings.builder == "DOCKERFILE"):
        sources = _by_dockerfile(order, context, file, workspace)
    else:
        sources = _by_recipe(order, context, procfile, workspace)
        if file:
            remarks.append("There is a Procfile: it defines what runs, and the Dockerfile is not read.")
    sources.remarks = [
        *remarks,
        *open_problems(sources.remarks, order.variables),
        *sources.start.remarks,
        sources.start.line,
    ]
    return sources


def _of_system_packages(order: Order) -> Iterator[str]:
    if names := " ".join(order.settings.system_packages):
        yield (
            f"Ask the operator to run `apt-get install {names}`, if it is missing: the process engine "
            "installs no system_packages."
        )


def _dockerfile(order: Order, context: Path) -> Path | None:
    if order.settings.is_dockerfile_left_out:
        return None
    if order.dockerfile is None:
        return _usual_dockerfile(order, context)
    file = tree.resolve_inside(context, context / order.dockerfile.strip("/"))
    if file is None or not file.is_file():
        raise BuildError(
            f"dockerfile_path: there is no file {order.dockerfile} in the folder that is deployed."
        )
    return file


def _usual_dockerfile(order: Order, context: Path) -> Path | None:
    usual = context / DEFAULT_DOCKERFILE
    if usual.is_file():
        return usual
    if order.settings.builder == "DOCKERFILE":
        raise BuildError(
            "builder: add a Dockerfile, or set builder to AUTO: there is none in the folder that is deployed."
        )
    return None


def _by_recipe(order: Order, context: Path, procfile: Start | None, workspace: Package | None) -> Sources:
    """Returns the sources according to the recipe, with the commands of the Procfile if there is one."""
    package = node_packages.package(context)
    settings = order.settings
    followed = detected.follow(context, package, settings, procfile)
    if followed.steps:
        package = workspace = None
    app = workspace.folder if workspace else context
    remarks = [*followed.lines]
    if workspace:
        remarks.append("It is part of a workspace: the packages of the whole workspace are installed.")
    declaration = None if followed.steps else python.declaration_of(context)
    is_of_node = declaration is None or not settings.build_command
    builds = builds_of(
        package if is_of_node else None,
        workspace,
        followed.start.text,
        framework=followed.build,
        command=settings.build_command,
    )
    return Sources(
        layout=Layout(app=app, workdir=f"/{context.relative_to(app).as_posix()}".removesuffix(".")),
        start=followed.start,
        package=package,
        workspace=workspace,
        variables=order.arguments,
        declaration=declaration,
        wanted_python=_wanted_python(context, settings),
        wanted_node=_wanted_node(context, workspace, settings),
        install=settings.install_command,
        build=builds,
        prepare=followed.prepare,
        steps=followed.steps,
        static_folder=followed.static_folder,
        added=followed.added,
        web_port=followed.port,
        remarks=remarks,
    )


def _wanted_python(folder: Path, settings: BuildSettings) -> PythonRequirement:
    if settings.language_version:
        return PythonRequirement(settings.language_version, "language_version", is_strict=True)
    pyproject = read_pyproject(folder) if (folder / "pyproject.toml").is_file() else {}
    return wanted_in(folder, pyproject)


def _wanted_node(folder: Path, workspace: Package | None, settings: BuildSettings) -> tuple[str, str]:
    if settings.language_version:
        return settings.language_version, "language_version"
    for place in (folder, *([workspace.folder] if workspace else ())):
        names = [entry.name for entry in place.iterdir() if entry.is_file() and not entry.is_symlink()]
        version, reason = node_version(Tree(names, partial(read_beginning, place)))
        if version:
            return version, reason
    return "", ""


def _by_dockerfile(order: Order, context: Path, file: Path, workspace: Package | None) -> Sources:
    """Returns the sources according to a Dockerfile.

    If the Dockerfile needs a container engine, the recipe of the same files replaces it. This happens only if
    the recipe surely leads to the same application and no setting chooses the Dockerfile.
    """
    name = file.relative_to(context)
    try:
        text = read_small_text(file)
        read = dockerfile.read(text)
        hinted = _hints(order, read)
    except DockerfileError as error:
        raise BuildError(f"Fix {name}, or set builder to RECIPE: {name} {error}.") from error
    try:
        choice = DockerfileChoice(str(name), text, order.stage, order.arguments, executes=False)
        if not order.settings.has_command:
            layout = _layout(context, hinted)
            image_files.check_moved_script(read, _stage(order, read), hinted, layout, name)
        return _by_hints(order, context, name, hinted, choice)
    except container_only.NeedsContainer as error:
        is_chosen = order.settings.builder == "DOCKERFILE" or order.dockerfile or order.stage
        if is_chosen or not error.gives_the_same(read, hinted):
            raise
        sources = _by_recipe(order, context, None, workspace)
        sources.ports = tuple(hinted.ports)
        sources.environment = container_only.kept_variables(read, hinted)
        sources.remarks.insert(0, f"The recipe of these files is followed, and not {name}: {error.reason}")
        return sources


def _by_hints(order: Order, context: Path, name: Path, hints: Hints, choice: DockerfileChoice) -> Sources:
    layout = _layout(context, hints)
    package = node_packages.package(layout.folder) or node_packages.package(context)
    declaration = python.declaration_of(layout.folder) or python.declaration_of(context)
    builds = builds_of(package, None, text_of(hints.command) if hints.command else "")
    if not order.settings.has_command:
        container_only.check_web_server(hints, layout, name)
        container_only.check_global_program(hints, layout, name, package)
        known = [*package.dependencies, *package.development] if package else []
        image_files.check_program_of_script(hints, layout, name, known)
    if not (order.settings.has_command or builds):
        container_only.check_start(hints, layout, name, installs=bool(declaration or package))
    skipped = hints.skipped
    port = fixed_port(hints.command, hints.ports)
    chosen = _start(hints, layout, package, name, order.settings)
    recipe = plan_of(tree_of(context), order.settings, choice).recipe
    return Sources(
        layout=layout,
        start=chosen,
        package=package,
        declaration=declaration,
        environment=hints.environment,
        variables=hints.variables,
        ports=tuple(hints.ports) or ((port,) if port else ()),
        web_port=recipe.port,
        wanted_python=_version_in(hints.image, name) or _wanted_python(context, order.settings),
        wanted_node=_wanted_node(context, None, order.settings),
        build=builds,
        undone=tuple(
            f"line {instruction.line}: {instruction.shown[:80]}"
            for instruction in skipped
            if instruction.makes_files
        ),
        remarks=[
            *(recipe.problems if recipe.is_runnable else ()),
            *(
                f"Detected {field}: {value} ({reason.rstrip('.')})."
                for field, value, reason in recipe.values
                if field in ("start", "port")
            ),
            *(
                f"{name} line {instruction.line}: {instruction.shown}: not executed, {instruction.why}."
                for instruction in skipped
            ),
        ],
    )


def _hints(order: Order, parsed: dockerfile.Dockerfile) -> Hints:
    return read_hints(parsed, _stage(order, parsed), order.arguments)


def _stage(order: Order, parsed: dockerfile.Dockerfile) -> dockerfile.Stage:
    stage = parsed.stage(order.stage)
    if stage is None:
        names = ", ".join(candidate.name or str(candidate.index) for candidate in parsed.stages)
        raise BuildError(f"docker_target_build_stage: there is no stage {order.stage} in it; it has {names}.")
    return stage


def _layout(context: Path, hints: Hints) -> Layout:
    """Returns the layout of the folder. The last WORKDIR is the working folder if the repository contains
    it."""
    folder = is_below(hints.workdir, hints.top) and tree.resolve_inside(
        context, context / hints.workdir.removeprefix(hints.top).strip("/")
    )
    workdir = hints.workdir if folder and folder.is_dir() else hints.top
    return Layout(app=context, top=hints.top, workdir=workdir, image=True)


def _start(
    hints: Hints, layout: Layout, package: Package | None, name: Path, settings: BuildSettings
) -> Start:
    if hints.command is not None:
        command = start.without_npm(hints.command, package)
        port = fixed_port(command, hints.ports)
        return Start(with_given_port(command, port) if port else command, f"the command of {name}")
    if chosen := start.by_package(package) or _start_by_files(layout.folder):
        return chosen
    if settings.has_command:
        return Start(None, "the command that is set in the application")
    raise container_only.refusal(
        layout.app,
        f"{name} has neither CMD nor ENTRYPOINT, and what its base image {hints.image} starts is not known "
        "without a container engine.",
    )


def _start_by_files(folder: Path) -> Start | None:
    """Returns a start without a production server. Returns None if the recipe has such a server."""
    recipe = recipe_of(folder)
    has_server = recipe.language == "Python" and recipe.framework and recipe.start
    return None if has_server else start.by_usual_files(folder)


def _version_in(image: str, dockerfile: Path) -> PythonRequirement | None:
    """Returns the Python version of an image, such as 3.12 for `python:3.12-slim`."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    version = ".".join(tag.partition("-")[0].split(".")[:2])
    is_named = name == "python" and version.replace(".", "").isdigit() and "." in version
    return PythonRequirement(version, dockerfile.name) if is_named else None
