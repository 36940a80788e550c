"""What no JSON Schema can say, said to the generator: it mends what it sends, and no check is switched off.

Only what is meant to be accepted is mended: a body, a path, a header that was made wrong on purpose stays wrong.
A story (the stateful phase) is told again from its beginning, with variations; where the town answered otherwise
than the first time, the teller would give up. So in a story every name is new, and only what it made is deleted.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

from tests.schemathesis.town import Ids, Town
from tests.world import ADMIN
from windlass.core.registry import Operation
from windlass.families import registry

Body = dict[str, Any]
Case = schemathesis.Case[Any]

AUTHORIZATION = f"Token {ADMIN}"
FAR_AWAY = "2400"
"""A year that has a 29th of February."""

_OPERATIONS = {(operation.method, operation.path): operation for operation in registry().operations}


def mends(schema: schemathesis.BaseSchema, town: Town) -> None:
    """Makes what this schema generates fit this town."""
    mending = Mending(town)
    schema.hooks.register_hook_with_name(is_telling, "filter_case")
    schema.hooks.register_hook_with_name(mending.mend, "map_case")
    schema.hooks.register_hook_with_name(mending.learn, "after_call")


def is_telling(context: schemathesis.HookContext, case: Case) -> bool:
    """By contract no body, `null` and `{}` are the same, so `null` is no wrong body."""
    return case.body is not None


class Mending:
    def __init__(self, town: Town) -> None:
        self._town = town
        self._keys: set[str] = set()

    def mend(self, context: schemathesis.HookContext, case: Case) -> Case:
        operation = _OPERATIONS.get((case.operation.method.upper(), case.operation.path))
        meta = case.meta
        if operation is None or meta is None:
            return case
        choice, told = _number(case), meta.phase.name is TestPhase.STATEFUL
        if ParameterLocation.PATH in meta.components and not meta.is_negative_at(ParameterLocation.PATH):
            self._lead_somewhere(operation, case, choice, told)
        if not meta.is_negative_at(ParameterLocation.HEADER):
            self._mend_headers(case, told)
        if isinstance(case.body, dict) and not meta.is_negative_at(ParameterLocation.BODY):
            case.body = self._mended(operation, copy.deepcopy(case.body), choice, told)
        self._spare_home(operation, case)
        self._open(case)
        return case

    def learn(self, context: schemathesis.HookContext, case: Case, response: schemathesis.Response) -> None:
        """A new organization is entered with the token that came with it."""
        if case.operation.path == "/organization" and case.method == "POST" and response.status_code == 201:
            made = response.json()
            self._town.tokens[made["id"]] = made["admin_token"]

    def _lead_somewhere(self, operation: Operation, case: Case, choice: int, told: bool) -> None:
        """Four of five paths lead to something that is there; what is deleted is there for it."""
        there = self._candidates(operation, told)
        if there and choice % 5:
            case.path_parameters.update(there[choice // 5 % len(there)])

    def _candidates(self, operation: Operation, told: bool) -> list[Ids]:
        town, params = self._town, operation.params
        if operation.method == "DELETE" and operation.path.endswith("}"):
            return [] if told else town.doomed.of(*params)
        if operation.handler.endswith(".override"):
            return town.inherited.of(*params) or town.standing.of(*params)
        return town.standing.of(*params)

    def _spare_home(self, operation: Operation, case: Case) -> None:
        """The organization in which all this happens is not deleted, wherever its id came from."""
        home = self._town.world.org
        if operation.handler == "organization.delete" and case.path_parameters.get("org_id") == home:
            case.path_parameters.update(self._town.doomed.of("org_id")[0])

    def _open(self, case: Case) -> None:
        """A token opens one organization: another one is asked with its own."""
        token = self._town.tokens.get(str(case.path_parameters.get("org_id")), ADMIN)
        if case.headers.get("Authorization") == AUTHORIZATION and token != ADMIN:
            case.headers["Authorization"] = f"Token {token}"

    def _mend_headers(self, case: Case, told: bool) -> None:
        """Nobody guesses an ETag; and a key that was used with another body is refused."""
        if "If-Match" in case.headers:
            case.headers["If-Match"] = "*"
        key = case.headers.get("Idempotency-Key")
        if key in self._keys or told:
            case.headers.pop("Idempotency-Key", None)
        elif key is not None:
            self._keys.add(key)

    def _mended(self, operation: Operation, body: Body, choice: int, told: bool) -> Body:
        body = self._town.unlike(operation, body, always=told)
        for rule in _RULES:
            rule(operation, body)
        if told and operation.handler in {"environmentVariable.update", "secret.update"}:
            body.pop("value", None)  # it may be an alias: that has the value of what it stands for
        self._refer(body, choice)
        return body

    def _refer(self, body: Body, choice: int) -> None:
        """Ids in a body name what is there."""
        town = self._town
        for field in ("cluster_id", "cluster"):
            if body.get(field) is not None:
                body[field] = town.cluster
        if body.get("limited_to"):
            body["limited_to"] = [town.project]
        if "user_id" in body and choice % 5:
            body["user_id"] = town.members[choice // 5 % len(town.members)]


Rule = Callable[[Operation, Body], None]
_RULES: list[Rule] = []


def rule(one: Rule) -> Rule:
    _RULES.append(one)
    return one


@rule
def what_is_fixed_stays(operation: Operation, body: Body) -> None:
    """A PUT may name what was chosen for good, but only to repeat it."""
    if operation.family and operation.body is operation.family.edit:
        for field in operation.family.fixed:
            body.pop(field, None)


@rule
def at_most_is_not_less_than_at_least(operation: Operation, body: Body) -> None:
    """`max_running_instances` is -1 or at least `min_running_instances`, also after a PUT of one of them."""
    if {"min_running_instances", "max_running_instances"} & body.keys():
        least, most = body.get("min_running_instances", 1), body.get("max_running_instances", 1)
        body["min_running_instances"] = least
        body["max_running_instances"] = most if most == -1 else max(least, most)


@rule
def ports_differ(operation: Operation, body: Body) -> None:
    """Each port of a service has a name of its own, and one of them is the default."""
    names, default = set(), False
    for place, port in enumerate(body.get("ports") or ()):
        name = port.get("name") or f"p{port['internal_port']}"
        if name in names:
            port["name"] = name = f"port {place} of {port['internal_port']}"
        names.add(name)
        if port.get("is_default") and default:
            port["is_default"] = False
        default = default or bool(port.get("is_default"))


@rule
def a_container_has_no_instance_type(operation: Operation, body: Body) -> None:
    """`instance_type` and `disk_type` belong to the mode MANAGED; what is there to be changed is a CONTAINER."""
    if operation.handler.startswith("database.") and body.get("mode", "CONTAINER") == "CONTAINER":
        body.pop("instance_type", None)
        body.pop("disk_type", None)


@rule
def a_role_says_the_same_as_scopes(operation: Operation, body: Body) -> None:
    """Who sends both must mean the same."""
    if body.get("scopes") and body.get("role_id"):
        del body["role_id"]


@rule
def what_expires_does_so_later(operation: Operation, body: Body) -> None:
    """The past is no time to expire at."""
    if isinstance(body.get("expires_at"), str):
        body["expires_at"] = FAR_AWAY + body["expires_at"][4:]


def _number(case: Case) -> int:
    """Tells cases apart, and is the same whenever the same case is made."""
    headers = {name: value for name, value in case.headers.items() if name != "Authorization"}
    said = (case.operation.label, case.path_parameters, headers, case.query, case.body)
    return zlib.crc32(repr(said).encode("utf-8", "backslashreplace"))
