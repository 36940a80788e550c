"""`windlass demo`: deploys a bundled application with a database.

Every step first looks for existing resources, so that a second call resumes an interrupted one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import click
import msgspec

from windlass.cli.client import Api
from windlass.cli.connection import call_options, connect
from windlass.cli.deployments import DeploymentFailed, StartedDeployment, is_under_way, say
from windlass.cli.waiting import DeploymentWait
from windlass.demo import BRANCH, URL
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.sections import Command, Option
from windlass.terminal.tables import FORMAT_PARAMETER, print_json, wants_json

PROJECT_DESCRIPTION: Final = "Made by `windlass demo`, and removed by `windlass demo --remove`."
"""The description that identifies the demonstration's project, even if it was renamed."""

_TIMEOUT: Final = 120.0
_CHECK_INTERVAL: Final = 0.5
"""Seconds between two checks. Each check counts against the quota of a thousand requests per hour."""

ENVIRONMENT: Final = {"name": "production", "mode": "PRODUCTION"}
DATABASE: Final = {"name": "db", "type": "POSTGRESQL", "mode": "CONTAINER", "memory": 256}
APPLICATION: Final = {
    "name": "guestbook",
    "git_repository": {"url": URL, "branch": BRANCH},
    "cpu": 250,
    "memory": 128,
    "ports": [{"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True, "name": "web"}],
    "healthchecks": {
        "readiness_probe": {
            "type": {"http": {"path": "/healthz", "port": 8080}},
            "initial_delay_seconds": 0,
            "period_seconds": 1,
            "failure_threshold": 30,
        }
    },
}


def demo_command() -> click.Command:
    return Command(
        "demo",
        callback=_demo,
        params=[
            Option(
                ["remove", "--remove"],
                is_flag=True,
                help="Delete the demonstration with everything that it created.",
            ),
            Option(["yes", "-y", "--yes"], is_flag=True, help="With --remove: do not ask for confirmation."),
            Option(["project", "--project"], default="demo", show_default=True, help="Name of the project."),
            Option(
                ["version", "--postgresql"], default="16", show_default=True, help="Version of PostgreSQL."
            ),
            Option(
                ["patience", "--patience"],
                type=click.IntRange(min=1),
                default=600,
                show_default=True,
                metavar="SECONDS",
                help="Seconds that each of the two may take.",
            ),
            *call_options(),
        ],
        short_help="Deploy a bundled application with a database, and print its address.",
        help="""Deploy a bundled application with a database, and print its address.

        Makes a project with one environment, a PostgreSQL database and an application from a git repository
        that is part of Windlass, deploys both and waits until they run. A repeated call continues an
        unfinished one.""",
    )


def _demo(remove: bool, yes: bool, project: str, version: str, patience: int, **options: Any) -> None:
    demo = Demo(connect(options), project, patience)
    if remove:
        demo.remove(sure=yes or not (sys.stdin.isatty() and sys.stdout.isatty()))
        return
    address = demo.deploy(version, docs=f"{demo.api.url}/docs")
    if wants_json(options.get(FORMAT_PARAMETER)):
        print_json(address)
    else:
        click.echo(f"\nOpen {click.style(address['url'], bold=True)}\n")


class Demo:
    def __init__(self, api: Api, project: str, timeout: int) -> None:
        self.api = api
        self._project = project
        self._patience = timeout

    def deploy(self, version: str, docs: str) -> dict[str, str]:
        """Creates and starts everything that is missing. Returns the application's address, and the ids."""
        project = self._own_project() or self._create(self._projects, self._project_body())
        environment = self._find_or_create(f"/project/{project['id']}/environment", ENVIRONMENT)
        below = f"/environment/{environment['id']}"
        database = self._find_or_create(f"{below}/database", DATABASE | {"version": version})
        application = self._find_or_create(f"{below}/application", APPLICATION)
        self._find_or_create(
            f"/application/{application['id']}/environmentVariable",
            {"key": "DOCS_URL", "value": docs},
            by="key",
        )
        self._start_service("database", database)
        self._start_service("application", application)
        return {
            "url": self._application_url(application["id"]),
            "project_id": project["id"],
            "environment_id": environment["id"],
            "database_id": database["id"],
            "application_id": application["id"],
        }

    def remove(self, *, sure: bool) -> None:
        project = self._own_project()
        if project is None:
            say("There is no demonstration here.")
            return
        if not sure:
            click.confirm(f"Delete the project {project['name']}, with its data?", abort=True, err=True)
        self.api.call("DELETE", f"/project/{project['id']}")
        until = time.monotonic() + _TIMEOUT
        while self._own_project() is not None:
            if time.monotonic() > until:
                raise CommandFailed(
                    "call this again later; `windlass application list` and `windlass database list` show "
                    f"what it waits for: the project {project['name']} is still being deleted"
                )
            time.sleep(_CHECK_INTERVAL)
        say(f"Deleted the project {project['name']}, with all that was in it.")

    # Existing parts

    @property
    def _projects(self) -> str:
        return f"/organization/{self.api.get('/organization')['id']}/project"

    def _project_body(self) -> dict[str, str]:
        return {"name": self._project, "description": PROJECT_DESCRIPTION}

    def _own_project(self) -> Any:
        project = self._find(self._projects, self._project)
        if project is not None and project.get("description") != PROJECT_DESCRIPTION:
            raise CommandFailed(
                f"choose another name with --project: there is a project {project['name']!r} that is not the "
                "demonstration, and it is left as it is"
            )
        return project

    def _find_or_create(self, path: str, body: Mapping[str, Any], by: str = "name") -> Any:
        resource = self._find(path, body[by], by)
        return self._create(path, body, by) if resource is None else resource

    def _create(self, path: str, body: Mapping[str, Any], by: str = "name") -> Any:
        created = self.api.call("POST", path, msgspec.json.encode(body)).json
        say(f"Made the {_noun_of(path)} {body[by]}.")
        return created

    def _find(self, path: str, name: str, by: str = "name") -> Any:
        listed = self.api.everything(path)
        return next((row for row in listed if row[by].casefold() == name.casefold()), None)

    # Running parts

    def _start_service(self, family: str, service: Mapping[str, Any]) -> None:
        path, name = f"/{family}/{service['id']}", service["name"]
        status = self.api.get(f"{path}/status")
        if is_under_way(status):
            self._wait(path, name, status)
            status = self.api.get(f"{path}/status")
        if str(status["state"]) == "RUNNING" and status.get("service_deployment_status") != "OUT_OF_DATE":
            say(f"{name}: runs already")
        else:
            self._wait(path, name, self.api.call("POST", f"{path}/deploy").json)

    def _wait(self, path: str, name: str, begun: Mapping[str, Any]) -> None:
        started = StartedDeployment(path, name, begun["deployment_request_id"])
        try:
            DeploymentWait(self.api, started, seconds=self._patience).until_done()
        except DeploymentFailed as failed:
            raise CommandFailed(f"{name} does not run: {failed.why}") from failed

    def _application_url(self, application: str) -> str:
        links = self.api.get(f"/application/{application}/link")["results"]
        default = sorted(links, key=lambda link: not link.get("is_default"))
        if not default:
            raise CommandFailed("make the port of the guestbook public again: it runs, but has no address")
        return str(default[0]["url"])


def _noun_of(path: str) -> str:
    return {"environmentVariable": "variable"}.get(path.rpartition("/")[2], path.rpartition("/")[2])
