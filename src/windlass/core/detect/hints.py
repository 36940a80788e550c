"""Hints that do not depend on a language: Procfile, fly.toml, render.yaml, app.json, and a Dockerfile's port.

Their commands come from the application's author, so they are chosen before anything that a language
suggests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from windlass.core.detect.known_files import KnownFiles, table, texts, word
from windlass.core.detect.recipe import ProcessType, Recipe

MOST_PROCESSES: Final = 100
_PROCESS: Final = re.compile(r"([A-Za-z0-9_-]{1,60}+)[ \t]*+:[ \t]*+(\S.*)")
_EXPOSE: Final = re.compile(r"^[ \t]*+EXPOSE[ \t]++(\d{1,5})\b", re.IGNORECASE | re.MULTILINE)
_PAIR: Final = re.compile(r"( *+)(- )?( *+)([A-Za-z]\w*+):[ \t]*+(.*)")
_PORTS: Final = range(1, 65_536)


def apply_hints(files: KnownFiles, recipe: Recipe) -> None:
    _procfile(files, recipe)
    _fly(files, recipe)
    _render(files, recipe)
    _app_json(files, recipe)
    _dockerfile(files, recipe)


def processes_of(text: str) -> Iterator[ProcessType]:
    """Yields the first process types of a Procfile. Lines of another form are left out."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    matches = (match for line in lines if (match := _PROCESS.fullmatch(line.strip())))
    yield from (ProcessType(match[1], match[2].strip()) for match in islice(matches, MOST_PROCESSES))


def _procfile(files: KnownFiles, recipe: Recipe) -> None:
    named = {process.name: process for process in reversed([*processes_of(files.text("Procfile"))])}
    _take_processes(named, "The Procfile", recipe)


def _take_processes(named: dict[str, ProcessType], origin: str, recipe: Recipe) -> None:
    if release := named.pop("release", None):
        recipe.choose(f"{origin} names it as release.", release=release.command)
    if not named:
        return
    web = named.get("web") or named.get("app") or list(named.values())[-1]
    others = sorted((process for process in named.values() if process is not web), key=lambda p: p.name)
    recipe.choose(f"{origin} names {', '.join(sorted(named))}.", processes=[web, *others])
    recipe.choose(f"{origin} names it as {web.name}.", start=web.command)


def _fly(files: KnownFiles, recipe: Recipe) -> None:
    if not files.has("fly.toml"):
        return
    content = files.toml("fly.toml")
    named = {
        name: ProcessType(name, command)
        for name, command in table(content, "processes").items()
        if isinstance(command, str)
    }
    _take_processes(named, "fly.toml", recipe)
    recipe.choose("fly.toml names it as release_command.", release=word(content, "deploy", "release_command"))
    recipe.choose(
        "fly.toml names it as internal_port.", port=_port(table(content, "http_service").get("internal_port"))
    )
    checks = table(content, "http_service").get("checks")
    path = word(checks[0], "path") if isinstance(checks, list) and checks else ""
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
        value = service.get(name, "")
        value = value.removeprefix("./").rstrip("/") or "." if field == "static_folder" and value else value
        recipe.choose(f"render.yaml names it as {name}.", **{field: value})
    if "startCommand" in service:
        recipe.choose("render.yaml names a web service, which gets this PORT if none is named.", port=10_000)


def _render_services(text: str) -> Iterator[dict[str, str]]:
    """Yields the scalars of each service that answers HTTP. Reads only the plain form of YAML."""
    service: dict[str, str] = {}
    own = -1
    for line in text.splitlines():
        if not (match := _PAIR.fullmatch(line)):
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
    """Reads app.json, unless it is that of a mobile application (`expo`), which has the same name."""
    if not files.has("app.json"):
        return
    content = files.json("app.json")
    checks: Any = table(content, "healthchecks").get("web")
    for check in checks if isinstance(checks, list) else ():
        recipe.choose("app.json checks this path.", health_path=word(check, "path"))
    predeploy = word(content, "scripts", "dokku", "predeploy")
    recipe.choose("app.json names it as predeploy.", release=predeploy)
    if "https://github.com/heroku/heroku-buildpack-apt" in texts(content, "buildpacks"):
        recipe.choose("Aptfile names them.", system_packages=files.text("Aptfile").split())


def _dockerfile(files: KnownFiles, recipe: Recipe) -> None:
    if exposed := _EXPOSE.search(files.text("Dockerfile")):
        recipe.choose("The Dockerfile exposes it.", port=_port(int(exposed[1])))


def _port(value: Any) -> int:
    return value if isinstance(value, int) and value in _PORTS else 0
