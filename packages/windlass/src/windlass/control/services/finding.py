"""Finds resources by a path of names, such as `shop/production/web`, in one request."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.errors import Invalid, Missing
from windlass.base.fair_share import FairShare
from windlass.control.context.call import READING, Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.request.permissions import Visibility, forbidden
from windlass.control.request.reading import UNPAGED, paging, slice_of
from windlass.core.access import ResourceLocation, may
from windlass.core.declare.registry import Operation, Paging, Registry
from windlass.core.declare.resource import Family, Verb
from windlass.core.declare.validation import did_you_mean
from windlass.families.organization import organization
from windlass.families.resource_name import Naming

MAX_MATCHES: Final = 20_000
"""Maximum number of variables and secrets that a path matches. Each service has those of the levels above."""
_MAX_COMPARED_NAMES: Final = 200
"""Maximum number of names that are compared with a misspelled name."""
_MAX_COMPARED_NAME_LENGTH: Final = 40
"""Maximum length of a compared name. The time of a comparison grows with the square of the length."""


class PathPart(Struct, frozen=True):
    """One part of a path. An empty text matches any resource of the family."""

    family: Family
    text: str

    @property
    def key(self) -> str:
        """The text in the form in which names are compared."""
        return self.family.key_of({str(self.family.names): self.text}) or ""


class Match(Struct, frozen=True):
    ids: tuple[str, ...]
    """The resource's own id, the id of its parent, and so on to the organization."""
    name: str = ""
    """The name of an item without a row of its own. Empty for other items, whose names are read when they are
    shown."""

    @property
    def org(self) -> str:
        return self.ids[-1]


@reads("findResources")
async def find(ctx: Context, call: Call) -> Reply:
    parts = parts_of(ctx.registry, call.asked(Naming))
    search = Search(ctx, call)
    matches = await search.matches(parts)
    if not matches:
        await search.refuse_missing(parts)
    bodies = [await search.shown(parts, match) for match in matches[slice_of(call)]]
    return Reply(results(bodies, *paging(call), len(matches)))


def parts_of(registry: Registry, query: Naming) -> list[PathPart]:
    """Parses a path of names. Returns its parts from the organization downwards."""
    family = registry.families.get(query.family)
    if family is None or not _has_names(family):
        named_families = sorted(family.name for family in registry.families.values() if _has_names(family))
        meant = did_you_mean(get_close_matches(query.family, named_families, 1))
        raise Invalid(f"family: must be one of {', '.join(named_families)}{meant}")
    line = _line(registry, family, query.below)
    words = query.path.split("/") if query.path else []
    if len(words) > len(line):
        longest = "/".join(family.name for family in line)
        raise Invalid(f"path: must have {len(line)} parts at most: {longest}")
    texts = [""] * (len(line) - len(words)) + words
    return [PathPart(family, text) for family, text in zip(line, texts, strict=True)]


def _has_names(family: Family) -> bool:
    return family.names is not None and Verb.LIST in family.verbs


def _line(registry: Registry, family: Family, parent_family: str) -> list[Family]:
    """Returns the families from the organization down to this one. `parent_family` selects the parent if
    there are several."""
    line = [family]
    while parents := [parent for parent in registry.parents(line[0]) if parent is not None]:
        if len(parents) > 1:
            parents = [parent for parent in parents if parent.name == parent_family]
        if not parents:
            names = ", ".join(sorted(parent.name for parent in registry.parents(family) if parent))
            raise Invalid(f"below: must be one of {names}")
        line.insert(0, parents[0])
    return line


class Search:
    """A search for resources that one caller may see."""

    def __init__(self, ctx: Context, call: Call) -> None:
        self._ctx = ctx
        self._call = call
        self._source = ctx.store.reads
        self._names: dict[str, str] = {}
        self._sights = {org: Visibility(self._source, call.actor, org) for org in call.actor.organizations}

    async def matches(self, parts: Sequence[PathPart]) -> list[Match]:
        orgs = await self._organizations(parts[0])
        if len(parts) == 1:
            return [Match((org,)) for org in orgs]
        listing = self._listing(parts)
        if any(not may(self._call.actor, listing.need, ResourceLocation(org)) for org in orgs):
            raise forbidden(listing)
        if self._is_more_than_rows(listing):
            return await self._match_in_lists(parts, listing)
        matches: list[Match] = []
        for org in orgs:
            path = [part.key for part in reversed(parts[1:])]
            rows = await self._source.tree.on_path(org, parts[-1].family.name, path)
            matches += [Match(tuple(ids[: len(parts)])) for ids in rows]
        return [match for match in matches if await self._may_see(match, parts)]

    async def _match_in_lists(self, parts: Sequence[PathPart], listing: Operation) -> list[Match]:
        """Returns the matching items of the lists of all parents, of which many may have the same items."""
        matches: list[Match] = []
        share = FairShare()
        for parent in await self.matches(parts[:-1]):
            matches += await self._list(parts[-1], listing, parent)
            if len(matches) > MAX_MATCHES:
                family = parts[-2].family
                raise Invalid(f"path: name the {family.noun}, too: more than {MAX_MATCHES:,} match")
            await share.pause()
        return matches

    async def refuse_missing(self, parts: Sequence[PathPart]) -> None:
        """Raises Missing for the first part of the path that does not exist."""
        for length, part in enumerate(parts, 1):
            if part.text and not await self.matches(parts[:length]):
                meant = await self._similar_names([*parts[: length - 1], PathPart(part.family, "")], part)
                raise Missing(f"There is no {part.family.noun} {part.text!r} here{did_you_mean(meant)}")

    async def _similar_names(self, siblings: Sequence[PathPart], part: PathPart) -> list[str]:
        """Returns names similar to a misspelled one, among the first names that the caller may see."""
        if len(part.text) > _MAX_COMPARED_NAME_LENGTH:
            return []
        try:
            compared = (await self.matches(siblings))[:_MAX_COMPARED_NAMES]
        except Invalid:  # there are too many to suggest one
            return []
        names = [match.name or await self._name(match.ids[0]) for match in compared]
        by_key = {name.casefold(): name for name in names if len(name) <= _MAX_COMPARED_NAME_LENGTH}
        return [by_key[key] for key in get_close_matches(part.text.casefold(), by_key)]

    async def shown(self, parts: Sequence[PathPart], match: Match) -> bytes:
        name = match.name or await self._name(match.ids[0])
        visible = await self._visible(match, parts)
        above = [await self._name(id) for id in visible[1:] if id != match.org]
        document = {
            "id": match.ids[0],
            "family": parts[-1].family.name,
            "name": name,
            "path": "/".join([*reversed(above), name]),
            "organization_id": match.org,
        }
        return encode(document)

    async def _organizations(self, part: PathPart) -> list[str]:
        actor = self._call.actor
        if not part.text:
            return [actor.home] if part.family.parent is None else []
        named = [
            row
            for org in actor.organizations
            if (row := await self._source.resources.find(organization.name, org))
        ]
        return [row.id for row in named if part.key in {row.id, row.name}]

    def _listing(self, parts: Sequence[PathPart]) -> Operation:
        """Returns the operation that lists the last part's family below its parent."""
        listings = self._ctx.registry.handled_by(f"{parts[-1].family.name}.{Verb.LIST}")
        return next(listing for listing in listings if listing.parent is parts[-2].family)

    def _is_more_than_rows(self, listing: Operation) -> bool:
        """Returns whether a list has a handler of its own, as for variables, whose list includes inherited
        ones.

        Handlers of services' lists only filter rows on request, so they do not count.
        """
        return listing.handler in READING

    async def _list(self, part: PathPart, listing: Operation, parent: Match) -> list[Match]:
        """Returns the matching items of a list with a handler of its own."""
        everything = Paging(page=1, page_size=UNPAGED)
        call = msgspec.structs.replace(
            self._call, operation=listing, ids=(parent.ids[0],), query=everything, paging_asked=True
        )
        reply = await READING[listing.handler](self._ctx, call)
        family = part.family
        return [
            Match((str(item["id"]), *parent.ids), str(item[family.names]))
            for item in msgspec.json.decode(reply.body)["results"]
            if not part.text or part.text == item["id"] or part.key == family.key_of(item)
        ]

    async def _may_see(self, match: Match, parts: Sequence[PathPart]) -> bool:
        """Returns whether the caller may see the match and every resource that the path names."""
        visible = len(await self._visible(match, parts))
        named = max((place for place, part in enumerate(reversed(parts[1:])) if part.text), default=0)
        return visible > named

    async def _visible(self, match: Match, parts: Sequence[PathPart]) -> tuple[str, ...]:
        """Returns the ids of a path, from its end up to the first resource that the caller may not see."""
        sight, ids = self._sights[match.org], match.ids
        for number, (part, id, parent) in enumerate(zip(parts[::-1], ids, (*ids[1:], ""), strict=True)):
            if not await sight.includes(part.family.name, id, parent):
                return ids[:number]
        return ids

    async def _name(self, id: str) -> str:
        """Returns the name as users wrote it, and not in the form in which names are compared."""
        if id not in self._names:
            row = await self._source.resources.get(id)
            assert row is not None
            family = self._ctx.registry[row.family]
            self._names[id] = str(msgspec.json.decode(row.body)[family.names])
        return self._names[id]
