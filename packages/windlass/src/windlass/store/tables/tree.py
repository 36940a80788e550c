"""The tree of resources: parents and children, read with recursive statements. Read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from windlass.store.tables.resources import Row
from windlass.store.tables.table import Table, columns, places

ABOVE: Final = f"""
WITH RECURSIVE above (id, parent, depth) AS (
    SELECT id, parent, 0 FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id, resource.parent, above.depth + 1
    FROM resource JOIN above ON resource.id = above.parent
)
SELECT {columns(Row, "resource")}
FROM above JOIN resource ON resource.id = above.id ORDER BY above.depth"""
# Up to three levels above a resource. An empty text matches any name. Missing levels have a null id.
ON_PATH: Final = """
SELECT a.id, b.id, c.id, d.id, e.id FROM resource AS a
LEFT JOIN resource AS b ON b.id = a.parent
LEFT JOIN resource AS c ON c.id = b.parent
LEFT JOIN resource AS d ON d.id = c.parent
LEFT JOIN resource AS e ON e.id = d.parent
WHERE a.org = $1 AND a.family = $2
    AND ($3 = '' OR a.id = $3 OR a.name = $3)
    AND ($4 = '' OR b.id = $4 OR b.name = $4)
    AND ($5 = '' OR c.id = $5 OR c.name = $5)
    AND ($6 = '' OR d.id = $6 OR d.name = $6)
ORDER BY a.created, a.id"""
SERVICES: Final = """
SELECT service.id, service.family, environment.id, project.id FROM resource AS service
JOIN resource AS environment ON environment.id = service.parent
JOIN resource AS project ON project.id = environment.parent
WHERE service.org = $1 AND service.family = $2
    AND ($3 = '' OR project.id = $3) AND ($4 = '' OR environment.id = $4)
ORDER BY service.created, service.id"""
# An empty text stands for no family. SQLite keeps the table order of a CROSS JOIN. Otherwise it would scan
# all resources of the installation.
_MAX_MARKED = 8
MARKS: Final = f"""
WITH RECURSIVE above (id, parent) AS (
    SELECT id, parent FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id, resource.parent FROM resource JOIN above ON resource.id = above.parent
)
SELECT resource.id, resource.family, resource.tag, resource.name
FROM above CROSS JOIN resource
WHERE resource.parent = above.id AND resource.family IN ({places(_MAX_MARKED, first=2)})"""
# The version of each list of some families, at a level and above; see `lists.VERSION`.
VERSIONS: Final = f"""
WITH RECURSIVE above (id, parent, depth) AS (
    SELECT id, parent, 0 FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id, resource.parent, above.depth + 1
    FROM resource JOIN above ON resource.id = above.parent
)
SELECT above.id, tally.next, tally.live, tally.edits
FROM above JOIN tally ON tally.parent = above.id AND tally.family IN ({places(_MAX_MARKED, first=2)})
ORDER BY above.depth, tally.family"""
VERSIONS_BELOW: Final = """
SELECT tally.parent, tally.next, tally.live, tally.edits
FROM resource JOIN tally ON tally.parent = resource.id
WHERE resource.parent = $1 AND tally.family IN ($2, $3) ORDER BY tally.parent, tally.family"""
TAGS: Final = "SELECT id, tag FROM resource WHERE parent = $1 AND family IN ($2, $3)"
BELOW: Final = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM resource WHERE parent = $1
    UNION ALL
    SELECT resource.id FROM resource JOIN below ON resource.parent = below.id
)
SELECT id FROM below"""
# The newest first, because applications have to be deleted before the databases that they use.
DEPLOYED_AT_OR_BELOW: Final = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id FROM resource JOIN below ON resource.parent = below.id
)
SELECT resource.id FROM resource
WHERE resource.id IN (SELECT id FROM below)
    AND EXISTS (SELECT 1 FROM deployment WHERE deployment.service = resource.id)
ORDER BY resource.created DESC, resource.id"""


class ResourceTree(Table):
    __slots__ = ()

    async def above(self, id: str) -> list[Row]:
        """Returns the resource, its parent, and so on up to the organization."""
        return [Row(*row) for row in await self._session.all(ABOVE, id)]

    async def below(self, id: str) -> list[str]:
        return [row[0] for row in await self._session.all(BELOW, id)]

    async def on_path(self, org: str, family: str, path: Sequence[str]) -> list[list[str]]:
        """Returns the ids of resources that match a path of names or ids, each followed by the ids of its
        parents.

        `path`: the resource itself first, then its parents. An empty text matches any resource.
        """
        keys = (*path, "", "", "")[:4]
        rows = await self._session.all(ON_PATH, org, family, *keys)
        return [[id for id in row if id is not None] for row in rows]

    async def services(
        self, org: str, family: str, project: str, environment: str
    ) -> list[tuple[str, str, str, str]]:
        """Returns id, family, environment and project of services. An empty `project` or `environment`
        matches all."""
        rows = await self._session.all(SERVICES, org, family, project, environment)
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    async def marks(self, id: str, families: Sequence[str]) -> list[tuple[str, str, str, str | None]]:
        """Returns id, family, tag and name of all resources of these families in `id` and in each of its
        parents."""
        rows = await self._session.all(MARKS, id, *_padded(families))
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    async def versions(self, id: str, families: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Returns a value for each level from `id` upwards that has resources of these families. A value
        changes with each change of the level's resources."""
        versions: dict[str, tuple[int, ...]] = {}
        lengths: Counter[str] = Counter()
        for level, next, live, edits in await self._session.all(VERSIONS, id, *_padded(families)):
            versions[level] = (*versions.get(level, ()), next, live, edits)
            lengths[level] += live
        return {level: version for level, version in versions.items() if lengths[level]}

    async def versions_below(self, parent: str, families: tuple[str, str]) -> dict[str, tuple[int, ...]]:
        """Returns the same for each child of a resource, with one statement."""
        versions: dict[str, tuple[int, ...]] = {}
        for id, next, live, edits in await self._session.all(VERSIONS_BELOW, parent, *families):
            versions[id] = (*versions.get(id, ()), next, live, edits)
        return versions

    async def tags(self, parent: str, families: tuple[str, str]) -> list[tuple[str, str]]:
        """Returns id and tag of all resources of these families in a parent."""
        return [(row[0], row[1]) for row in await self._session.all(TAGS, parent, *families)]

    async def deployed_at_or_below(self, id: str) -> list[str]:
        """Returns the services that were ever deployed, among this resource and its descendants."""
        return [row[0] for row in await self._session.all(DEPLOYED_AT_OR_BELOW, id)]


def _padded(families: Sequence[str]) -> list[str]:
    return [*families, *[""] * (_MAX_MARKED - len(families))]
