"""The commands of the API, made from its declarations, and what happens when they are called."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import click
import msgspec

from windlass.cli.client import Api, ApiAnswer, path_of
from windlass.cli.derived_commands import (
    CommandPath,
    DerivedCommand,
    about,
    ancestry,
    deeds,
    is_service,
    kebab,
)
from windlass.cli.fields import body_of
from windlass.cli.following import LINE, Following, when_too_many
from windlass.cli.names import NameResolver, ResolvedResource
from windlass.cli.options import CommandOptions, api_of, base_body, free_fields, options_of, values
from windlass.cli.show import show, show_event, show_list
from windlass.cli.suggestions import Verbs, no_such_option
from windlass.cli.waiting import DeploymentWait, Started, Together, first_address, say, serves, summary
from windlass.core.declare.operations import Operation, PathId
from windlass.core.declare.resource import Family, Trait, Verb
from windlass.families import registry
from windlass.terminal.sections import Command
from windlass.terminal.stopped import Misused, ended_by_hand
from windlass.terminal.tables import FORM, plain, print_json, wants_json

SERVICES = "listOrganizationServices"
_NORMAL = {"token_normalize_func": kebab}


@cache
def everything() -> dict[str, dict[str, DerivedCommand]]:
    return deeds(registry())


def group(name: str) -> click.Group | None:
    words = everything().get(kebab(name))
    if words is None:
        return None
    return Verbs(
        kebab(name),
        commands={word: command(deed) for word, deed in words.items()},
        help=about(next(iter(words.values()))) + ".",
        context_settings=_NORMAL,
    )


def command(deed: DerivedCommand) -> click.Command:
    options = options_of(registry(), deed)
    operation = deed.operation
    said = (
        f"{deed.summary}.",
        operation.description,
        _which(deed),
        f"Needs the scope {operation.need.word}.",
    )
    made = Command(
        deed.word,
        params=list(options.params),
        callback=partial(_call, deed, options),
        help="\n\n".join(part for part in said if part),
        short_help=f"{deed.summary}.",
        epilog=_deeper(options),
        context_settings=_NORMAL,
    )
    made.unknown = no_such_option
    return made


def _which(deed: DerivedCommand) -> str:
    if not deed.ways[0].subject:
        return ""
    said = f"{deed.group.upper()} is an id"
    if deed.family is None or deed.family.names is None:
        return f"{said}."
    line = [kebab(family.name) for family in ancestry(registry(), deed.family)][-2::-1]
    if isinstance(deed.family.parent, Trait) or not line:
        own = "; without it, the token's own is meant" if deed.own else ""
        return f"{said} or a {deed.family.names}{own}."
    return f"{said}, or a name, or a path of names: {'/'.join([*line, deed.group])}."


def _deeper(options: CommandOptions) -> str | None:
    deep = [field.option for field in options.fields if field.deep]
    # `\b` keeps click from breaking lines, in the middle of the option for example.
    return f"\b\nDeeper fields are options too, such as\n{deep[0]}" if deep else None


def _call(deed: DerivedCommand, options: CommandOptions, **said: Any) -> None:
    api = api_of(said)
    if said.get("wait"):
        api.be_patient(when_too_many)
    asked = Asked(deed, options, said, api)
    as_json, wide = wants_json(said.get(FORM)), bool(said.get("wide"))
    if deed.lists_services and asked.is_overview(as_json=as_json):
        return _show_services(asked, as_json=as_json, wide=wide)
    operation = asked.way.operation
    path = path_of(operation.path, asked.ids())
    if operation.method == "DELETE" and not said["yes"]:
        _make_sure(deed, said)
    if said.get("wait"):
        return _wait(api, asked, path, as_json=as_json)
    if operation.paged and not any(values("query", options.query, said)):
        answer: Any = {"results": api.everything(path)}
    else:
        reply = asked.answered(path)
        if reply.going_on is not None:
            return _show_as_it_comes(asked, path, reply, as_json=as_json)
        answer = reply.json
    if not as_json:
        show(operation, answer, wide=wide)
    elif answer is not None:
        print_json(answer)
    return _note(operation)


def _show_services(asked: Asked, *, as_json: bool, wide: bool) -> None:
    """Prints services with state and address, which are not fields of the resource."""
    rows = asked.services()
    if as_json:
        print_json({"results": rows})
    else:
        show_list(_operation(SERVICES), rows, wide=wide)


# Waiting


def _wait(api: Api, asked: Asked, path: str, *, as_json: bool) -> None:
    with ended_by_hand("It goes on by itself."):
        if asked.way.operation.family is asked.place:
            _wait_for_all(api, asked, path, as_json=as_json)
        else:
            _wait_for_one(api, asked, path, as_json=as_json)


def _wait_for_one(api: Api, asked: Asked, path: str, *, as_json: bool) -> None:
    home, found = asked.service()
    answer = asked.answered(path).json
    if answer is None:
        say(f"{plain(found.name)}: there was nothing to do")
        return
    started = Started(home, found.name, answer["deployment_request_id"])
    ended = DeploymentWait(api, started, cancelled=asked.cancels).until_done()
    if as_json:
        print_json(ended.deployment)
    else:
        click.echo(summary(ended, first_address(api, home) if serves(ended) else ""))


def _wait_for_all(api: Api, asked: Asked, path: str, *, as_json: bool) -> None:
    """Starts an action on an environment and waits for all services that it affects."""
    assert asked.place is not None
    found = asked.subject()
    together = Together(api, found.id, cancelled=asked.cancels)
    answer = asked.answered(path).json
    listing = path_of(_operation(SERVICES).path, {"org_id": found.organization})
    services = api.everything(listing, environment_id=found.id)
    known = {
        one["id"]: Started(f"/{one['service_type'].lower()}/{one['id']}", one["name"], "") for one in services
    }
    ended = together.until_done(known)
    if as_json:
        if answer is not None:
            print_json(api.get(f"/{asked.place.segment}/{found.id}/status"))
        return
    live = any(serves(one) for one in ended)
    urls = {one["id"]: one["url"] for one in api.everything(listing, environment_id=found.id)} if live else {}
    for one in ended:
        click.echo(summary(one, urls.get(one.started.service, "") if serves(one) else ""))
    if not ended:
        say("There was nothing to do")


def _operation(id: str) -> Operation:
    return registry().operation(id)


def _show_as_it_comes(asked: Asked, path: str, first: ApiAnswer, *, as_json: bool) -> None:
    following = Following(lambda headers: asked.answered(path, headers), first)
    with ended_by_hand():
        for event in following.events():
            show_event(asked.way.operation, event.kind == LINE, event.data, as_json=as_json)


class Asked:
    """One call of a command: its arguments, and the API requests that they mean."""

    def __init__(
        self, deed: DerivedCommand, options: CommandOptions, said: Mapping[str, Any], api: Api
    ) -> None:
        self._deed = deed
        self._options = options
        self._said = said
        self._api = api
        self._above = {
            name: text for name in options.above if (text := said.get(f"above_{name}")) is not None
        }
        self._names = NameResolver(api, registry(), self._above)
        self._chosen: CommandPath | None = None

    @property
    def way(self) -> CommandPath:
        self._chosen = self._chosen or self._way()
        return self._chosen

    @property
    def cancels(self) -> bool:
        return "cancel" in self.way.operation.handler.lower()

    @property
    def place(self) -> Family | None:
        """The family that services are in."""
        found = next((one for one in registry().families.values() if is_service(one)), None)
        parents = registry().parents(found) if found else ()
        return parents[0] if parents else None

    def subject(self) -> ResolvedResource:
        """The resource that the command is about."""
        return self._names.find(self.way.operation.own_family, self._said["subject_0"])

    def service(self) -> tuple[str, ResolvedResource]:
        """Returns the path of the service that the command acts on, and its resource."""
        if above := self.way.operation.above:
            [family] = above.families
            found = self._names.find(family, self._above[above.name])
        else:
            family, found = self.way.operation.own_family, self.subject()
        return f"/{family.segment}/{found.id}", found

    # Lists of services

    def is_overview(self, *, as_json: bool) -> bool:
        """True if services are listed with state and address: for people, and if no environment was named."""
        if any(values("query", self._options.query, self._said)):
            return False
        return not as_json or not any(name in self._above for name, _ in self._deed.ways[0].above)

    def services(self) -> list[Any]:
        """Returns the services of this family in the environment or project that was named, or all."""
        family, query = self.way.operation.own_family, {}
        for above in ancestry(registry(), family):
            if above.name in self._above and above.parent is not None:
                found = self._names.find(above, self._above[above.name])
                query = {f"{above.name}_id": found.id}
                break
        listing = _operation(SERVICES)
        rows = self._api.everything(path_of(listing.path, {"org_id": self._names.home}), **query)
        return [one for one in rows if one["service_type"] == family.name.upper()]

    def _way(self) -> CommandPath:
        ways = self._deed.ways
        if len(ways) == 1:
            return ways[0]
        if self._deed.choices:
            return next(way for way in ways if way.choice == self._said["choice"])
        by_family = {registry()[name]: way for way in ways for name, _ in way.above}
        return by_family[self._names.nearest(list(by_family))]

    def ids(self) -> dict[str, str]:
        """The parameters of the path."""
        above = {param: self._id_above(name) for name, param in self.way.above}
        subject = {id.param: self._id_of(place, id) for place, id in enumerate(self.way.subject)}
        return above | subject

    def _id_above(self, name: str) -> str:
        family, text = registry().families.get(name), self._above.get(name)
        if text is not None:
            return self._names.id_of(family, text)
        if family is not None and family.parent is None:
            return self._names.home
        raise Misused(f"say which {name} with --{kebab(name)}: its id, or its name")

    def _id_of(self, place: int, id: PathId) -> str:
        text = self._said[f"subject_{place}"]
        if text is None:
            return self._names.home
        return self._names.id_of(id.families[0] if len(id.families) == 1 else None, text)

    def answered(self, path: str, more: Mapping[str, str] | None = None) -> ApiAnswer:
        operation = self.way.operation
        query = {
            ".".join(field.path): value for field, value in values("query", self._options.query, self._said)
        }
        headers = {"If-Match": self._said["if_match"]} if self._said.get("if_match") else {}
        sent = None if operation.body is None else msgspec.json.encode(self._body())
        return self._api.call(operation.method, path, sent, query=query, headers=headers | dict(more or {}))

    def _body(self) -> dict[str, Any]:
        given = [
            *((field.path, self._resolved(field.refers, value)) for field, value in self._fields()),
            *free_fields(self._options.fields, self._said),
        ]
        return body_of(base_body(self._said), given)

    def _fields(self) -> list[tuple[Any, Any]]:
        return list(values("field", self._options.fields, self._said))

    def _resolved(self, refers: str, value: Any) -> Any:
        return self._names.id_of(registry()[refers], value) if refers else value


def _make_sure(deed: DerivedCommand, said: Mapping[str, Any]) -> None:
    """Only of a person: a script means what it says."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        what = f"the {deed.group.replace('-', ' ')} {said['subject_0']}" if deed.ways[0].subject else "this"
        below = ", with all that is in it" if deed.family and registry().children(deed.family) else ""
        click.confirm(f"Delete {what}{below}?", abort=True, err=True)


def _note(operation: Operation) -> None:
    if operation.once and operation.handler.endswith(f".{Verb.CREATE}"):
        names = ", ".join(f"`{name}`" for name in sorted(operation.once))
        click.echo(f"Keep {names}: it is shown this once.", err=True)
