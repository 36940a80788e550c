"""Finds the start command of an application in a Procfile, a Dockerfile, package.json or a file with a usual
name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from windlass.builders.builder import BuildError
from windlass.builders.dockerfile_hints import Command, ExecForm, Shell, text_of
from windlass.builders.node_packages import Package
from windlass.builders.small_files import read_small_text
from windlass.detect.procfile import PROCFILE, Processes, exists_only_at_heroku, read_procfile
from windlass.engines.workload import StaticSite
from windlass.process.builds.pyproject import read_pyproject

CHOSEN_PROCESS: Final = "the process that the application chooses"
_EXAMPLE_COMMANDS: Final = (
    (".py", "python {}"),
    (".js", "node {}"),
    (".mjs", "node {}"),
    (".rb", "ruby {}"),
    ("index.html", "python3 -m http.server $PORT"),
)
"""Example start commands by the ending of a file's name."""

_STREAMLIT_PATTERN: Final = re.compile(r"^(?:import|from) streamlit\b", re.MULTILINE)
"""Matches the import of Streamlit, whose programs do nothing if Python runs them."""


class Start(Struct, frozen=True):
    command: Command | None
    """The start command. None if the application's settings define it, or if the gateway serves a folder."""
    origin: str
    remarks: tuple[str, ...] = ()
    """Lines for the build log about the other processes in the same file."""
    processes: Mapping[str, Command] = field(default_factory=dict)
    """The commands of all process types, by name."""
    release: Command | None = None
    """The command that runs once for each deployment, before the new version serves requests."""
    site: StaticSite | None = None
    """The folder that the gateway serves. If it is set, no process is started."""

    @property
    def line(self) -> str:
        """A line for the build log on how the application is started."""
        return f"It is {'served' if self.site else 'started'} by {self.origin}."

    @property
    def text(self) -> str:
        """All commands that may run, as one text to search for program names."""
        chosen = [command for command in (self.command, self.release) if command]
        return "\n".join(text_of(command) for command in (*chosen, *self.processes.values()))


def by_procfile(folder: Path) -> Start | None:
    """Returns the start according to the Procfile. Returns None if there is no Procfile, or if its command
    only works at Heroku."""
    file = folder / PROCFILE
    if not file.is_file():
        return None
    procfile = read_procfile(read_small_text(file))
    if procfile.problem:
        raise BuildError(procfile.problem)
    if not (procfile.commands or procfile.release):
        raise BuildError("Add a line such as `web: python main.py` to the Procfile: it names no process.")
    if exists_only_at_heroku(procfile.commands.get(procfile.main, "")):
        return None
    return _start_of(procfile) if procfile.commands else None


def _start_of(procfile: Processes) -> Start:
    name = procfile.main
    return Start(
        Shell(procfile.commands[name]) if name else None,
        f"the process {name} of the Procfile" if name else CHOSEN_PROCESS,
        tuple(
            f"The process {other} of the Procfile runs in an application of its own, with `process` {other}."
            for other in procfile.commands
            if other != name
        ),
        {other: Shell(command) for other, command in procfile.commands.items()},
        Shell(procfile.release) if procfile.release else None,
    )


def by_package(package: Package | None) -> Start | None:
    """Returns the command that `npm start` would run."""
    if package is None:
        return None
    if command := script_command(package, "start"):
        return Start(command, "the start script of package.json")
    if (package.folder / "server.js").is_file():
        return Start(ExecForm(("node", "server.js")), "server.js, as npm start would")
    return None


def script_command(package: Package, name: str, extra_arguments: tuple[str, ...] = ()) -> Command | None:
    """Returns the command of a script in package.json. Runs it through npm only if npm would do more than run
    the command."""
    if name not in package.scripts:
        return None
    around = {f"pre{name}", f"post{name}"} & package.scripts.keys()
    if around or extra_arguments or "npm_" in package.scripts[name]:
        dashes = ("--", *extra_arguments) if extra_arguments else ()
        return ExecForm(("npm", "run", "--silent", name, *dashes))
    return Shell(package.scripts[name])


def without_npm(command: Command, package: Package | None) -> Command:
    """Replaces `npm start` and similar commands by the command of the script, because the engine should start
    the process without npm as its parent."""
    words = command.argv if isinstance(command, ExecForm) else tuple(command.text.split())
    match words:
        case ("npm" | "yarn" | "pnpm", "start"):
            name = "start"
        case ("npm" | "yarn" | "pnpm", "run", name) if re.fullmatch(r"[\w:.-]+", name):
            pass
        case _:
            return command
    return (package and script_command(package, name)) or command


def by_usual_files(folder: Path) -> Start | None:
    """Returns the only script of pyproject.toml, or else a Python file with a usual name, as the start."""
    scripts = _project_scripts(folder)
    if len(scripts) == 1:
        return Start(ExecForm((scripts[0],)), f"{scripts[0]}, the one script of pyproject.toml")
    for name in ("main.py", "app.py"):
        if (folder / name).is_file():
            origin = f"{name}, with `python {name}`; a Procfile with a line `web: …` can name another command"
            return Start(ExecForm(("python", name)), origin)
    if (folder / "manage.py").is_file():
        serving = Shell("python manage.py runserver --noreload 0.0.0.0:${PORT:-8000}")
        return Start(
            serving, "manage.py, with Django's server for development; a Procfile can name a better one"
        )
    return None


def nothing_found(folder: Path, language: str) -> BuildError:
    entries = sorted(path.name for path in folder.iterdir())
    example = _example_for(folder, entries)
    what = (
        f"this is {language}, and no file shows how it is started"
        if language
        else "no language was recognized"
    )
    return BuildError(
        f"{_advice(example)}: {what}. The folder holds: {', '.join(entries[:10]) or 'nothing'}. "
        f"A static site that a command makes needs `build_command` and `static_folder`."
    )


def _advice(example: str) -> str:
    if example:
        return f"Set start_command to `{example}`, or add a Procfile with the line `web: {example}`"
    return "Set start_command, or add a Procfile with a line such as `web: command`"


def _example_for(folder: Path, entries: Sequence[str]) -> str:
    """Returns an example start command for the files of a folder, or an empty string."""
    for ending, command in _EXAMPLE_COMMANDS:
        if file := next((name for name in entries if name.endswith(ending)), None):
            is_streamlit = ending == ".py" and _imports_streamlit(folder / file)
            return f"streamlit run {file} --server.port $PORT" if is_streamlit else command.format(file)
    return ""


def _imports_streamlit(file: Path) -> bool:
    return file.is_file() and bool(_STREAMLIT_PATTERN.search(read_small_text(file)))


def _project_scripts(folder: Path) -> list[str]:
    if not (folder / "pyproject.toml").is_file():
        return []
    project = read_pyproject(folder).get("project")
    scripts = project.get("scripts") if isinstance(project, dict) else None
    return [name for name in scripts if isinstance(name, str)] if isinstance(scripts, dict) else []
