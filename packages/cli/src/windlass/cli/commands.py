"""Builds and runs the commands that are derived from the API's declarations."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final

import click

from windlass.cli.client import Api, ApiAnswer, path_of
from windlass.cli.clone_previews import show_clone_preview
from windlass.cli.command_table import GroupLines, line_about
from windlass.cli.connection import connect
from windlass.cli.deployments import StartedDeployment, say, serves, summary
from windlass.cli.derived_commands import DerivedCommand, about, ancestry, commands_of
from windlass.cli.following import LINE_EVENT, StreamFollower, wait_for_budget
from windlass.cli.invocation import Invocation
from windlass.cli.linked_folder import FolderLink, current_folder, find_linked_folder
from windlass.cli.lists import show_list
from windlass.cli.options import PREVIEW, CommandOptions, options_of, values
from windlass.cli.outcomes import wait_and_show
from windlass.cli.overviews import (
    SERVICES,
    only_service,
    path_of_service,
    services_in,
    show_environment,
    with_status,
)
from windlass.cli.rollback_differences import show_environment_difference
from windlass.cli.saved_files import save_file
from windlass.cli.show import note_next, note_shown_once, show, show_event
from windlass.cli.suggestions import no_such_option
from windlass.cli.waiting import print_follow_hint, wait_for_run
from windlass.cli.waiting_for_all import EnvironmentWait
from windlass.core.declare.resource import Trait
from windlass.core.declare.rollbacks import EnvironmentRollbackDifference
from windlass.core.words.naming import kebab
from windlass.families import registry
from windlass.families.environment import EnvironmentStatuses
from windlass.terminal.command_errors import ended_by_user
from windlass.terminal.sections import Command
from windlass.terminal.tables import FORMAT_PARAMETER, plain, print_json, wants_json


def link_of_folder(
    command: DerivedCommand, options: CommandOptions, arguments: Mapping[str, Any]
) -> FolderLink | None:
    """Returns the link of the current folder if the command needs a parent resource and the user named none.

    Lists of services do not use the link: without an environment, they contain the services of all
    environments.
    """
    is_named = any(arguments.get(f"above_{name}") is not None for name in options.above)
    if is_named or len(command.paths) > 1 or command.lists_services:
        return None
    if not {name for name, _ in command.paths[0].above} & {"environment", "project"}:
        return None
    linked = find_linked_folder(current_folder())
    return linked.link if linked else None


def places_of(command: DerivedCommand, link: FolderLink) -> dict[str, str]:
    """Returns the linked environment and project, as if the user had passed them as options."""
    places = {"environment": link.place, "project": link.project}
    return {f"above_{name}": places[name] for name, _ in command.paths[0].above if name in places}


_TOKEN_NORMALIZATION: Final = {"token_normalize_func": kebab}


@cache
def all_commands() -> dict[str, dict[str, DerivedCommand]]:
    return commands_of(registry())


def group_lines() -> dict[str, GroupLines]:
    """Returns the help lines of all groups and their commands, for the command table."""
    return {
        group: GroupLines(
            about(words.values()) + ".",
            {word: line_about(command(derived)) for word, derived in words.items()},
        )
        for group, words in all_commands().items()
    }


def command(derived: DerivedCommand) -> click.Command:
    options = options_of(registry(), derived)
    operation = derived.operation
    paragraphs = (
        f"{derived.summary}.",
        operation.description,
        _describe_subject(derived),
        f"Needs the scope {operation.need.word}.",
    )
    built = Command(
        derived.word,
        params=list(options.params),
        callback=partial(_run_command, derived, options),
        help="\n\n".join(part for part in paragraphs if part),
        short_help=f"{derived.summary}.",
        epilog=_mention_deep_fields(options),
        context_settings=_TOKEN_NORMALIZATION,
    )
    built.unknown = no_such_option
    return built


def _describe_subject(derived: DerivedCommand) -> str:
    if not derived.paths[0].subject:
        return ""
    id_only = f"{derived.group.upper()} is an id"
    if derived.takes_numbers:
        newest = "; without it, the newest is meant" if derived.is_of_newest else ""
        number = "a version, such as v3," if derived.takes_versions else "a number, such as 3,"
        return f"{derived.group.upper()} is {number} or an id{newest}."
    family = derived.named
    if family is None or family.names is None:
        return f"{id_only}."
    line = [kebab(above.name) for above in ancestry(registry(), family)][-2::-1]
    if isinstance(family.parent, Trait) or not line:
        own = "; without it, the token's own is meant" if derived.own else ""
        names = family.names
        return f"{id_only} or {'an' if names[0] in 'aeiou' else 'a'} {names}{own}."
    return f"{id_only}, or a name, or a path of names: {'/'.join([*line, derived.group])}."


def _mention_deep_fields(options: CommandOptions) -> str | None:
    deep = [field.option for field in options.fields if field.deep]
    # `\b` prevents click from breaking lines, for example in the middle of the option.
    return f"\b\nDeeper fields are options too, such as\n{deep[0]}" if deep else None


def _run_command(derived: DerivedCommand, options: CommandOptions, **arguments: Any) -> None:
    link = link_of_folder(derived, options, arguments)
    api = connect(arguments, linked=link.url if link else "")
    arguments = arguments | (places_of(derived, link) if link else {})
    if arguments.get("wait"):
        api.enable_retries(wait_for_budget)
    if derived.has_choice and arguments["subject_0"] is None:
        services = Invocation(derived, options, arguments, api).services()
        arguments = arguments | {"subject_0": only_service(derived.group.replace("-", " "), services)}
    invocation = Invocation(derived, options, arguments, api)
    as_json, wide = wants_json(arguments.get(FORMAT_PARAMETER)), bool(arguments.get("wide"))
    if derived.lists_services and invocation.is_overview(as_json=as_json):
        return _show_services(invocation, as_json=as_json, wide=wide)
    operation = invocation.operation
    path = path_of(operation.path, invocation.ids())
    if arguments.get("dry_run"):
        return _show_preview(invocation, f"{path}{PREVIEW}", as_json=as_json)
    if operation.method == "DELETE" and not arguments["yes"]:
        _confirm(derived, arguments)
    if arguments.get("wait"):
        return _wait_for_end(api, invocation, path, as_json=as_json)
    if operation.paged and not any(values("query", options.query, arguments)):
        answer: Any = {"results": api.everything(path)}
    else:
        reply = invocation.send(path)
        if reply.going_on is not None:
            return _stream_output(invocation, path, reply, as_json=as_json)
        if operation.media_type:
            return save_file(reply, arguments["output"])
        answer = reply.json
    if not as_json and operation.answer and issubclass(operation.answer, EnvironmentStatuses):
        return show_environment(api, invocation.subject(), answer["environment"]["state"])
    if not as_json and operation.answer is EnvironmentRollbackDifference:
        return show_environment_difference(answer)
    if not as_json:
        if operation.is_array:
            answer = {"results": answer}
        elif operation.listing:
            answer["results"] = with_status(api, operation, path, answer["results"])
        show(operation, answer, wide=wide)
        note_next(operation, answer)
        if derived.starts_run and not derived.takes_numbers:
            print_follow_hint(answer, arguments["subject_0"])
    elif answer is not None:
        print_json(answer)
    return note_shown_once(operation)


def _show_services(invocation: Invocation, *, as_json: bool, wide: bool) -> None:
    """Prints services with their state and address, which are not fields of the resource."""
    rows = invocation.services()
    if as_json:
        print_json({"results": rows})
    else:
        show_list(SERVICES, rows, wide=wide)


def _show_preview(invocation: Invocation, path: str, *, as_json: bool) -> None:
    preview = invocation.send(path).json
    if as_json:
        print_json(preview)
    else:
        show_clone_preview(preview)


# Waiting


def _wait_for_end(api: Api, invocation: Invocation, path: str, *, as_json: bool) -> None:
    with ended_by_user("It continues in the background."):
        if invocation.command.starts_run:
            _wait_for_run(api, invocation, path, as_json=as_json)
        elif invocation.operation.family is invocation.place:
            _wait_for_all(api, invocation, path, as_json=as_json)
        else:
            _wait_for_one(api, invocation, path, as_json=as_json)


def _wait_for_one(api: Api, invocation: Invocation, path: str, *, as_json: bool) -> None:
    home, service = invocation.service()
    answer = invocation.send(path).json
    if answer is None:
        say(f"{plain(service.name)}: there was nothing to do")
        return
    started = StartedDeployment(home, service.name, answer["deployment_request_id"])
    family, cancels = invocation.operation.family, invocation.command.cancels
    wait_and_show(api, started, family, as_json=as_json, cancelled=cancels)


def _wait_for_run(api: Api, invocation: Invocation, path: str, *, as_json: bool) -> None:
    _, job = invocation.service()
    run = invocation.send(path).json
    is_cancel = invocation.command.takes_numbers  # only cancellation names a run
    wait_for_run(api, job.name, run, cancelled=is_cancel, as_json=as_json)


def _wait_for_all(api: Api, invocation: Invocation, path: str, *, as_json: bool) -> None:
    """Starts an action on an environment and waits for all services that it affects."""
    assert invocation.place is not None
    environment = invocation.subject()
    wait = EnvironmentWait(api, environment, cancelled=invocation.command.cancels)
    answer = invocation.send(path).json
    services = services_in(api, environment.organization, environment_id=environment.id)
    started = {row["id"]: StartedDeployment(path_of_service(row), row["name"], "") for row in services}
    ended = wait.until_done(started)
    if as_json:
        if answer is not None:
            print_json(api.get(f"/{invocation.place.segment}/{environment.id}/status"))
        return
    urls = {}
    if any(serves(end) for end in ended):
        services = services_in(api, environment.organization, environment_id=environment.id)
        urls = {row["id"]: row["url"] for row in services}
    for end in ended:
        click.echo(summary(end, urls.get(end.started.service, "") if serves(end) else ""))
    if not ended:
        say("There was nothing to do")


def _stream_output(invocation: Invocation, path: str, first: ApiAnswer, *, as_json: bool) -> None:
    following = StreamFollower(lambda headers: invocation.send(path, headers), first)
    with ended_by_user():
        for event in following.events():
            show_event(invocation.operation.answer, event.kind == LINE_EVENT, event.data, as_json=as_json)


def _confirm(derived: DerivedCommand, arguments: Mapping[str, Any]) -> None:
    """Asks for confirmation in a terminal. Without a terminal, as in scripts, deletes without asking."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        what = (
            f"the {derived.group.replace('-', ' ')} {arguments['subject_0']}"
            if derived.paths[0].subject
            else "this"
        )
        below = ", with all that is in it" if derived.family and registry().children(derived.family) else ""
        click.confirm(f"Delete {what}{below}?", abort=True, err=True)
