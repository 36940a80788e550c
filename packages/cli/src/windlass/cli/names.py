"""Resolves a typed name, path of names (`shop/production/web`) or id to a resource, with one request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from msgspec import Struct

from windlass.base import ids
from windlass.cli.client import Api, ApiRefused, path_of
from windlass.cli.derived_commands import ancestry
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Family
from windlass.core.words.naming import kebab
from windlass.families.environment import environment
from windlass.terminal.command_errors import InvalidUsage

_ID_PATTERN = re.compile(ids.PATTERN)
_MAX_PLACES = 10
_MAX_COPIES = 50
"""Maximum number of resources with the same name that are checked for belonging to a preview."""
_PREVIEW_MODE = "PREVIEW"
_VERSION_PATTERN = re.compile(r"v?[1-9][0-9]{0,8}")
_NUMBER_PATTERN = re.compile(r"[1-9][0-9]{0,8}")


class ResolvedResource(Struct, frozen=True):
    """A resource, as in the response of `GET /resource`."""

    id: str
    name: str
    path: str
    organization: str


class NameResolver:
    """Looks up resources by name, inside the parent resources that were passed as options."""

    def __init__(self, api: Api, registry: Registry, ids: Mapping[str, str]) -> None:
        self._api = api
        self._registry = registry
        self._given = ids
        self._known: dict[tuple[str, str, str], ResolvedResource] = {}
        self._are_previews: dict[str, bool] = {}
        """Whether an environment is a preview, by its path."""

    @property
    def home(self) -> str:
        """The id of the given organization, or of the token's organization, which earlier responses may
        contain."""
        top = self._top_family
        if top.name not in self._given:
            for resource in self._known.values():
                return resource.organization
        return self.find(top, self._given.get(top.name, "")).id

    def id_of(self, family: Family | None, text: str) -> str:
        if family is None or _ID_PATTERN.fullmatch(text):
            return text
        if family.names is None:
            raise InvalidUsage(f"give the id of the {_noun_of(family)}, which has no name, and not {text!r}")
        return self.find(family, text).id

    def id_of_any(self, families: Sequence[Family], text: str) -> str:
        """Returns the id of a resource that may belong to several families. Sends one request per family."""
        if len(families) < 2 or _ID_PATTERN.fullmatch(text):
            return self.id_of(families[0] if families else None, text)
        missing: ApiRefused | None = None
        candidates: list[tuple[str, ResolvedResource]] = []
        for family in families:
            if family.names is None or text.count("/") >= len(self._ancestor_line(family)):
                continue
            try:
                candidates.append((_noun_of(family), self.find(family, text)))
            except ApiRefused as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                missing = error
        if len(candidates) == 1:
            return candidates[0][1].id
        if not candidates and missing:
            kinds = ", ".join(_noun_of(family) for family in families)
            raise InvalidUsage(
                f"check the name {text!r}, or give an id: there is none of {kinds}"
            ) from missing
        ways = ", ".join(f"{kind} {resource.path} ({resource.id})" for kind, resource in candidates)
        raise InvalidUsage(f"give an id: {text!r} could be each of these: {ways}")

    def find(self, family: Family, text: str) -> ResolvedResource:
        """Returns the resource with this name, path or id."""
        line = self._ancestor_line(family)
        below = line[-2].name if len(self._registry.parents(family)) > 1 else ""
        question = (family.name, self._join_path(line, text), below)
        if question not in self._known:
            self._known[question] = self._search(text, *question)
        return self._known[question]

    def _search(self, text: str, family: str, path: str, parent_path: str) -> ResolvedResource:
        query = {"family": family, "path": path} | ({"below": parent_path} if parent_path else {})
        matches = self._api.get("/resource", **query)["results"]
        if 1 < len(matches) <= _MAX_COPIES:
            matches = [match for match in matches if not self._is_in_preview(match["path"])] or matches
        if len(matches) != 1:
            ways = ", ".join(str(match["path"]) for match in matches) or "none"
            raise InvalidUsage(f"choose one, or give an id: {text!r} could be each of these: {ways}")
        [match] = matches
        return ResolvedResource(match["id"], match["name"], match["path"], match["organization_id"])

    def _is_in_preview(self, path: str) -> bool:
        """Returns whether a resource is in a preview, whose services have the names of the original."""
        place = "/".join(path.split("/")[: len(self._ancestor_line(environment)) - 1])
        if place == path:
            return False
        if place not in self._are_previews:
            [found] = self._api.get("/resource", family=environment.name, path=place)["results"]
            mode = self._api.get(f"/environment/{found['id']}")["mode"]
            self._are_previews[place] = mode == _PREVIEW_MODE
        return self._are_previews[place]

    def deployment(self, collection: str, text: str | None) -> str:
        """Returns the id of a deployment by its version (`v3`), its number or its id; without `text`, of
        the newest deployment. `collection`: the path of the service's deployments."""
        if text is not None and not (_ID_PATTERN.fullmatch(text) or _VERSION_PATTERN.fullmatch(text)):
            raise InvalidUsage(f"give a version such as v3, or an id: {text!r} is neither")
        if id := self._id_by_number(collection, text):
            return id
        if text is None:
            raise InvalidUsage("deploy the service first: it has no deployment yet")
        raise InvalidUsage(f"choose another version: there is no {text}")

    def run(self, collection: str, text: str | None) -> str:
        """Returns the id of a run by its number or id; without `text`, of the newest run."""
        if text is not None and not (_ID_PATTERN.fullmatch(text) or _NUMBER_PATTERN.fullmatch(text)):
            raise InvalidUsage(f"give a number such as 3, or an id: {text!r} is neither")
        if id := self._id_by_number(collection, text):
            return id
        if text is None:
            raise InvalidUsage("run it first: it has no run yet")
        raise InvalidUsage(f"choose another run: there is no run {text}")

    def _id_by_number(self, collection: str, text: str | None) -> str:
        """Returns the id of a resource by its number, or of the newest resource; empty if there is none."""
        if text is not None and _ID_PATTERN.fullmatch(text):
            return text
        if text is None:
            rows = self._api.get(collection, page_size=1)["results"]
        else:
            number = int(text.removeprefix("v"))
            rows = [row for row in self._api.everything(collection) if row["number"] == number]
        return str(rows[0]["id"]) if rows else ""

    def named(self, family: Family) -> list[ResolvedResource]:
        """Returns the resources of a family with their paths. Searches only the first ten parent
        resources."""
        [listing, *_] = self._registry.handled_by(f"{family.name}.list")
        [parent] = self._registry.parents(family)
        if parent is None or parent.parent is None:
            above = [ResolvedResource(self.home, "", "", self.home)]
        else:
            above = self.named(parent)[:_MAX_PLACES]
        return [
            ResolvedResource(row["id"], row["name"], f"{place.path}/{row['name']}".lstrip("/"), self.home)
            for place in above
            for row in self._api.everything(path_of(listing.path, {listing.params[0]: place.id}))
        ]

    def nearest(self, families: Sequence[Family]) -> Family:
        """Returns the family that was passed as an option. If several nested families were passed, returns
        the innermost."""
        named = [family for family in families if family.name in self._given]
        above = {higher.name for family in named for higher in ancestry(self._registry, family)}
        lowest = [family for family in named if family.name not in above]
        if len(lowest) != 1:
            options = ", ".join(f"--{kebab(family.name)}" for family in families)
            raise InvalidUsage(f"choose the place with one of {options}")
        return lowest[0]

    @property
    def _top_family(self) -> Family:
        return next(family for family in self._registry.families.values() if family.parent is None)

    def _ancestor_line(self, family: Family) -> list[Family]:
        """Returns the family's ancestors from the top, and the family itself."""
        line = [family]
        while parents := [parent for parent in self._registry.parents(line[0]) if parent is not None]:
            line.insert(0, parents[0] if len(parents) == 1 else self.nearest(parents))
        return line

    def _join_path(self, line: Sequence[Family], text: str) -> str:
        """Joins the options of all levels into one path. Each option may itself be a path."""
        parts = [""] * len(line)
        texts = {family.name: self._given.get(family.name, "") for family in line} | {line[-1].name: text}
        for place, family in enumerate(line):
            words = texts[family.name].split("/")
            if len(words) > place + 1:
                longest = "/".join(kebab(level.name) for level in line[: place + 1])
                raise InvalidUsage(f"give a path such as {longest}: {texts[family.name]!r} is longer")
            for here, word in zip(range(place, -1, -1), reversed(words), strict=False):
                parts[here] = _merge_names(line[here], parts[here], word)
        return "/".join(parts).lstrip("/")


def _merge_names(family: Family, first: str, other: str) -> str:
    """Merges two values for the same level. An id takes precedence over a name."""
    texts = [text for text in (first, other) if text]
    exact = [text for text in texts if _ID_PATTERN.fullmatch(text)]
    if len({text.casefold() for text in exact or texts}) > 1:
        raise InvalidUsage(f"name one {_noun_of(family)}, and not both {first!r} and {other!r}")
    return (exact or texts or [""])[0]


def _noun_of(family: Family) -> str:
    return kebab(family.name).replace("-", " ")
