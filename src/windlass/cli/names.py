"""From what a person says to the id that the API wants.

A person says an id, or a name, or a path of names: `shop/production/web`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from windlass.base import ids
from windlass.base.stopped import Misused, Stopped
from windlass.cli.client import Api, path_of
from windlass.cli.deeds import ancestry, kebab
from windlass.core.registry import Registry
from windlass.core.resource import Family

_ID = re.compile(ids.PATTERN)
_MOST = 50
"""More places than this are not looked through: each costs a request."""


class Found(Struct, frozen=True):
    family: Family | None
    id: str
    path: str
    """Its name, after the names of what it lies in."""


class Names:
    """Looks names up, below what was given of the families above."""

    def __init__(self, api: Api, registry: Registry, given: Mapping[str, str]) -> None:
        self._api = api
        self._registry = registry
        self._given = given

    @cached_property
    def home(self) -> str:
        """The caller's own organization."""
        return str(self._api.get("/organization")["id"])

    def id_of(self, family: Family | None, text: str) -> str:
        if family is None or _ID.fullmatch(text):
            return text
        if family.names is None:
            raise Misused(f"{_said(family)} has no name: give its id, and not {text!r}")
        matching = list(self._narrowed(family, text)._places(family))
        match matching:
            case [one]:
                return one.id
            case []:
                raise Stopped(f"there is no {_said(family)} {text!r} here")
            case several:
                ways = ", ".join(one.path for one in several)
                raise Misused(f"{text!r} could be each of these: {ways}. Say which, or give an id")

    def nearest(self, families: Sequence[Family]) -> Family:
        """The one of these that was given; of several in a line, the lowest."""
        named = [one for one in families if one.name in self._given]
        above = {higher.name for one in named for higher in ancestry(self._registry, one)}
        lowest = [one for one in named if one.name not in above]
        if len(lowest) != 1:
            options = ", ".join(f"--{kebab(one.name)}" for one in families)
            raise Misused(f"say where, with one of {options}")
        return lowest[0]

    def _narrowed(self, family: Family, text: str) -> Names:
        """With the families above that a path names, `shop` and `production` in `shop/production/web`."""
        given, here = dict(self._given), family
        while "/" in text and (above := self._only_parent(here)):
            text, _, given[here.name] = text.rpartition("/")
            here = above
        given[here.name] = text
        return Names(self._api, self._registry, given)

    def _only_parent(self, family: Family) -> Family | None:
        parents = self._registry.parents(family)
        return parents[0] if len(parents) == 1 else None

    def _places(self, family: Family) -> Iterator[Found]:
        """Everything of a family below what was given, or that which is called as was given."""
        wanted = self._given.get(family.name)
        if wanted is not None and _ID.fullmatch(wanted):
            yield Found(family, wanted, wanted)
            return
        for above in self._above(family):
            for document in self._listed(family, above):
                name = str(document.get(family.names or "", document["id"]))
                if wanted is None or family.key_of(document) == family.key_of({str(family.names): wanted}):
                    yield Found(family, document["id"], f"{above.path}/{name}".lstrip("/"))
                    if wanted is not None:
                        break

    def _above(self, family: Family) -> list[Found]:
        parents = self._registry.parents(family)
        if parents == [None]:
            return [Found(None, "", "")]
        above = [one for one in parents if one is not None]
        parent = above[0] if len(above) == 1 else self.nearest(above)
        if self._registry.parents(parent) == [None] and parent.name not in self._given:
            return [Found(parent, self.home, "")]
        found = list(self._places(parent))
        if not found and parent.name in self._given:
            raise Stopped(f"there is no {_said(parent)} {self._given[parent.name]!r} here")
        if len(found) > _MOST:
            raise Misused(f"there are {len(found)} {parent.plural.lower()} to look through: name one")
        return found

    def _listed(self, family: Family, above: Found) -> list[Any]:
        listing = next(
            operation
            for operation in self._registry.operations
            if operation.handler == f"{family.name}.list" and operation.parent is above.family
        )
        return self._api.everything(path_of(listing.path, dict.fromkeys(listing.params, above.id)))


def _said(family: Family) -> str:
    return kebab(family.name).replace("-", " ")
