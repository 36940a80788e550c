"""Commands out of deeds, and what happens when they are called."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import click
import msgspec

from windlass.base.sections import Command
from windlass.base.show import FORM, print_json, wants_json
from windlass.base.stopped import Misused, ended_by_hand
from windlass.cli.client import Answer, Api, path_of
from windlass.cli.deeds import Deed, Way, about, ancestry, deeds, kebab
from windlass.cli.fields import body_of
from windlass.cli.following import LINE, Following
from windlass.cli.names import Names
from windlass.cli.options import Options, api_of, base_body, free_fields, options_of, values
from windlass.cli.show import show, show_event
from windlass.cli.waiting import Before
from windlass.core.document import narrowed
from windlass.core.registry import Operation
from windlass.core.resource import Trait, Verb
from windlass.families import registry

_NORMAL = {"token_normalize_func": kebab}


@cache
def everything() -> dict[str, dict[str, Deed]]:
    return deeds(registry())


def group(name: str) -> click.Group | None:
    words = everything().get(kebab(name))
    if words is None:
        return None
    return click.Group(
        kebab(name),
        commands={word: command(deed) for word, deed in words.items()},
        help=about(next(iter(words.values()))) + ".",
        context_settings=_NORMAL,
    )


def command(deed: Deed) -> click.Command:
    options = options_of(registry(), deed)
    operation = deed.operation
    said = (
        f"{deed.summary}.",
        operation.description,
        _which(deed),
        f"Needs the scope {operation.need.word}.",
    )
    return Command(
        deed.word,
        params=list(options.params),
        callback=partial(_call, deed, options),
        help="\n\n".join(part for part in said if part),
        short_help=f"{deed.summary}.",
        epilog=_deeper(options),
        context_settings=_NORMAL,
    )


def _which(deed: Deed) -> str:
    if deed.family is None or not deed.ways[0].subject:
        return ""
    said = f"{deed.group.upper()} is an id"
    if deed.family.names is None:
        return f"{said}."
    line = [kebab(family.name) for family in ancestry(registry(), deed.family)][-2::-1]
    if isinstance(deed.family.parent, Trait) or not line:
        own = "; without it, the token's own is meant" if deed.own else ""
        return f"{said} or a {deed.family.names}{own}."
    return f"{said}, or a name, or a path of names: {'/'.join([*line, deed.group])}."


def _deeper(options: Options) -> str | None:
    deep = [field.option for field in options.fields if field.deep]
    # `\b` keeps click from breaking lines, in the middle of the option for example.
    return f"\b\nDeeper fields are options too, such as\n{deep[0]}" if deep else None


def _call(deed: Deed, options: Options, **said: Any) -> None:
    api = api_of(said)
    asked = Asked(deed, options, said, api)
    operation = asked.way.operation
    path = path_of(operation.path, asked.ids())
    if operation.method == "DELETE" and not said["yes"]:
        _make_sure(deed, said)
    if operation.paged and not any(values("query", options.query, said)):
        answer: Any = {"results": api.everything(path)}
    elif said.get("wait"):
        answer = _waited(api, asked, path)
    else:
        reply = asked.answered(path)
        if reply.going_on is not None:
            return _show_as_it_comes(asked, path, reply, as_json=wants_json(said.get(FORM)))
        answer = reply.json
    if wants_json(said.get(FORM)):
        if answer is not None:
            print_json(answer)
    else:
        show(operation, answer)
    return _note(operation)


def _waited(api: Api, asked: Asked, path: str) -> Any:
    before = Before(api, registry(), asked.way.operation, path)
    answer = asked.answered(path).json
    with ended_by_hand("It goes on by itself."):
        return before.wait(answer)


def _show_as_it_comes(asked: Asked, path: str, first: Answer, *, as_json: bool) -> None:
    following = Following(lambda headers: asked.answered(path, headers), first)
    with ended_by_hand():
        for event in following.events():
            show_event(asked.way.operation, event.kind == LINE, event.data, as_json=as_json)


class Asked:
    """One call of a command: what was said, and what of the API it comes to."""

    def __init__(self, deed: Deed, options: Options, said: Mapping[str, Any], api: Api) -> None:
        self._deed = deed
        self._options = options
        self._said = said
        self._api = api
        self._above = {
            name: text for name in options.above if (text := said.get(f"above_{name}")) is not None
        }
        self._names = Names(api, registry(), self._above)
        self.way = self._way()

    def _way(self) -> Way:
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
        subject = {param: self._id_of(place) for place, param in enumerate(self.way.subject)}
        return above | subject

    def _id_above(self, name: str) -> str:
        family, text = registry().families.get(name), self._above.get(name)
        if text is not None:
            return self._names.id_of(family, text)
        if family is not None and family.parent is None:
            return self._names.home
        raise Misused(f"say which {name} with --{kebab(name)}: its id, or its name")

    def _id_of(self, place: int) -> str:
        text = self._said[f"subject_{place}"]
        if text is None:
            return self._names.home
        return self._names.id_of(self._deed.family if place == 0 else None, text)

    def answered(self, path: str, more: Mapping[str, str] | None = None) -> Answer:
        operation = self.way.operation
        query = {
            ".".join(field.path): value for field, value in values("query", self._options.query, self._said)
        }
        headers = {"If-Match": self._said["if_match"]} if self._said.get("if_match") else {}
        body = None
        if operation.body is not None:
            body, tag = self._body(path)
            headers = ({"If-Match": tag} if tag else {}) | headers
        sent = None if body is None else msgspec.json.encode(body)
        return self._api.call(operation.method, path, sent, query=query, headers=headers | dict(more or {}))

    def _body(self, path: str) -> tuple[dict[str, Any], str]:
        """The body, and the version on which it builds, if it builds on one."""
        given = [
            *((field.path, self._resolved(field.refers, value)) for field, value in self._fields()),
            *free_fields(self._options.fields, self._said),
        ]
        base = base_body(self._said)
        partly = {path[0] for path, _ in given if len(path) > 1} - base.keys()
        if not partly or self.way.operation.handler.rpartition(".")[2] != Verb.UPDATE:
            return body_of(base, given), ""
        # A PUT replaces an object as a whole: what of it was not named is taken from the present version.
        present = self._api.call("GET", path)
        assert self.way.operation.family is not None
        stored = narrowed(present.json, self.way.operation.family.spec)
        return body_of({name: stored[name] for name in partly & stored.keys()} | base, given), present.tag

    def _fields(self) -> list[tuple[Any, Any]]:
        return list(values("field", self._options.fields, self._said))

    def _resolved(self, refers: str, value: Any) -> Any:
        return self._names.id_of(registry()[refers], value) if refers else value


def _make_sure(deed: Deed, said: Mapping[str, Any]) -> None:
    """Only of a person: a script means what it says."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        what = f"the {deed.group.replace('-', ' ')} {said['subject_0']}" if deed.ways[0].subject else "this"
        below = ", with all that is in it" if deed.family and registry().children(deed.family) else ""
        click.confirm(f"Delete {what}{below}?", abort=True, err=True)


def _note(operation: Operation) -> None:
    once = (
        operation.family.once if operation.family and operation.handler.endswith(f".{Verb.CREATE}") else None
    )
    if once is not None:
        names = ", ".join(f"`{name}`" for name in once.__struct_encode_fields__)
        click.echo(f"Keep {names}: it is shown this once.", err=True)
