"""Prints lists that need several API calls: services with state and address, and clusters with the state of
their engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import click

from windlass.cli.client import Api, ApiRefused, path_of
from windlass.cli.deployments import EndedDeployment, is_gone, say, serves
from windlass.cli.fields import fields_of
from windlass.cli.lists import show_list
from windlass.cli.names import ResolvedResource
from windlass.core.declare.operations import Operation
from windlass.core.declare.resource import Family
from windlass.core.words.naming import kebab
from windlass.families import registry
from windlass.terminal.command_errors import InvalidUsage
from windlass.terminal.tables import paint, plain

SERVICES: Final = registry().operation("listOrganizationServices")
_MAX_CONCURRENT_REQUESTS: Final = 8
_MAX_NAMED_SERVICES: Final = 20


def services_in(api: Api, organization: str, **place: str) -> list[Any]:
    """Returns all services of an organization, or of the given project or environment."""
    return api.everything(path_of(SERVICES.path, {"org_id": organization}), **place)


def show_environment(api: Api, environment: ResolvedResource, state: str) -> None:
    """Prints the state of an environment, followed by its services."""
    click.echo(f"{plain(environment.path)}: {paint(state)}")
    show_list(SERVICES, services_in(api, environment.organization, environment_id=environment.id))


def with_status(api: Api, operation: Operation, path: str, rows: list[Any]) -> list[Any]:
    """Adds the status to each resource in a list, if reading the status needs a separate call."""
    family = operation.family
    reading = registry().handled_by(f"{family.name}.status") if family else ()
    if not any(status.outside for status in reading):
        return rows

    def status_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            status = api.get(f"{path}/{row['id']}/status")
        except ApiRefused as refused:
            if is_gone(refused):
                return {}
            raise
        return {name: status[name] for name in ("status", "message")}

    with ThreadPoolExecutor(_MAX_CONCURRENT_REQUESTS) as threads:
        return [{**row, **status} for row, status in zip(rows, threads.map(status_of, rows), strict=True)]


def only_service(noun: str, services: Sequence[Mapping[str, Any]]) -> str:
    """Returns the id of the only service, and prints its name. Raises InvalidUsage with all names if there
    are several services."""
    if not services:
        raise InvalidUsage(f"create the {noun} first: there is none here")
    names = [plain(f"{row['project_name']}/{row['environment_name']}/{row['name']}") for row in services]
    if len(names) > 1:
        more = f" and {len(names) - _MAX_NAMED_SERVICES} more" if len(names) > _MAX_NAMED_SERVICES else ""
        raise InvalidUsage(f"name one of these: {', '.join(names[:_MAX_NAMED_SERVICES])}{more}")
    say(names[0])
    return str(services[0]["id"])


def path_of_service(row: Mapping[str, Any]) -> str:
    """Returns the API path of a service in a list of services of all kinds."""
    return path_of(f"/{registry().service_of_type(row['service_type']).segment}/{{id}}", {"id": row["id"]})


def print_address_hint(family: Family | None, ended_deployment: EndedDeployment, url: str) -> None:
    """Prints how to make a service public, after the first deployment of a service without an address."""
    if url or not serves(ended_deployment) or ended_deployment.deployment["number"] > 1 or family is None:
        return
    for option in (field.short for field in fields_of(family.spec) if field.short):
        edit = f"windlass {kebab(family.name)} edit {ended_deployment.started.name} --{option.name} NUMBER"
        say(f"For a public address, name the port on which it listens, and deploy it again: {plain(edit)}")
