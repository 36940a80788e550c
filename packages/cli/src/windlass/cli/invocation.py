"""One call of a derived command: its arguments, and the API requests that it sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.cli.client import Api, ApiAnswer, ApiRefused, path_of
from windlass.cli.derived_commands import CommandPath, DerivedCommand, ancestry
from windlass.cli.fields import body_of
from windlass.cli.names import NameResolver, ResolvedResource
from windlass.cli.options import CommandOptions, base_body, free_fields, values, with_option
from windlass.cli.overviews import services_in
from windlass.core.declare.fields import SERVICE_OR_ABOVE
from windlass.core.declare.operations import Operation, PathId
from windlass.core.declare.resource import Family, Trait
from windlass.core.words.naming import kebab
from windlass.families import registry
from windlass.terminal.command_errors import InvalidUsage


class Invocation:
    def __init__(
        self, derived: DerivedCommand, options: CommandOptions, arguments: Mapping[str, Any], api: Api
    ) -> None:
        self.command = derived
        self._options = options
        self._given = arguments
        self._api = api
        self._above = {
            name: text for name in options.above if (text := arguments.get(f"above_{name}")) is not None
        }
        self._names = NameResolver(api, registry(), self._above)
        self._chosen: CommandPath | None = None
        self._named: set[str] = set()
        """Top-level body fields that the user named directly, not through options."""

    @property
    def path(self) -> CommandPath:
        self._chosen = self._chosen or self._choose_path()
        return self._chosen

    @property
    def operation(self) -> Operation:
        return self.path.operation

    @property
    def place(self) -> Family | None:
        """The family whose resources contain services."""
        return next((place for family in registry().services for place in registry().parents(family)), None)

    def subject(self) -> ResolvedResource:
        """Returns the resource that is the command's argument."""
        return self._names.find(self.operation.own_family, self._given["subject_0"])

    def service(self) -> tuple[str, ResolvedResource]:
        """Returns the API path of the service that the command acts on, and the service."""
        if above := self.operation.above:
            [family] = above.families
            service = self._names.find(family, self._above[above.name])
        else:
            family, service = self.operation.own_family, self.subject()
        return f"/{family.segment}/{service.id}", service

    # Lists of services

    def is_overview(self, *, as_json: bool) -> bool:
        """Returns whether the command lists services with state and address: in text output, or if no
        environment or project was named."""
        if any(values("query", self._options.query, self._given)):
            return False
        return not as_json or not any(name in self._above for name, _ in self.command.paths[0].above)

    def services(self) -> list[Any]:
        """Returns the services of this family in the given environment or project, or in the organization."""
        family, query = self.operation.own_family, {}
        for above in ancestry(registry(), family):
            if above.name in self._above and above.parent is not None:
                place = self._names.find(above, self._above[above.name])
                query = {f"{above.name}_id": place.id}
                break
        rows = services_in(self._api, self._names.home, **query)
        return [row for row in rows if row["service_type"] == family.enum_value]

    def _choose_path(self) -> CommandPath:
        paths = self.command.paths
        if len(paths) == 1:
            return paths[0]
        if self.command.choices:
            return next(path for path in paths if path.choice == self._given["choice"])
        by_family = {registry()[name]: path for path in paths for name, _ in path.above}
        return by_family[self._names.nearest(list(by_family))]

    def ids(self) -> dict[str, str]:
        """Returns the values of the path parameters."""
        above = {param: self._id_above(name) for name, param in self.path.above}
        if self.command.takes_numbers:
            return above | {self.path.subject[0].param: self._id_by_number(above)}
        subject = {id.param: self._id_of(position, id) for position, id in enumerate(self.path.subject)}
        return above | subject

    def _id_by_number(self, above: Mapping[str, str]) -> str:
        collection = self.operation.path.partition(f"/{{{self.path.subject[0].param}}}")[0]
        find = self._names.deployment if self.command.takes_versions else self._names.run
        return find(path_of(collection, above), self._given["subject_0"])

    def _id_above(self, name: str) -> str:
        family, text = registry().families.get(name), self._above.get(name)
        if text is not None:
            return self._names.id_of(family, text)
        if family is not None and family.parent is None:
            return self._names.home
        raise InvalidUsage(f"choose one with --{kebab(name)}: {self._describe_candidates(family)}")

    def _describe_candidates(self, family: Family | None) -> str:
        """Returns the paths of the resources that the user could choose, or how to create one."""
        if family is None or isinstance(family.parent, Trait):
            return "its id, or its name"
        paths = [resource.path for resource in self._names.named(family)]
        return ", ".join(paths) or f"there is none yet; `windlass {kebab(family.name)} create` makes one"

    def _id_of(self, position: int, path_id: PathId) -> str:
        text = self._given[f"subject_{position}"]
        if text is None:
            return self._names.home
        return self._names.id_of_any(path_id.families, text)

    def send(self, path: str, extra_headers: Mapping[str, str] | None = None) -> ApiAnswer:
        operation = self.operation
        query = {
            ".".join(field.path): self._resolve(field.refers, value)
            for field, value in values("query", self._options.query, self._given)
        }
        headers = {"If-Match": self._given["if_match"]} if self._given.get("if_match") else {}
        sent = None if operation.body is None else msgspec.json.encode(self._body())
        try:
            return self._api.call(
                operation.method, path, sent, query=query, headers=headers | dict(extra_headers or {})
            )
        except ApiRefused as refused:
            message = with_option(refused.message, self._options, self._given, self._named)
            raise ApiRefused(message, refused.answer) from refused

    def _body(self) -> dict[str, Any]:
        base, free = base_body(self._given), list(free_fields(self._options.fields, self._given))
        self._named = {*base, *(path[0] for path, _ in free)}
        fields = ((field.path, self._resolve(field.refers, value)) for field, value in self._field_options())
        return body_of(base, [*fields, *free])

    def _field_options(self) -> list[tuple[Any, Any]]:
        return list(values("field", self._options.fields, self._given))

    def _resolve(self, refers: str, value: Any) -> Any:
        """Replaces names by ids if the field contains ids."""
        if not refers:
            return value
        families = registry().services_and_above if refers == SERVICE_OR_ABOVE else (registry()[refers],)
        if isinstance(value, list):
            return [self._names.id_of_any(families, text) for text in value]
        return self._names.id_of_any(families, value)
