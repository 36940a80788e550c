"""Every SQL statement, once, for both databases.

Placeholders are `$1`, `$2`, …, first used in that order: SQLite numbers named parameters by their first
appearance, so the same text takes the same arguments on both. A test prepares each of them on each.
"""

from __future__ import annotations

from typing import Final

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

STATUS: Final = (
    "SELECT id, org, state, message, deployment, deployments, deployed_at, changed FROM status WHERE id = $1"
)
STATUS_ADD: Final = """
INSERT INTO status (id, org, state, message, deployment, deployments, deployed_at, changed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
STATUS_CHANGE: Final = """
UPDATE status SET state = $1, message = $2, deployment = $3, deployments = $4, deployed_at = $5, changed = $6
WHERE id = $7"""
STATUS_REMOVE: Final = "DELETE FROM status WHERE id = $1"

_DEPLOYMENT = "id, org, service, number, status, created, changed, body"
DEPLOYMENT: Final = f"SELECT {_DEPLOYMENT} FROM deployment WHERE id = $1"
DEPLOYMENTS_OPEN: Final = f"""
SELECT {_DEPLOYMENT} FROM deployment
WHERE service = $1 AND status IN ('QUEUED', 'BUILDING', 'DEPLOYING') ORDER BY number"""
DEPLOYMENT_ADD: Final = f"INSERT INTO deployment ({_DEPLOYMENT}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
DEPLOYMENT_CHANGE: Final = "UPDATE deployment SET status = $1, changed = $2, body = $3 WHERE id = $4"
DEPLOYMENTS_REMOVE: Final = "DELETE FROM deployment WHERE service = $1"

COUNT_UP: Final = "UPDATE counter SET value = value + $1 WHERE name = $2 RETURNING value"
EVENT_ADD: Final = (
    "INSERT INTO event (seq, id, org, kind, target, at, body) VALUES ($1, $2, $3, $4, $5, $6, $7)"
)
EVENTS_AFTER: Final = """
SELECT seq, id, org, kind, target, at, body FROM event WHERE org = $1 AND seq > $2 ORDER BY seq LIMIT $3"""

# While a worker holds a row (`lease` > 0), `due` is far away unless the work was asked for once more.
# An epoch never comes again, also not when a row was deleted and asked for anew: so it begins anywhere.
WORK_ASK: Final = """
INSERT INTO work (id, kind, due, lease, epoch, attempts) VALUES ($1, $2, $3, 0, $4, 0)
ON CONFLICT (id) DO UPDATE SET due = CASE WHEN excluded.due < work.due THEN excluded.due ELSE work.due END"""
WORK_CLAIM: Final = """
UPDATE work SET lease = $1, due = $2, epoch = epoch + 1, attempts = attempts + 1
WHERE id IN (
    SELECT id FROM work WHERE (lease = 0 AND due <= $3) OR (lease > 0 AND lease <= $3)
    ORDER BY CASE WHEN lease > 0 THEN lease ELSE due END, id LIMIT $4
)
RETURNING id, kind, epoch, attempts"""
WORK_HELD: Final = "SELECT id FROM work WHERE id = $1 AND epoch = $2 AND lease > 0"
WORK_HOLD: Final = "UPDATE work SET lease = $1 WHERE id = $2 AND epoch = $3 AND lease > 0 RETURNING id"
WORK_DONE: Final = "DELETE FROM work WHERE id = $1 AND epoch = $2 AND due = $3 AND lease > 0 RETURNING id"
WORK_AGAIN: Final = """
UPDATE work SET lease = 0, due = CASE WHEN due < $1 THEN due ELSE $1 END, attempts = $2
WHERE id = $3 AND epoch = $4 AND lease > 0 RETURNING id"""
WORK_RELEASE: Final = """
UPDATE work SET lease = 0, due = CASE WHEN due < $1 THEN due ELSE $1 END WHERE lease > 0"""
WORK_NEXT: Final = "SELECT min(CASE WHEN lease > 0 THEN lease ELSE due END) FROM work"
WORK_REMOVE: Final = "DELETE FROM work WHERE id = $1"

TOKEN: Final = """
SELECT resource.id, resource.org, resource.body FROM token JOIN resource ON resource.id = token.id
WHERE token.digest = $1"""
TOKEN_ADD: Final = "INSERT INTO token (digest, id) VALUES ($1, $2)"
TOKEN_REMOVE: Final = "DELETE FROM token WHERE id = $1 RETURNING digest"

IDENTITY: Final = """
SELECT identity.member, identity.org, resource.body
FROM identity JOIN resource ON resource.id = identity.member
WHERE identity.issuer = $1 AND identity.subject = $2 ORDER BY identity.org"""
IDENTITY_ADD: Final = "INSERT INTO identity (issuer, subject, org, member) VALUES ($1, $2, $3, $4)"
IDENTITY_REMOVE: Final = "DELETE FROM identity WHERE member = $1"

IDEMPOTENT: Final = "SELECT request, at, answer FROM idempotency WHERE caller = $1 AND key = $2"
IDEMPOTENT_ADD: Final = """
INSERT INTO idempotency (caller, key, request, at, answer) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (caller, key) DO UPDATE SET
    request = excluded.request, at = excluded.at, answer = excluded.answer"""
IDEMPOTENT_SWEEP: Final = "DELETE FROM idempotency WHERE at < $1"

BUDGET: Final = "SELECT opened, used FROM budget WHERE subject = $1"
BUDGET_SET: Final = """
INSERT INTO budget (subject, opened, used) VALUES ($1, $2, $3)
ON CONFLICT (subject) DO UPDATE SET opened = excluded.opened, used = excluded.used"""
BUDGET_GIVE_BACK: Final = "UPDATE budget SET used = used - $1 WHERE subject = $2 AND opened = $3"
BUDGET_SWEEP: Final = "DELETE FROM budget WHERE opened < $1"

FACT: Final = "SELECT value FROM fact WHERE name = $1"
FACT_SET: Final = """
INSERT INTO fact (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"""

ALL: Final = {name: text for name, text in globals().items() if name.isupper() and not name.startswith("_")}
LOOKING: Final = frozenset(text for text in ALL.values() if text.split()[0] in {"SELECT", "WITH"})
"""Those that change nothing."""
