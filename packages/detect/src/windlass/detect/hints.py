"""Reads hints that do not depend on a language: Procfile, fly.toml, render.yaml, app.json, and the port in a
Dockerfile.

The application's author wrote these commands, so they take precedence over commands that a language suggests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from windlass.detect.known_files import KnownFiles, table, text_in, texts
from windlass.detect.procfile import PROCFILE, Processes, main_process, processes_of, read_procfile
from windlass.detect.recipe import ProcessType, Recipe
from windlass.detect.tree import Tree

_EXPOSE_PATTERN: Final = re.compile(r"^[ \t]*+EXPOSE[ \t]++(\d{1,5})\b", re.IGNORECASE | re.MULTILINE)
_PAIR_PATTERN: Final = re.compile(r"( *+)(- )?( *+)([A-Za-z]\w*+):[ \t]*+(.*)")
_VALID_PORTS: Final = range(1, 65_536)


def apply_hints(files: KnownFiles, recipe: Recipe) -> None:
    _procfile(files, recipe)
    _apply_fly_toml(files, recipe)
    _render(files, recipe)
    _app_json(files, recipe)
    _dockerfile(files, recipe)


def start_by_author(tree: Tree) -> str:
    """Returns the start command in a Procfile or in another platform's file, such as fly.toml; empty if there
    is none."""
    recipe = Recipe()
    apply_hints(KnownFiles(tree), recipe)
    return recipe.start


def _procfile(files: KnownFiles, recipe: Recipe) -> None:
    procfile = read_procfile(files.text(PROCFILE))
    _take_processes(procfile, "The Procfile", procfile.main, recipe)


def _take_processes(named: Processes, origin: str, main: str, recipe: Recipe) -> None:
    """Adds the processes that a file declares to the recipe, beginning with the main process if there is
    one."""
    if named.problem:
        recipe.problems.append(named.problem)
    recipe.choose(f"{origin} names it as release.", release=named.release)
    processes = [ProcessType(name, command) for name, command in sorted(named.commands.items())]
    processes.sort(key=lambda process: process.name != main)
    recipe.choose(f"{origin} names {', '.join(sorted(named.commands))}.", processes=processes)
    recipe.choose(
        f"{origin} names it as {main}.",
        start=next((process.command for process in recipe.processes if process.name == main), ""),
    )


def _apply_fly_toml(files: KnownFiles, recipe: Recipe) -> None:
    if not files.has("fly.toml"):
        return
    content = files.toml("fly.toml")
    pairs = table(content, "processes").items()
    texts_only = ((name, command) for name, command in pairs if isinstance(command, str))
    named = processes_of(texts_only, "fly.toml")
    main = named.main or main_process(named.commands, default="app")
    _take_processes(named, "fly.toml", main, recipe)
    recipe.choose(
        "fly.toml names it as release_command.", release=text_in(content, "deploy", "release_command")
    )
    recipe.choose(
        "fly.toml names it as internal_port.",
        port=_valid_port(table(content, "http_service").get("internal_port")),
    )
    checks = table(content, "http_service").get("checks")
    path = text_in(checks[0], "path") if isinstance(checks, list) and checks else ""
    recipe.choose("fly.toml checks this path.", health_path=path)


def _render(files: KnownFiles, recipe: Recipe) -> None:
    service = next(_render_services(files.text("render.yaml")), {})
    if service.get("rootDir", ".").strip("./"):
        return
    for name, field in (
        ("startCommand", "start"),
        ("buildCommand", "build"),
        ("preDeployCommand", "release"),
        ("healthCheckPath", "health_path"),
        ("staticPublishPath", "static_folder"),
    ):
        # A single start command would not be one of the processes that another file declares.
        value = "" if field == "start" and recipe.processes else service.get(name, "")
        value = value.removeprefix("./").rstrip("/") or "." if field == "static_folder" and value else value
        recipe.choose(f"render.yaml names it as {name}.", **{field: value})
    if "startCommand" in service:
        recipe.choose("render.yaml names a web service, which gets this PORT if none is named.", port=10_000)


def _render_services(text: str) -> Iterator[dict[str, str]]:
    """Yields the scalar values of each HTTP service. Parses only the plain block form of YAML."""
    service: dict[str, str] = {}
    own = -1
    for line in text.splitlines():
        if not (match := _PAIR_PATTERN.fullmatch(line)):
            continue
        column = len(match[1]) + len(match[2] or "") + len(match[3])
        if match[2] and match[4] == "type":
            if service.get("type") in ("web", "static"):
                yield service
            service, own = {}, column
        if column == own and (value := match[5].strip().strip("\"'")) not in ("", "|", ">", "|-", ">-"):
            service.setdefault(match[4], value)
    if service.get("type") in ("web", "static"):
        yield service


def _app_json(files: KnownFiles, recipe: Recipe) -> None:
    """Reads app.json of Heroku or Dokku. The file with the same name in mobile applications (`expo`) contains
    none of these values."""
    if not files.has("app.json"):
        return
    content = files.json("app.json")
    checks: Any = table(content, "healthchecks").get("web")
    for check in checks if isinstance(checks, list) else ():
        recipe.choose("app.json checks this path.", health_path=text_in(check, "path"))
    predeploy = text_in(content, "scripts", "dokku", "predeploy")
    recipe.choose("app.json names it as predeploy.", release=predeploy)
    if "https://github.com/heroku/heroku-buildpack-apt" in texts(content, "buildpacks"):
        recipe.choose("Aptfile names them.", system_packages=files.text("Aptfile").split())


def _dockerfile(files: KnownFiles, recipe: Recipe) -> None:
    if exposed := _EXPOSE_PATTERN.search(files.text("Dockerfile")):
        recipe.choose("The Dockerfile exposes it.", port=_valid_port(int(exposed[1])))


def _valid_port(value: Any) -> int:
    return value if isinstance(value, int) and value in _VALID_PORTS else 0
