"""Every SQL statement, once, for both databases.

Placeholders are `$1`, `$2`, …, first used in that order: SQLite numbers named parameters by their first
appearance, so the same text takes the same arguments on both. A test prepares each of them on each.
"""

from __future__ import annotations

from typing import Final

from windlass.core.deploy.states import OPEN, Progress

_ROW = "id, family, org, parent, pos, name, created, tag, body, sealed"

FIND: Final = f"SELECT {_ROW} FROM resource WHERE id = $1 AND family = $2"
GET: Final = f"SELECT {_ROW} FROM resource WHERE id = $1"
BY_NAME: Final = f"SELECT {_ROW} FROM resource WHERE parent = $1 AND family = $2 AND name = $3"
OF_ORG: Final = f"SELECT {_ROW} FROM resource WHERE org = $1 AND family = $2 ORDER BY created, id"
OF_PARENT: Final = f"SELECT {_ROW} FROM resource WHERE parent = $1 AND family = $2 ORDER BY pos"
FIRST: Final = f"SELECT {_ROW} FROM resource WHERE parent = $1 AND family = $2 ORDER BY pos LIMIT 1"
ABOVE: Final = f"""
WITH RECURSIVE above (id, parent, depth) AS (
    SELECT id, parent, 0 FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id, resource.parent, above.depth + 1
    FROM resource JOIN above ON resource.id = above.parent
)
SELECT {", ".join(f"resource.{column}" for column in _ROW.split(", "))}
FROM above JOIN resource ON resource.id = above.id ORDER BY above.depth"""
# Up to three levels above a resource. An empty text stands for any name. Ids of what is not there are null.
ON_PATH: Final = """
SELECT a.id, b.id, c.id, d.id FROM resource AS a
LEFT JOIN resource AS b ON b.id = a.parent
LEFT JOIN resource AS c ON c.id = b.parent
LEFT JOIN resource AS d ON d.id = c.parent
WHERE a.org = $1 AND a.family = $2
    AND ($3 = '' OR a.id = $3 OR a.name = $3)
    AND ($4 = '' OR b.id = $4 OR b.name = $4)
    AND ($5 = '' OR c.id = $5 OR c.name = $5)
ORDER BY a.created, a.id"""
SERVICES_OF_ORG: Final = """
SELECT service.id, service.family, environment.id, project.id FROM resource AS service
JOIN resource AS environment ON environment.id = service.parent
JOIN resource AS project ON project.id = environment.parent
WHERE service.org = $1 AND service.family = $2
    AND ($3 = '' OR project.id = $3) AND ($4 = '' OR environment.id = $4)
ORDER BY service.created, service.id"""
MOST_MARKED: Final = 8
# An empty text stands for no family.
MARKS: Final = """
WITH RECURSIVE above (id, parent) AS (
    SELECT id, parent FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id, resource.parent FROM resource JOIN above ON resource.id = above.parent
)
SELECT resource.id, resource.family, resource.tag, resource.name
FROM above JOIN resource ON resource.parent = above.id
WHERE resource.family IN ($2, $3, $4, $5, $6, $7, $8, $9)"""
BELOW: Final = """
WITH RECURSIVE below (id) AS (
    SELECT id FROM resource WHERE parent = $1
    UNION ALL
    SELECT resource.id FROM resource JOIN below ON resource.parent = below.id
)
SELECT id FROM below"""

ADD: Final = f"INSERT INTO resource ({_ROW}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
CHANGE: Final = "UPDATE resource SET name = $1, tag = $2, body = $3, sealed = $4 WHERE id = $5"
REWRITE: Final = "UPDATE resource SET body = $1 WHERE id = $2"
REMOVE: Final = "DELETE FROM resource WHERE id = $1"

TALLY: Final = "SELECT next, live FROM tally WHERE parent = $1 AND family = $2"
TALLY_ADD: Final = """
INSERT INTO tally (parent, family, next, live, last) VALUES ($1, $2, 1, 1, $3)
ON CONFLICT (parent, family) DO UPDATE SET
    next = tally.next + 1,
    live = tally.live + 1,
    last = CASE WHEN excluded.last > tally.last THEN excluded.last ELSE tally.last + 1 END
RETURNING next, last"""
TALLY_REMOVE: Final = "UPDATE tally SET live = live - 1 WHERE parent = $1 AND family = $2"
TALLY_EDIT: Final = "UPDATE tally SET edits = edits + 1 WHERE parent = $1 AND family = $2"
TALLY_VERSION: Final = "SELECT next, live, edits FROM tally WHERE parent = $1 AND family = $2"
TALLY_FORGET: Final = "DELETE FROM tally WHERE parent = $1"
HOLE_ADD: Final = """
INSERT INTO hole (parent, family, level, block, n) VALUES ($1, $2, $3, $4, 1)
ON CONFLICT (parent, family, level, block) DO UPDATE SET n = hole.n + 1"""
HOLES: Final = """
SELECT block, n FROM hole
WHERE parent = $1 AND family = $2 AND level = $3 AND block >= $4 AND block < $5 ORDER BY block"""
HOLE_FORGET: Final = "DELETE FROM hole WHERE parent = $1"

PAGE: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 AND pos >= $3 ORDER BY pos LIMIT $4"""
PAGE_SKIPPING: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 AND pos >= $3 ORDER BY pos LIMIT $4 OFFSET $5"""
PAGE_BACKWARDS: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 ORDER BY pos DESC LIMIT $3 OFFSET $4"""

LINKED: Final = f"""
SELECT {", ".join(f"resource.{column}" for column in _ROW.split(", "))}
FROM link JOIN resource ON resource.id = link.source
WHERE link.target = $1 AND link.field = $2 ORDER BY resource.created, resource.id"""
LINK: Final = """
INSERT INTO link (source, field, target) VALUES ($1, $2, $3)
ON CONFLICT (source, field) DO UPDATE SET target = excluded.target"""
UNLINK: Final = "DELETE FROM link WHERE source = $1"

_STATUS = "id, org, state, message, deployment, deployments, deployed_at, changed, serving, digest, instances"
STATUS: Final = f"SELECT {_STATUS} FROM status WHERE id = $1"
STATUS_ADD: Final = f"INSERT INTO status ({_STATUS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
STATUS_CHANGE: Final = """
UPDATE status SET state = $1, message = $2, deployment = $3, deployments = $4, deployed_at = $5, changed = $6,
    serving = $7, digest = $8, instances = $9
WHERE id = $10"""
STATUS_REMOVE: Final = "DELETE FROM status WHERE id = $1 RETURNING id"
STATUS_SERVING: Final = "SELECT id, org, serving FROM status WHERE serving IS NOT NULL ORDER BY id"
STATUS_ALL: Final = "SELECT id FROM status ORDER BY id"
STATUS_OLDEST: Final = """
SELECT status.id FROM status JOIN resource ON resource.id = status.id
ORDER BY CASE WHEN status.serving IS NULL THEN 1 ELSE 0 END, resource.created, status.id"""
STATUS_BELOW: Final = f"""
SELECT {", ".join(f"status.{column}" for column in _STATUS.split(", "))}
FROM resource JOIN status ON status.id = resource.id WHERE resource.parent = $1
ORDER BY resource.created, resource.id"""

# As the condition of the index `deployment_open` says it: SQLite compares the two letter by letter.
_OPEN = ", ".join(f"'{progress}'" for progress in Progress if progress in OPEN)
_DEPLOYMENT = "id, org, service, number, status, created, changed, body, action, sealed"
DEPLOYMENT: Final = f"SELECT {_DEPLOYMENT} FROM deployment WHERE id = $1"
DEPLOYMENTS_OPEN: Final = f"""
SELECT {_DEPLOYMENT} FROM deployment
WHERE service = $1 AND status IN ({_OPEN}) ORDER BY number"""
# By number and not by offset: a page costs the same wherever it is.
DEPLOYMENTS: Final = f"""
SELECT {_DEPLOYMENT} FROM deployment WHERE service = $1 AND number <= $2 ORDER BY number DESC LIMIT $3"""
DEPLOYMENTS_ENDED: Final = f"""
SELECT {_DEPLOYMENT} FROM deployment
WHERE service = $1 AND status NOT IN ({_OPEN}) AND number <= $2
ORDER BY number DESC LIMIT $3"""
DEPLOYMENT_ADD: Final = (
    f"INSERT INTO deployment ({_DEPLOYMENT}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
)
DEPLOYMENT_CHANGE: Final = (
    "UPDATE deployment SET status = $1, changed = $2, body = $3, sealed = $4 WHERE id = $5"
)
DEPLOYMENTS_REMOVE: Final = "DELETE FROM deployment WHERE service = $1"

_NAME = "name, service, port, wish, number"
NAME_ADD: Final = f"""
INSERT INTO host ({_NAME}) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING RETURNING name"""
NAMES_OF: Final = f"SELECT {_NAME} FROM host WHERE service = $1 ORDER BY number, name"
NAME_REMOVE: Final = "DELETE FROM host WHERE name = $1 AND service = $2"
NAMES_REMOVE: Final = "DELETE FROM host WHERE service = $1 RETURNING name"

COUNT_UP: Final = "UPDATE counter SET value = value + $1 WHERE name = $2 RETURNING value"
_EVENT = (
    "seq, id, org, kind, target, at, body, "
    "family, subject, subject_family, actor, origin, project, environment, hash"
)
_EVENT_VALUES = ", ".join(f"${place}" for place in range(1, len(_EVENT.split(", ")) + 1))
EVENT_ADD: Final = f"INSERT INTO event ({_EVENT}) VALUES ({_EVENT_VALUES})"
EVENT_HASH: Final = "SELECT hash FROM event WHERE seq = $1"
EVENT_NEWEST: Final = "SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1"
EVENTS_AFTER: Final = f"SELECT {_EVENT} FROM event WHERE org = $1 AND seq > $2 ORDER BY seq LIMIT $3"
EVENTS_ALL: Final = f"SELECT {_EVENT} FROM event ORDER BY seq"
EVENTS_SPAN: Final = "SELECT (SELECT min(seq) FROM event), (SELECT max(seq) FROM event)"
EVENT_TIME: Final = "SELECT at FROM event WHERE seq >= $1 ORDER BY seq LIMIT 1"
EVENT_OF: Final = f"""
SELECT {_EVENT} FROM event WHERE subject = $1 AND subject <> '' AND target = subject
ORDER BY seq DESC LIMIT 1"""
EVENTS_OLDEST: Final = "SELECT seq, at, hash FROM event ORDER BY seq LIMIT $1"
EVENTS_FORGET: Final = "DELETE FROM event WHERE seq <= $1"
COUNTED: Final = "SELECT value FROM counter WHERE name = $1"

# What an audit asks for. An empty text wants nothing in particular; kinds and families are repeated to
# fill their places.
_SIEVE = """
    AND org = $4 AND at >= $5 AND at <= $6
    AND ($7 = '' OR kind IN ($7, $8, $9, $10))
    AND ($11 = '' OR subject_family IN ($11, $12))
    AND ($13 = '' OR family = $13) AND ($14 = '' OR subject = $14)
    AND ($15 = '' OR actor = $15) AND ($16 = '' OR origin = $16)
    AND ($17 = '' OR project = $17) AND ($18 = '' OR environment = $18)"""


def _older(which: str) -> str:
    where = f"{which} AND seq < $2 AND seq >= $3 {_SIEVE}"
    return f"SELECT {_EVENT} FROM event WHERE {where} ORDER BY seq DESC LIMIT $19"


def _newer(which: str) -> str:
    where = f"{which} AND seq > $2 AND seq <= $3 {_SIEVE}"
    return f"SELECT {_EVENT} FROM event WHERE {where} ORDER BY seq LIMIT $19"


# By the index that leaves least to look at.
_ORG, _SUBJECT = "org = $1", "subject = $1 AND subject <> ''"
_PROJECT, _ENVIRONMENT = "project = $1 AND project <> ''", "environment = $1 AND environment <> ''"
EVENTS_OLDER_ORG: Final = _older(_ORG)
EVENTS_OLDER_SUBJECT: Final = _older(_SUBJECT)
EVENTS_OLDER_PROJECT: Final = _older(_PROJECT)
EVENTS_OLDER_ENVIRONMENT: Final = _older(_ENVIRONMENT)
EVENTS_NEWER_ORG: Final = _newer(_ORG)
EVENTS_NEWER_SUBJECT: Final = _newer(_SUBJECT)
EVENTS_NEWER_PROJECT: Final = _newer(_PROJECT)
EVENTS_NEWER_ENVIRONMENT: Final = _newer(_ENVIRONMENT)

# While a worker holds a row (`lease` > 0), `due` is far away unless the work was asked for once more.
# An epoch never comes again, also not when a row was deleted and asked for anew: so it begins anywhere.
WORK_ASK: Final = """
INSERT INTO work (id, kind, due, lease, epoch, attempts, org, lane) VALUES ($1, $2, $3, 0, $4, 0, $5, $6)
ON CONFLICT (id) DO UPDATE SET
    lane = excluded.lane, due = CASE WHEN excluded.due < work.due THEN excluded.due ELSE work.due END"""
# `turns` says in which order work is taken. None of these statements looks at all that is due; what is held
# is never more than the slots of all workers.
WORK_FRONT: Final = """
SELECT 'held' AS what, count(*) AS since, '' AS id, org FROM work WHERE lease > 0 AND lease > $1 GROUP BY org
UNION ALL
SELECT 'ended', lease, id, org FROM work WHERE lease > 0 AND lease <= $1 AND lane = $2
UNION ALL
SELECT 'waiting', due, id, org FROM (
    SELECT due, id, org FROM work WHERE lane = $2 AND lease = 0 AND due <= $1 ORDER BY due, id LIMIT $3
) AS front"""
# The first piece of each organization: from one to the next by the index, whatever lies between. Without a
# join, for which PostgreSQL might read everything.
_FIRST = """
SELECT {0} FROM work WHERE lane = $1 AND lease = 0 AND work.org = waiting.org AND due <= $2
ORDER BY due, id LIMIT 1"""
WORK_FIRST: Final = f"""
WITH RECURSIVE waiting (org) AS (
    SELECT min(org) FROM work WHERE lane = $1 AND lease = 0
    UNION ALL
    SELECT (SELECT min(org) FROM work WHERE lane = $1 AND lease = 0 AND work.org > waiting.org)
    FROM waiting WHERE waiting.org IS NOT NULL
)
SELECT ({_FIRST.format("due")}), ({_FIRST.format("id")}), org FROM waiting"""
WORK_OF_ORG: Final = """
SELECT due, id, org FROM work WHERE lane = $1 AND lease = 0 AND org = $2 AND due <= $3
ORDER BY due, id LIMIT $4"""
TAKEN_AT_ONCE: Final = 16
"""Pieces that one statement claims; places that are not needed are empty."""
_PIECES = ", ".join(f"${place}" for place in range(3, 3 + TAKEN_AT_ONCE))
WORK_CLAIM: Final = f"""
UPDATE work SET lease = $1, due = $2, epoch = epoch + 1, attempts = attempts + 1
WHERE id IN ({_PIECES}) RETURNING id, kind, epoch, attempts"""
WORK_HELD: Final = "SELECT id FROM work WHERE id = $1 AND epoch = $2 AND lease > 0"
WORK_HOLD: Final = "UPDATE work SET lease = $1 WHERE id = $2 AND epoch = $3 AND lease > 0 RETURNING id"
WORK_DONE: Final = "DELETE FROM work WHERE id = $1 AND epoch = $2 AND due = $3 AND lease > 0 RETURNING id"
WORK_AGAIN: Final = """
UPDATE work SET lease = 0, due = CASE WHEN due < $1 THEN due ELSE $1 END, attempts = $2
WHERE id = $3 AND epoch = $4 AND lease > 0 RETURNING id"""
WORK_RELEASE: Final = """
UPDATE work SET lease = 0, due = CASE WHEN due < $1 THEN due ELSE $1 END WHERE lease > 0"""
WORK_NEXT: Final = """
SELECT min(since) FROM (
    SELECT min(due) AS since FROM work WHERE lane = $1 AND lease = 0
    UNION ALL
    SELECT min(lease) FROM work WHERE lane = $1 AND lease > 0
) AS nearest"""
WORK_REMOVE: Final = "DELETE FROM work WHERE id = $1"

_DELIVERY = "id, webhook, lane, number, kind, created, state, due, attempts, body, story, address"
DELIVERY: Final = f"SELECT {_DELIVERY} FROM delivery WHERE id = $1 AND webhook = $2"
DELIVERIES: Final = f"""
SELECT {_DELIVERY} FROM delivery WHERE webhook = $1 ORDER BY number DESC LIMIT $2 OFFSET $3"""
DELIVERIES_COUNT: Final = "SELECT count(*) FROM delivery WHERE webhook = $1"
# Within a lane nothing is due before what stands ahead of it: so what is new waits as long as the last one.
DELIVERY_ADD: Final = f"""
INSERT INTO delivery ({_DELIVERY}) SELECT $1, $2, $3, $4, $5, $6, 'WAITING',
    (SELECT CASE WHEN max(due) > $6 THEN max(due) ELSE $6 END
     FROM delivery WHERE webhook = $2 AND lane = $3 AND state = 'WAITING'),
    0, $7, $8, ''"""
# The first few of each lane, so that a long lane does not hide the others.
DELIVERIES_DUE: Final = f"""
SELECT {_DELIVERY} FROM (
    SELECT {_DELIVERY}, row_number() OVER (PARTITION BY lane ORDER BY number) AS place
    FROM delivery WHERE webhook = $1 AND state = 'WAITING' AND due <= $2
) AS waiting
WHERE place <= $3 ORDER BY number LIMIT $4"""
DELIVERY_NEXT: Final = "SELECT min(due) FROM delivery WHERE webhook = $1 AND state = 'WAITING'"
DELIVERY_CHANGE: Final = """
UPDATE delivery SET state = $1, due = $2, attempts = $3, story = $4, address = $5 WHERE id = $6"""
DELIVERIES_HOLD: Final = """
UPDATE delivery SET due = $1 WHERE webhook = $2 AND lane = $3 AND state = 'WAITING' AND due < $1"""
DELIVERIES_HURRY: Final = """
UPDATE delivery SET due = $1 WHERE webhook = $2 AND state = 'WAITING' AND due > $1"""
DELIVERIES_AGAIN: Final = """
UPDATE delivery SET state = 'WAITING', due = $1, attempts = 0
WHERE webhook = $2 AND created >= $3 AND (state = 'FAILED' OR (state = 'DELIVERED' AND $4 = 0))
    AND address = $5
RETURNING id"""
DELIVERY_AGAIN: Final = """
UPDATE delivery SET state = 'WAITING', due = $1, attempts = 0 WHERE webhook = $2 AND id = $3
RETURNING id"""
DELIVERIES_FAIL: Final = """
UPDATE delivery SET state = 'FAILED' WHERE webhook = $1 AND lane = $2 AND state = 'WAITING'"""
DELIVERIES_REMOVE: Final = "DELETE FROM delivery WHERE webhook = $1"
DELIVERIES_SWEEP: Final = """
DELETE FROM delivery
WHERE (state <> 'WAITING' AND created < $1)
    OR NOT EXISTS (SELECT 1 FROM resource WHERE resource.id = delivery.webhook)"""
RECEIVER: Final = "SELECT failing, fails, silent FROM receiver WHERE webhook = $1"
RECEIVER_SET: Final = """
INSERT INTO receiver (webhook, failing, fails, silent) VALUES ($1, $2, $3, $4)
ON CONFLICT (webhook) DO UPDATE SET
    failing = excluded.failing, fails = excluded.fails, silent = excluded.silent"""
RECEIVER_REMOVE: Final = "DELETE FROM receiver WHERE webhook = $1"
RECEIVERS_SWEEP: Final = """
DELETE FROM receiver WHERE NOT EXISTS (SELECT 1 FROM resource WHERE resource.id = receiver.webhook)"""

TOKEN: Final = """
SELECT resource.id, resource.org, resource.body FROM token JOIN resource ON resource.id = token.id
WHERE token.digest = $1"""
TOKEN_ADD: Final = "INSERT INTO token (digest, id) VALUES ($1, $2)"
TOKEN_REVOKE: Final = """
INSERT INTO revoked (digest, id, org, name, at) SELECT digest, id, $1, $2, $3 FROM token WHERE id = $4
ON CONFLICT (digest) DO NOTHING"""
REVOKED: Final = "SELECT id, org, name FROM revoked WHERE digest = $1 OR id = $2"
REVOKED_SWEEP: Final = "DELETE FROM revoked WHERE at < $1"
TOKEN_REMOVE: Final = "DELETE FROM token WHERE id = $1 RETURNING digest"

IDENTITY: Final = """
SELECT identity.member, identity.org, resource.body
FROM identity JOIN resource ON resource.id = identity.member
WHERE identity.issuer = $1 AND identity.subject = $2 ORDER BY identity.org"""
IDENTITY_ADD: Final = "INSERT INTO identity (issuer, subject, org, member) VALUES ($1, $2, $3, $4)"
IDENTITY_REMOVE: Final = "DELETE FROM identity WHERE member = $1"

IDEMPOTENT: Final = "SELECT request, at, answer, once FROM idempotency WHERE caller = $1 AND key = $2"
IDEMPOTENT_ADD: Final = """
INSERT INTO idempotency (caller, key, request, at, answer, once) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (caller, key) DO UPDATE SET
    request = excluded.request, at = excluded.at, answer = excluded.answer, once = excluded.once"""
IDEMPOTENT_FORGET: Final = "UPDATE idempotency SET once = NULL WHERE once IS NOT NULL AND at <= $1"
IDEMPOTENT_OLDEST: Final = "SELECT min(at) FROM idempotency WHERE once IS NOT NULL"
IDEMPOTENT_SWEEP: Final = "DELETE FROM idempotency WHERE at < $1"

BUDGET: Final = "SELECT opened, used FROM budget WHERE subject = $1"
BUDGET_SET: Final = """
INSERT INTO budget (subject, opened, used) VALUES ($1, $2, $3)
ON CONFLICT (subject) DO UPDATE SET opened = excluded.opened, used = excluded.used"""
BUDGET_GIVE_BACK: Final = "UPDATE budget SET used = used - $1 WHERE subject = $2 AND opened = $3"
BUDGET_SWEEP: Final = "DELETE FROM budget WHERE opened < $1"

VOLUMES: Final = "SELECT name FROM volume WHERE service = $1 ORDER BY name"
VOLUMES_ALL: Final = "SELECT service, name FROM volume ORDER BY service, name"
VOLUME_ADD: Final = (
    "INSERT INTO volume (service, name) VALUES ($1, $2) ON CONFLICT (service, name) DO NOTHING"
)
VOLUMES_REMOVE: Final = "DELETE FROM volume WHERE service = $1"

DELETION: Final = "SELECT body FROM deletion WHERE id = $1"
DELETION_AT_OR_ABOVE: Final = """
WITH RECURSIVE above (id, parent) AS (
    SELECT id, parent FROM resource WHERE id = $1
    UNION ALL
    SELECT resource.id, resource.parent FROM resource JOIN above ON resource.id = above.parent
)
SELECT deletion.id FROM above JOIN deletion ON deletion.id = above.id LIMIT 1"""
DELETION_ADD: Final = """
INSERT INTO deletion (id, body) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = excluded.body"""
DELETION_REMOVE: Final = "DELETE FROM deletion WHERE id = $1"
# Those that were asked for first are asked to go last: applications before the databases that they use.
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
TOMBSTONE: Final = "SELECT 1 FROM tombstone WHERE service = $1"
TOMBSTONES: Final = "SELECT service FROM tombstone"
TOMBSTONE_ADD: Final = """
INSERT INTO tombstone (service, at) VALUES ($1, $2) ON CONFLICT (service) DO NOTHING"""

FACT: Final = "SELECT value FROM fact WHERE name = $1"
FACT_SET: Final = """
INSERT INTO fact (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"""

ALL: Final[dict[str, str]] = {
    name: text
    for name, text in globals().items()
    if name.isupper() and not name.startswith("_") and isinstance(text, str)
}
LOOKING: Final = frozenset(text for text in ALL.values() if text.split()[0] in {"SELECT", "WITH"})
"""Those that change nothing."""
