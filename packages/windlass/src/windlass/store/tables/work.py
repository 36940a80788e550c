"""Work: each piece of background work is a row, with a lease and a fencing epoch.

The column `lane` is the number of the piece's queue. The column `org` is its turn key, an organization or one
of its environments, see `turn_key`. `claim_order` decides the order in which work is claimed.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.store.claim_order import NO_LIMITS, ClaimOrder, Due, Idle, turn_key
from windlass.store.tables.queues import Queue, builds_beside, queues_of, runs_beside
from windlass.store.tables.table import NEVER, ChangeSession, Table, places

_QUEUES: Final = {
    "reconcile": Queue.RECONCILE,
    "deliver": Queue.DELIVER,
    "domain": Queue.DELIVER,
    "own certificate": Queue.DELIVER,
    "challenge records": Queue.DELIVER,
    "tidy": Queue.LOCAL,
    "scale": Queue.LOCAL,
    "discard": Queue.LOCAL,
    "auto deploy": Queue.BRANCHES,
    "look at pull requests": Queue.DELIVER,
    "preview": Queue.BRANCHES,
    "image push": Queue.DELIVER,
    "comment commands": Queue.DELIVER,
    "run": Queue.RUNS,
}
"""Kinds of work with a queue of their own. All other kinds use the queue QUICK."""
_MAX_FRONT_PIECES: Final = 64
"""Number of longest waiting pieces that are checked before the first pieces of all organizations."""
_AT_ONCE: Final = 16
"""Number of pieces that one statement claims. Unused placeholders are empty."""


class Claim(Struct, frozen=True, gc=False):
    """A claimed piece of work. The claim is valid until the lease ends or the epoch changes."""

    id: str
    kind: str
    epoch: int
    attempts: int
    key: str = ""
    """The turn key of the piece: its organization and environment; see `turn_key`."""
    is_taken_over: bool = False
    """Whether another worker's lease had ended, because its server was killed, paused or disconnected."""
    queue: int = Queue.RECONCILE
    """The queue from which the piece was claimed."""


class PlaceHolder(Struct, frozen=True, gc=False):
    """A place, and the id of the server that owns it."""

    place: str
    owner: str


# While a worker has claimed a row (`lease` > 0), `due` is NEVER unless the work was requested again. Epochs
# are never reused, even if a row is deleted and inserted again, so they start at a random number.
SCHEDULE: Final = """
INSERT INTO work (id, kind, due, lease, epoch, attempts, org, lane)
VALUES ($1, $2, $3, 0, $4, 0, $5, COALESCE((
    SELECT queue.number FROM status JOIN queue ON queue.cluster = status.cluster WHERE status.id = $1
), $6) * $7)
ON CONFLICT (id) DO UPDATE SET
    lane = excluded.lane, due = CASE WHEN excluded.due < work.due THEN excluded.due ELSE work.due END"""
# These statements do not read all due rows. The number of claimed rows is limited by the slots of all
# workers.
FRONT: Final = """
SELECT 'held' AS what, count(*) AS since, '' AS id, org FROM work WHERE lease > 0 AND lease > $1 GROUP BY org
UNION ALL
SELECT 'ended', lease, id, org FROM work WHERE lease > 0 AND lease <= $1 AND lane = $2
UNION ALL
SELECT 'waiting', due, id, org FROM (
    SELECT due, id, org FROM work WHERE lane = $2 AND lease = 0 AND due <= $1 ORDER BY due, id LIMIT $3
) AS front"""
# The first piece of each environment. A recursive query finds the next environment through the index, without
# reading the rows between them. Not a join, for which PostgreSQL might read all rows.
_FIRST = """
SELECT {0} FROM work WHERE lane = $1 AND lease = 0 AND work.org = waiting.org AND due <= $2
ORDER BY due, id LIMIT 1"""
FIRST_OF_ENVIRONMENTS: Final = f"""
WITH RECURSIVE waiting (org) AS (
    SELECT min(org) FROM work WHERE lane = $1 AND lease = 0
    UNION ALL
    SELECT (SELECT min(org) FROM work WHERE lane = $1 AND lease = 0 AND work.org > waiting.org)
    FROM waiting WHERE waiting.org IS NOT NULL
)
SELECT ({_FIRST.format("due")}), ({_FIRST.format("id")}), org FROM waiting"""
OF_ORG: Final = """
SELECT due, id, org FROM work WHERE lane = $1 AND lease = 0 AND org = $2 AND due <= $3
ORDER BY due, id LIMIT $4"""
CLAIM: Final = f"""
UPDATE work SET lease = $1, due = $2, epoch = epoch + 1, attempts = attempts + 1
WHERE id IN ({places(_AT_ONCE, first=3)}) RETURNING id, kind, epoch, attempts, org AS key"""
CLAIM_OWNED: Final = f"""
UPDATE work SET lease = $1, due = $2, epoch = epoch + 1, attempts = attempts + 1
WHERE id IN ({places(_AT_ONCE, first=3)}) AND EXISTS (
    SELECT 1 FROM place_owner
    WHERE place = ${_AT_ONCE + 3} AND owner = ${_AT_ONCE + 4} AND until > ${_AT_ONCE + 5}
) RETURNING id, kind, epoch, attempts, org AS key"""
GET_CLAIMED: Final = "SELECT id FROM work WHERE id = $1 AND epoch = $2 AND lease > 0"
RENEW_LEASE: Final = "UPDATE work SET lease = $1 WHERE id = $2 AND epoch = $3 AND lease > 0 RETURNING id"
DELETE_DONE: Final = "DELETE FROM work WHERE id = $1 AND epoch = $2 AND due = $3 AND lease > 0 RETURNING id"
RESCHEDULE: Final = """
UPDATE work SET lease = 0, due = CASE WHEN due < $1 THEN due ELSE $1 END, attempts = $2
WHERE id = $3 AND epoch = $4 AND lease > 0 RETURNING id"""
# A new request may have moved the piece to the other queue meanwhile.
LEAVE_TO_BUILDS: Final = """
UPDATE work SET lease = 0, lane = $1, due = CASE WHEN due < $2 THEN due ELSE $2 END, attempts = 0
WHERE id = $3 AND epoch = $4 AND lease > 0"""
RELEASE_ALL: Final = """
UPDATE work SET lease = 0, due = CASE WHEN due < $1 THEN due ELSE $1 END WHERE lease > 0"""
SET_DUE_EARLIER: Final = "UPDATE work SET due = $1 WHERE lease = 0 AND kind <> $2 AND due > $3 AND due < $4"
END_LEASES: Final = "UPDATE work SET lease = $1 WHERE lease > $2"
# The workers of the former owner detect by the epoch that they have lost their claims.
REVOKE_CLAIMS: Final = """
UPDATE work SET lease = 0, due = $1, epoch = epoch + 1 WHERE lease > 0 AND lane IN ($2, $3, $4, $5)"""
# A recursive query finds the next queue through the index, without reading the rows between them.
DUE_BY_QUEUE: Final = """
WITH RECURSIVE waiting (lane) AS (
    SELECT min(lane) FROM work WHERE lease = 0
    UNION ALL
    SELECT (SELECT min(lane) FROM work WHERE lease = 0 AND work.lane > waiting.lane)
    FROM waiting WHERE waiting.lane IS NOT NULL
)
SELECT lane, (SELECT min(due) FROM work WHERE lease = 0 AND work.lane = waiting.lane)
FROM waiting WHERE lane IS NOT NULL
UNION ALL
SELECT lane, min(lease) FROM work WHERE lease > 0 GROUP BY lane"""
DELETE: Final = "DELETE FROM work WHERE id = $1"
QUEUE_OF_SERVICE: Final = """
SELECT queue.number FROM status JOIN queue ON queue.cluster = status.cluster WHERE status.id = $1"""
ADD_QUEUE: Final = "INSERT INTO queue (cluster, number) VALUES ($1, $2) ON CONFLICT (cluster) DO NOTHING"
REMOVE_QUEUE: Final = "DELETE FROM queue WHERE cluster = $1"


def _values_of(
    kind: str, id: str, due_at: int, org: str, queue: int | None = None, *, builds: bool = False
) -> tuple[str | int, ...]:
    """Returns the values of the statement `SCHEDULE`."""
    usual = _QUEUES.get(kind, Queue.QUICK)
    number = usual if queue is None else queue
    return id, kind, due_at, secrets.randbits(48), org, number, builds_beside(1) if builds else 1


class WorkTable(Table):
    __slots__ = ()

    async def due(self) -> dict[int, int]:
        """Returns for each queue with work the time when the next piece is due or the next lease ends."""
        nearest: dict[int, int] = {}
        for queue, since in await self._session.all(DUE_BY_QUEUE):
            nearest[queue] = min(since, nearest.get(queue, since))
        return nearest

    async def next_pieces(
        self,
        queue: int,
        limit: int,
        now: int,
        only_idle: Idle | None = None,
        free_slots: Mapping[str, int] = NO_LIMITS,
    ) -> tuple[list[str], set[str]]:
        """Returns the ids of the next pieces to claim, and the ids of all pieces whose lease has ended.

        `only_idle`: considers only organizations or environments without running work. `free_slots`: how many
        more pieces may be claimed, by turn key (see `turn_key`).
        """
        rows = await self._session.all(FRONT, now, queue, _MAX_FRONT_PIECES)
        turns = ClaimOrder({row[3]: row[1] for row in rows if row[0] == "held"}, free_slots)
        ended = [Due(*row[1:]) for row in rows if row[0] == "ended"]
        front = [Due(*row[1:]) for row in rows if row[0] == "waiting"]
        if len(front) < _MAX_FRONT_PIECES:
            turns.add([*ended, *front], is_complete=True)
        else:
            # If enough of these organizations have no running work, no other organization can come before
            # them.
            turns.add([*(piece for piece in ended if piece <= front[-1]), *front], is_complete=False)
            if turns.idle() < limit:
                firsts = await self._session.all(FIRST_OF_ENVIRONMENTS, queue, now)
                turns.add_firsts([*ended, *(Due(*row) for row in firsts if row[0] is not None)])
        taken: list[str] = []
        while len(taken) < limit and (piece := turns.take(only_idle)):
            taken.append(piece.id)
            if turns.lacks(piece.key):
                rows = await self._session.all(OF_ORG, queue, piece.key, now, _MAX_FRONT_PIECES + limit)
                own = [due for due in ended if due.key == piece.key]
                turns.refill(piece.key, [*own, *(Due(*row) for row in rows)])
            turns.advance(piece.key)
        return taken, {piece.id for piece in ended}

    async def queue_of_runs(self, job: str) -> int:
        """Returns the queue for runs of a job."""
        row = await self._session.one(QUEUE_OF_SERVICE, job)
        return runs_beside(int(row[0]) if row else Queue.RECONCILE)


class WorkChanges(WorkTable):
    __slots__ = ()
    _session: ChangeSession

    async def schedule(
        self,
        kind: str,
        id: str,
        due_at: int | None = None,
        org: str = "",
        queue: int | None = None,
        environment: str = "",
        *,
        builds: bool = False,
    ) -> None:
        """Schedules a piece of work. Scheduling is idempotent while the piece waits.

        By default, the piece waits in the queue of its kind. Work for a service waits in the queue of its
        cluster. With `builds`, it waits in the build queue of that cluster. The environments of an
        organization take turns: the piece counts for its `environment`.
        """
        moment = self._session.now if due_at is None else due_at
        key = turn_key(org, environment)
        await self._session.all(SCHEDULE, *_values_of(kind, id, moment, key, queue, builds=builds))
        self._session.nudge("work")

    async def schedule_all(self, kind: str, pieces: Iterable[tuple[str, str]]) -> None:
        """Schedules one piece of work for each pair of id and organization."""
        await self._session.many(
            SCHEDULE, [_values_of(kind, id, self._session.now, org) for id, org in pieces]
        )
        self._session.nudge("work")

    async def claim(
        self,
        lease: int,
        limit: int,
        queue: int = Queue.RECONCILE,
        owner: PlaceHolder | None = None,
        only_idle: Idle | None = None,
        free_slots: Mapping[str, int] = NO_LIMITS,
    ) -> list[Claim]:
        """Claims due work in the fair order of `claim_order`.

        `owner`: claims nothing unless this server owns the place now. `only_idle`: considers only
        organizations or environments without running work. `free_slots`: how many more pieces may be claimed,
        by turn key. Pieces with an unexpired lease stay with their workers.
        """
        claims: list[Claim] = []
        while (missing := min(_AT_ONCE, limit - len(claims))) > 0:
            now = self._session.now
            claimed = Counter(claim.key for claim in claims)
            left = {key: most_of_it - claimed[key] for key, most_of_it in free_slots.items()}
            pieces, ended = await self.next_pieces(queue, missing, now, only_idle, left)
            taken = await self._claim_pieces(pieces, lease, owner)
            claims += (replace(claim, is_taken_over=claim.id in ended, queue=queue) for claim in taken)
            if len(taken) < missing:
                break
        return claims

    async def _claim_pieces(self, pieces: list[str], lease: int, owner: PlaceHolder | None) -> list[Claim]:
        if not pieces:
            return []
        padding = [""] * (_AT_ONCE - len(pieces))
        now = self._session.now
        statement, holder = (CLAIM_OWNED, (owner.place, owner.owner, now)) if owner else (CLAIM, ())
        rows = await self._session.all(statement, now + lease, NEVER, *pieces, *padding, *holder)
        return sorted((Claim(*row) for row in rows), key=lambda claim: pieces.index(claim.id))

    async def revoke(self, place: str) -> None:
        """Revokes all claims on work at a place, and makes the work due at once."""
        queues = queues_of(place)
        builds = builds_beside(queues.deployments)
        await self._session.all(REVOKE_CLAIMS, self._session.now, *queues, builds)
        self._session.nudge("work")

    async def held(self, claim: Claim) -> bool:
        """Returns whether this worker still has the claim."""
        return await self._session.one(GET_CLAIMED, claim.id, claim.epoch) is not None

    async def renew_lease(self, claim: Claim, lease: int) -> bool:
        """Renews the lease. Returns whether the claim was still valid."""
        return (
            await self._session.one(RENEW_LEASE, self._session.now + lease, claim.id, claim.epoch) is not None
        )

    async def done(self, claim: Claim) -> None:
        """Completes the work. If the work was requested again meanwhile, it becomes due again."""
        if await self._session.one(DELETE_DONE, claim.id, claim.epoch, NEVER) is None:
            await self.reschedule(claim, self._session.now)

    async def reschedule(self, claim: Claim, due_at: int, attempts: int = 0) -> bool:
        """Releases the claim, and makes the work due at a time, or earlier if it is requested.

        `attempts`: number of failed attempts so far. Returns whether the claim was still valid.
        """
        released = await self._session.one(RESCHEDULE, due_at, attempts, claim.id, claim.epoch)
        self._session.nudge("work")
        return released is not None

    async def leave_to_builds(self, claim: Claim, start_time: int) -> None:
        """Releases the claim, and moves the work to the queue of builds, with `start_time` as the start of
        its wait."""
        queue = builds_beside(claim.queue)
        await self._session.all(LEAVE_TO_BUILDS, queue, start_time, claim.id, claim.epoch)
        self._session.nudge("work")

    async def bring_nearer(self, timestamp: int) -> None:
        """Makes work due now that is due after `timestamp`, and ends leases that end after it. Deliveries
        stay as they are, because they may wait longer."""
        now = self._session.now
        await self._session.all(SET_DUE_EARLIER, now, "deliver", timestamp, NEVER)
        await self._session.all(END_LEASES, now, timestamp)

    async def delete_of(self, id: str) -> None:
        await self._session.all(DELETE, id)

    async def add_queue(self, cluster: str, number: int) -> None:
        """Assigns a queue to the deployments of a cluster, if it has none. Waiting work stays in its
        queue."""
        await self._session.all(ADD_QUEUE, cluster, number)

    async def remove_queue(self, cluster: str) -> None:
        """Moves future deployments of a cluster to the default queue. Waiting work stays in its queue."""
        await self._session.all(REMOVE_QUEUE, cluster)
