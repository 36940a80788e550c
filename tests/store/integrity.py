"""The integrity of a database after a crash: queries that find what is broken."""

from __future__ import annotations

from tests.store.stores import Place

BROKEN = {
    "a gap between events": """
        SELECT 1 FROM (SELECT count(*) AS n, max(seq) AS last FROM event) AS counted
        WHERE n <> last OR last <> (SELECT value FROM counter WHERE name = 'event')""",
    "a resource without its one event": """
        SELECT id FROM resource
        WHERE (SELECT count(*) FROM event WHERE target = resource.id AND kind = 'CREATE')
        NOT IN (1, CASE family WHEN 'stage' THEN 0 ELSE 1 END)""",  # as of the first stages
    "a resource that was deleted": """
        SELECT resource.id FROM resource JOIN event ON target = resource.id WHERE kind = 'DELETE'""",
    "a list of another length than it says": """
        SELECT parent FROM tally WHERE live <> (
            SELECT count(*) FROM resource
            WHERE resource.parent = tally.parent AND resource.family = tally.family
        )""",
    "a list with another number of holes than it says": """
        SELECT parent FROM tally WHERE next - live <> (
            SELECT coalesce(sum(n), 0) FROM hole
            WHERE hole.parent = tally.parent AND hole.family = tally.family AND level = 1
        )""",
    "a resource whose parent is gone": """
        SELECT id FROM resource
        WHERE parent <> '' AND parent NOT IN (SELECT id FROM resource)""",
    "more than one beginning": "SELECT 1 FROM resource WHERE parent = '' AND pos <> 1",
}


async def whole(place: Place) -> None:
    for what, query in BROKEN.items():
        assert await place.sql(query) == [], what
    if not place.url:
        assert await place.sql("PRAGMA integrity_check") == [("ok",)]
