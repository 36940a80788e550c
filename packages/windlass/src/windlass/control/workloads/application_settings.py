"""Settings of an application that are applied to its build at deployment. Changing them needs no new
build."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.base.shell import shell_command
from windlass.core.words.variables import UnresolvableVariable
from windlass.detect.recipe import WEB_PROCESS
from windlass.engines.workload import Artifact, SiteHeader, StaticSite, Workload
from windlass.families.application import Application


def with_settings(spec: Application, workload: Workload) -> Workload:
    """Returns the workload of an application. Its settings override values of the build."""
    artifact = workload.artifact
    command = _command_of(spec, artifact)
    is_process = bool(command or workload.entrypoint or workload.command)
    artifact = replace(
        artifact,
        release=_release_of(spec, artifact),
        static=None if is_process else _site_of(spec, artifact),
    )
    workload = replace(workload, artifact=artifact)
    if command:
        workload = _with_command(workload, command)
    _check_start(workload)
    return workload


def _release_of(spec: Application, artifact: Artifact) -> tuple[str, ...]:
    """Returns the release command: the command of the settings, or the repository's command for the web
    process.

    Other applications may run other processes of the same repository, and would run the repository's command
    a second time.
    """
    if spec.release_command:
        return shell_command(spec.release_command)
    return artifact.release if (spec.process or WEB_PROCESS) == WEB_PROCESS else ()


def _command_of(spec: Application, artifact: Artifact) -> tuple[str, ...]:
    """Returns the start command of the settings; empty if the build's command is used."""
    if spec.start_command:
        return shell_command(spec.start_command)
    if not spec.process:
        return ()
    if command := artifact.processes.get(spec.process):
        return command
    if not artifact.processes:
        raise UnresolvableVariable(
            "process: leave it out, or add a Procfile that names it: the repository names no process types"
        )
    names = ", ".join(sorted(artifact.processes))
    raise UnresolvableVariable(
        f"process: choose one of {names}: the repository names no process type {spec.process}"
    )


def _with_command(workload: Workload, command: tuple[str, ...]) -> Workload:
    if workload.artifact.kind == "image":
        return replace(workload, entrypoint=command[:1], command=command[1:])
    return replace(workload, entrypoint=(), command=command)


def _site_of(spec: Application, artifact: Artifact) -> StaticSite | None:
    site = artifact.static
    if site is None:
        return None
    own = tuple(SiteHeader(header.path, header.name, header.value) for header in spec.static_headers)
    return replace(site, fallback=spec.static_fallback or site.fallback, headers=(*own, *site.headers))


def _check_start(workload: Workload) -> None:
    """Raises UnresolvableVariable if the build has no start command. An image may contain its own command."""
    artifact = workload.artifact
    if artifact.kind == "image" or artifact.static or artifact.command or workload.command:
        return
    if names := ", ".join(sorted(artifact.processes)):
        raise UnresolvableVariable(
            f"Set process to one of {names}: the repository names these, and no process type web"
        )
    raise UnresolvableVariable("Set start_command: the repository names no command that can be started")
