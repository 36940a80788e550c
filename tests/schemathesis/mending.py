"""Rules that no JSON Schema can express: the generator mends what it sends, and no check is switched off. It
mends only what is meant to be accepted; a body, path or header that is wrong on purpose stays wrong."""

from __future__ import annotations

import contextlib
import copy
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import schemathesis
from schemathesis.core import NotSet
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase
from schemathesis.hooks import unregister

from tests.schemathesis.rules import RULES, Body
from tests.schemathesis.town import Ids, Town
from tests.world import ADMIN
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Family
from windlass.core.words.not_offered import why_not_offered
from windlass.families import registry
from windlass.families.application import application
from windlass.families.deployment_log import DeploymentLogQuery
from windlass.families.organization import organization
from windlass.families.variable import variable

Case = schemathesis.Case[Any]
Context = schemathesis.HookContext

AUTHORIZATION = f"Token {ADMIN}"
NOWHERE = "00000000-0000-4000-8000-000000000000"


@contextlib.contextmanager
def mending(schema: schemathesis.BaseSchema, town: Town) -> Iterator[None]:
    """Makes what is generated for this schema fit this town."""
    lone, story = Mending(town), Telling(town)

    @schema.hook
    def filter_case(context: Context, case: Case) -> bool:
        """By contract no body, `null` and `{}` are the same: nothing is no wrong body. A method that Windlass
        does not offer at a path answers 501 with the reason."""
        if why_not_offered(case.method, case.path):
            return False
        body = case.body.strip() if isinstance(case.body, bytes) else case.body
        return body not in (None, b"", b"null")

    @schema.hook
    def map_case(context: Context, case: Case) -> Case:
        if not _is_told(case):
            lone.mend(case)
        return case

    @schemathesis.hook
    def before_call(context: Context, case: Case, kwargs: Any) -> None:
        """In a story a case is complete only now: what the steps before left behind was put into it."""
        if _is_told(case):
            story.mend(case)
        elif _is_example(case):  # `map_case` does not see those that stand whole in the document
            lone.mend(case)

    @schema.hook
    def after_call(context: Context, case: Case, response: schemathesis.Response) -> None:
        if case.method == "POST" and response.status_code in {200, 201}:
            story.learn(response.json() if response.content else {})

    try:
        yield
    finally:
        unregister(before_call)  # this one is registered for all schemas


class Mending:
    """Mends a single case."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._keys: set[str] = set()

    def mend(self, case: Case) -> None:
        assert case.meta is not None
        wrong = {place for place, part in case.meta.components.items() if part.mode.is_negative}
        operation, choice = _operation(case), self._choice(case)
        if ParameterLocation.PATH not in wrong:
            self._lead(operation, case, choice)
        if ParameterLocation.HEADER not in wrong:
            self._mend_headers(case)
        if ParameterLocation.BODY not in wrong:
            self._mend_body(operation, case, choice)
        if ParameterLocation.QUERY not in wrong:
            self._ask(operation, case)
        self._end(operation, case)
        self._open(case)

    def _mend_body(self, operation: Operation, case: Case, choice: int) -> None:
        """No body means the same as an empty one, so it is sent as one if a rule has something to add."""
        if not isinstance(case.body, dict | NotSet) or operation.body is None:
            return
        sent = copy.deepcopy(case.body) if isinstance(case.body, dict) else {}
        body = self._named(operation, sent)
        for rule in RULES:
            rule(operation, body)
        self._refer(case, body, choice)
        if body or isinstance(case.body, dict):
            case.body, case.media_type = body, case.media_type or "application/json"

    def _ask(self, operation: Operation, case: Case) -> None:
        """A schema does not say which kinds of resource there are, and how deep each lies; nor that a page is
        asked for in one direction."""
        if case.query and "continueToken" in case.query:
            case.query.pop("stepBackToken", None)
        if case.query and "deploymentHistory" in operation.path:
            case.query.pop("startId", None)  # it would have to be that of an entry of the list
        if case.query and operation.path.endswith("/terraformExport"):
            case.query.pop("exportSecrets", None)  # true is refused with the reason
        if operation.query is DeploymentLogQuery and case.query:
            case.query.pop("version", None)  # the same
        if operation.id in {"listVariables", "importVariables"}:
            query = dict(case.query or {})
            id, scope = ("service_id", "service_type") if operation.writes else ("parent_id", "scope")
            case.query = {**query, id: self._town.application} | (
                {scope: "APPLICATION"} if scope in query else {}
            )
        if operation.id == "findResources" and case.query:
            path = str(case.query.get("path", "")).replace("/", "")
            case.query = {**case.query, "family": "project", "path": path, "below": ""}

    def _choice(self, case: Case) -> int:
        """Differs from case to case, and is the same whenever the same case is made."""
        headers = {name: value for name, value in case.headers.items() if name != "Authorization"}
        said = (case.operation.label, case.path_parameters, headers, case.query, case.body)
        return zlib.crc32(repr(said).encode("utf-8", "backslashreplace"))

    def _lead(self, operation: Operation, case: Case, choice: int) -> None:
        """Examples, and four of five other paths, lead to something that is there; the rest leads to where it
        was made to lead."""
        there = self._there(operation)
        if there and (choice % 5 or _is_example(case)):
            case.path_parameters.update(there[choice // 5 % len(there)])

    def _there(self, operation: Operation) -> list[Ids]:
        if [*operation.params] == [variable.param]:
            return self._variables(operation)
        if operation.handler.endswith("transferOwnership"):
            return [{organization.param: self._town.world.org}]
        if _ends(operation):
            return self._town.doomed.of(*operation.params)
        if operation.id in self._town.cancellable:
            return self._town.cancellable[operation.id]
        standing = self._town.standing.of(*operation.params)
        if _overrides(operation):
            return self._town.inherited.of(*operation.params) or standing
        return standing

    def _variables(self, operation: Operation) -> list[Ids]:
        """Variables whose path names no level: those that a service inherits, or such as may be deleted."""
        below = (application.param, variable.param)
        found = self._town.doomed.of(*below) if _ends(operation) else self._town.inherited.of(*below)
        return [{variable.param: ids[variable.param]} for ids in found]

    def _mend_headers(self, case: Case) -> None:
        """Removes an invented ETag, and a key that was used with another body, which is refused."""
        if "If-Match" in case.headers:
            case.headers["If-Match"] = "*"
        key = case.headers.get("Idempotency-Key", "")
        if key in self._keys:
            del case.headers["Idempotency-Key"]
        elif key:
            self._keys.add(key)

    def _named(self, operation: Operation, body: Body) -> Body:
        """Names are unique, and that of the example is taken first."""
        return self._town.unlike(operation, body)

    def _refer(self, case: Case, body: Body, choice: int) -> None:
        """Ids in a body name what is there; those of members do so in four of five."""
        town = self._town
        for field in {"cluster_id", "cluster"} & body.keys():
            body[field] = body[field] and town.cluster
        if body.get("limited_to"):
            at_home = case.path_parameters.get("org_id") == town.world.org
            body["limited_to"] = [town.project] if at_home else None
        for field, there in {"environment_id": town.environment, "project_id": town.project}.items():
            if body.get(field):
                body[field] = there
        self._choose_services(case, body)
        _name_levels(town, case, body, "variable", "alias", "override")
        if "deployment_id" in body:
            ran = [town.ran[id] for id in case.path_parameters.values() if id in town.ran]
            body.update(deployment_id=ran[0]) if ran else body.pop("deployment_id")
        is_for_members = _operation(case).handler.endswith("transferOwnership")
        if "user_id" in body and (choice % 5 or is_for_members):
            members = town.leaving if case.method == "DELETE" else town.members
            body["user_id"] = members[choice // 5 % len(members)]

    def _choose_services(self, case: Case, body: Body) -> None:
        """Only services of the environment can be chosen in it, and each can be deleted only once."""
        env = str(case.path_parameters.get("env_id"))
        here, erasable = self._town.services.get(env), self._town.erasable.get(env)
        chosen = {family: (here or {}).get(family.name, []) for family in registry().services}
        if case.operation.path.endswith("/service/delete"):
            chosen = {family: [] for family in chosen}
            chosen[application] = [erasable.pop()] if erasable else []
        for family, ids in chosen.items():
            if body.get(f"{family.name}_ids"):
                body[f"{family.name}_ids"] = ids
            if asked := body.get(f"{family.name}s"):
                body[f"{family.name}s"] = [
                    {**one, _id_field(family): id} if isinstance(one, dict) else id
                    for one, id in zip(asked, ids, strict=False)
                ]

    def _end(self, operation: Operation, case: Case) -> None:
        """An answer that never ends cannot be checked: see tests/logs and tests/live for streams."""
        if operation.streams and "follow" not in (case.query or {}):
            case.query = {**(case.query or {}), "follow": "false"}
        if case.query and str(case.query.get("follow")).lower() in {"true", "1"}:
            case.query["follow"] = "false"

    def _open(self, case: Case) -> None:
        """A token opens one organization: what is in another is asked for with its own."""
        token = self._town.tokens.get(str(case.path_parameters.get("org_id")), ADMIN)
        if case.headers.get("Authorization") == AUTHORIZATION and token != ADMIN:
            case.headers["Authorization"] = f"Token {token}"


def _name_levels(town: Town, case: Case, body: Body, *sorts: str) -> None:
    """Names the level of a new variable, or one that sees the variable of the path."""
    known = town.inherited.of(application.param, variable.param)
    by_variable = {ids[variable.param]: ids[application.param] for ids in known}
    level = by_variable.get(str(case.path_parameters.get(variable.param)), town.application)
    for sort in sorts:
        if f"{sort}_parent_id" in body:
            body[f"{sort}_parent_id"] = level
            body[f"{sort}_scope"] = "APPLICATION"


def _id_field(family: Family) -> str:
    """The field that names a service among others that are to be deployed."""
    chosen = next(trait.chosen for trait in family.traits if trait.chosen)
    return next(field.name for field in msgspec.structs.fields(chosen) if field.required)


class Telling(Mending):
    """Mends a case of a story, in the stateful phase, in which one request leads to another. A story is
    repeated from its beginning, with variations, and fails if the answers differ. So every name is new, only
    things that a story made are deleted, and the choice of existing things does not depend on ids."""

    def __init__(self, town: Town) -> None:
        super().__init__(town)
        self._made: set[str] = set()

    def learn(self, answer: Any) -> None:
        """Notes the created things; a new organization is entered with the token that came with it."""
        self._made.add(answer.get("id", ""))
        if "admin_token" in answer:
            self._town.tokens[answer["id"]] = answer["admin_token"]

    def _choice(self, case: Case) -> int:
        return 1

    def _lead(self, operation: Operation, case: Case, choice: int) -> None:
        """Lets a request use things that the story made."""
        if self._made.isdisjoint(case.path_parameters.values()):
            super()._lead(operation, case, choice)
        elif case.path_parameters.get("org_id") not in (None, *self._made):
            case.path_parameters["org_id"] = self._town.world.org

    def _there(self, operation: Operation) -> list[Ids]:
        """Lets an action that is possible only once lead nowhere, unless its subject was made for it."""
        if _ends(operation) or _overrides(operation):
            return [dict.fromkeys(operation.params, NOWHERE)]
        return super()._there(operation)

    def _mend_headers(self, case: Case) -> None:
        super()._mend_headers(case)
        case.headers.pop("Idempotency-Key", None)

    def _named(self, operation: Operation, body: Body) -> Body:
        return self._town.unlike(operation, body, always=True)

    def _refer(self, case: Case, body: Body, choice: int) -> None:
        super()._refer(case, body, choice)
        if _operation(case).handler in {
            f"{one}.{verb}" for one in ("environmentVariable", "secret") for verb in ("update", "patch")
        }:
            body.pop("value", None)  # it may be an alias: that has the value of what it stands for


_OPERATIONS = {(operation.method, operation.path): operation for operation in registry().operations}


def _operation(case: Case) -> Operation:
    return _OPERATIONS[case.operation.method.upper(), case.operation.path]


def _is_told(case: Case) -> bool:
    return case.meta is not None and case.meta.phase.name is TestPhase.STATEFUL


def _is_example(case: Case) -> bool:
    return case.meta is not None and case.meta.phase.name is TestPhase.EXAMPLES


def _ends(operation: Operation) -> bool:
    return operation.method == "DELETE" and operation.path.endswith("}")


def _overrides(operation: Operation) -> bool:
    return operation.handler.endswith(".override")
