"""The records of an installation, read directly from the database, also while no server runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from windlass.config import DATABASE
from windlass.control.background.housekeeping import TIDY
from windlass.control.records.branch_watches import watch_branch
from windlass.control.records.deployments import RECONCILE, particulars
from windlass.control.records.runs import TIMETABLES_WORK
from windlass.core.deploy.progress import DEPLOYMENT_EVENTS
from windlass.core.deploy.states import (
    OPEN_STATES_OF_DEPLOYMENTS,
    STATES_OF_ACTIONS,
    Do,
    Progress,
    Sleep,
    State,
)
from windlass.store import DeploymentRow, EventRow, Reads, StatusRow, Tx
from windlass.store.postgres import PostgresSession
from windlass.store.sqlite import SqliteSession, connect

UNFINISHED = "SELECT id FROM work WHERE lease > 0 OR due <= $1 ORDER BY id"
FINAL = {kind for told in DEPLOYMENT_EVENTS.values() for kind in told.ended.values()}


class Books:
    def __init__(self, data: Path, url: str) -> None:
        self._data, self._url = data, url

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Reads]:
        async with self._session() as session:
            yield Reads(session)

    @asynccontextmanager
    async def changed(self) -> AsyncIterator[Tx]:
        """Changes the database beyond the API, while no server has it open."""
        async with self._session() as session:
            await session.all("BEGIN")
            yield Tx(session, 1)
            await session.all("COMMIT")

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        if not self._url:
            connection = connect(self._data / DATABASE)
            yield SqliteSession(connection)
            connection.close()
            return
        cable = await asyncpg.connect(self._url)
        yield PostgresSession(cable)
        await cable.close()

    async def ask_to_tidy(self) -> None:
        """Long overdue: it is the first thing that the next Windlass does."""
        async with self.changed() as tx:
            await tx.work.schedule(TIDY, TIDY, 1)

    async def ask_to_look_at_branch(self, service: str) -> None:
        async with self.changed() as tx:
            await watch_branch(tx, service, "", "", 1)

    async def make_due(self, job: str) -> None:
        """Makes the timetable of a job due, a while ago."""
        async with self.changed() as tx:
            await tx.session.all("UPDATE timetable SET due = $1 WHERE job = $2", 60_000, job)
            await tx.work.schedule(TIMETABLES_WORK, TIMETABLES_WORK, 1)

    async def forgive(self) -> None:
        """Gives the reserved requests back. Each killed server loses a hundredth of the limit, so that after
        a hundred deaths no request would be answered."""
        async with self.changed() as tx:
            await tx.session.all("DELETE FROM budget")

    async def ask_to_reconcile_deleted(self, service: str) -> None:
        async with self.changed() as tx:
            await tx.deletions.record(service, "")
            await tx.work.schedule(RECONCILE, service, 1)

    async def unfinished(self) -> list[str]:
        """Returns work that is due or under way: as long as there is any, a worker may reach a failpoint."""
        async with self.opened() as reads:
            found = await reads.session.all(UNFINISHED, int(time.time() * 1000))
        return [str(row[0]) for row in found]

    async def scale(self, service: str, instances: int) -> None:
        """As the scaler does, and keeping has yet to bring about."""
        async with self.changed() as tx:
            status = await tx.statuses.get(service)
            assert status
            await tx.statuses.change(msgspec.structs.replace(status, instances=instances))

    async def put_to_sleep(self, service: str) -> None:
        """As Windlass does after a time without requests, and keeping has yet to bring about."""
        async with self.changed() as tx:
            status = await tx.statuses.get(service)
            assert status
            asleep = msgspec.structs.replace(
                status, state=State.STOPPED, sleep=Sleep.ASLEEP, instances=0, running=0, ready=0
            )
            await tx.statuses.change(asleep)

    async def events(self) -> list[EventRow]:
        found: list[EventRow] = []
        async with self.opened() as reads:
            org = await _org(reads)
            while more := await reads.events.after(org, found[-1].seq if found else 0):
                found += more
        return found


async def _org(reads: Reads) -> str:
    row = await reads.session.one("SELECT id FROM resource WHERE family = 'organization'")
    assert row
    return str(row[0])


def by_themselves(deployments: Iterable[DeploymentRow]) -> Counter[tuple[str, str | None]]:
    """Counts the deployments that were asked for by a new commit, by service and commit."""
    details = ((row.service, particulars(row)) for row in deployments)
    return Counter((service, each.git_commit_id) for service, each in details if each.origin == "GIT")


def untrue(status: StatusRow, deployments: list[DeploymentRow]) -> str:
    """Why the state of a service, of which nothing is under way, is not what its deployments came to."""
    if open_ones := [one.number for one in deployments if one.status in OPEN_STATES_OF_DEPLOYMENTS]:
        return f"deployments {open_ones} are not final"
    numbers = {one.id: one for one in deployments}
    if status.serving and numbers[status.serving].status != Progress.SUCCEEDED:
        return f"it serves deployment {numbers[status.serving].number}, which did not succeed"
    if status.sleep == Sleep.WAKING:
        return "it is being woken"
    if status.sleep:
        return "" if status.state == State.STOPPED else f"it sleeps, and is {status.state}"
    fitting = _fitting(max(deployments, key=lambda one: one.number)) if deployments else {State.READY}
    return "" if status.state in fitting else f"it is {status.state}, and not one of {sorted(fitting)}"


def _fitting(last: DeploymentRow) -> set[State]:
    words = STATES_OF_ACTIONS[Do(last.action)]
    match last.status:
        case Progress.SUCCEEDED:
            return {words.done}
        case Progress.CANCELED:
            return {State.CANCELED}
        case _:
            return {words.failed, State.BUILD_ERROR}


def mistold(events: list[EventRow], deployments: list[DeploymentRow]) -> list[str]:
    """Deployments of which not exactly one end is told, or another than theirs."""
    told: Counter[tuple[str, str]] = Counter()
    for event in events:
        if event.kind in FINAL:
            told[msgspec.json.decode(event.body)["deployment_id"], event.kind] += 1
    ends = {
        (one.id, str(DEPLOYMENT_EVENTS[Do(one.action)].ended[Progress(one.status)])) for one in deployments
    }
    return [
        *(f"{kind} of {id} was told {count} times" for (id, kind), count in told.items() if count > 1),
        *(f"{kind} of {id} was not told" for id, kind in sorted(ends - told.keys())),
        *_told_otherwise(told, ends),
    ]


def _told_otherwise(told: Counter[tuple[str, str]], ends: set[tuple[str, str]]) -> list[str]:
    known = dict(ends)
    return [f"{kind} of {id} was told, but not so" for id, kind in told if known.get(id, kind) != kind]
