"""Many projects at once, written as the server would have written them, in a few large transactions.

One project comes into being over HTTP; the others are copies of its row with another id, name and time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from bench.servers import windlass
from windlass.base import ids
from windlass.base.clock import SystemClock, stamp
from windlass.config import DATABASE
from windlass.store import Row, Tx
from windlass.store.sqlite import SqliteStore, connect
from windlass.store.tables import names, resources, statuses
from windlass.store.tables.names import NameRow

_BATCH = 50_000
_APPLICATION = {
    "name": "application 00000000",
    "git_repository": {"url": "https://github.com/example/web", "branch": "main"},
    "ports": [{"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}],
}
_MOST_MEMORY = -1_000_000  # in KiB: the pages of one batch should not go to the disk twice


def seed(folder: Path) -> None:
    """A data directory with an organization and one project in it."""
    with windlass(folder) as server:
        body = {"name": "project 00000000", "description": "One of the many that a long list is made of."}
        server.ask("POST", f"/organization/{server.org}/project", body)


def template(connection: apsw.Connection) -> Row:
    [(id,)] = connection.execute("SELECT id FROM resource WHERE family = 'project' ORDER BY pos LIMIT 1")
    return Row(*next(connection.execute(resources.FIND, (id, "project"))))


def fill(folder: Path, count: int) -> None:
    """Makes the list of projects this long."""
    seed(folder)
    connection = connect(folder / DATABASE)
    connection.pragma("cache_size", _MOST_MEMORY)
    first = template(connection)
    rows = _copies(first, count)
    while batch := list(itertools.islice(rows, _BATCH)):
        with connection:
            connection.executemany(resources.ADD, batch)
    _count(connection, first, count)
    connection.pragma("wal_checkpoint(TRUNCATE)")
    connection.close()


def _copies(
    first: Row, count: int, key: str = "name", pattern: str = "{family} {:08}"
) -> Iterator[tuple[Any, ...]]:
    document = msgspec.json.decode(first.body)
    for number in range(1, count):
        id, created, name = ids.new_id(), first.created + number, pattern.format(number, family=first.family)
        moment = stamp(created)
        document |= {"id": id, key: name, "created_at": moment, "updated_at": moment}
        copy = msgspec.structs.replace(
            first,
            id=id,
            pos=first.pos + number,
            name=name,
            created=created,
            tag=ids.new_tag(),
            body=msgspec.json.encode(document),
        )
        yield msgspec.structs.astuple(copy)


def fill_services(folder: Path, count: int) -> None:
    """Makes that many applications in one environment, with their statuses and host names."""
    with windlass(folder) as server:
        project = server.ask("POST", f"/organization/{server.org}/project", {"name": "many"})["id"]
        environment = server.ask("POST", f"/project/{project}/environment", {"name": "services"})["id"]
        application = server.ask("POST", f"/environment/{environment}/application", _APPLICATION)["id"]
    connection = connect(folder / DATABASE)
    [row] = connection.execute(resources.FIND, (application, "application"))
    [status] = connection.execute(statuses.GET, (application,))
    held = [NameRow(*host) for host in connection.execute(names.NAMES_OF_SERVICE, (application,))]
    first = Row(*row)
    copies = list(_copies(first, count))
    with connection:
        connection.executemany(resources.ADD, copies)
        connection.executemany(statuses.ADD, [(copy[0], *status[1:]) for copy in copies])
        for number, copy in enumerate(copies):
            for one in held:  # the one at the gateway, and the one in the environment
                named = msgspec.structs.replace(one, name=f"{one.name}-{number}", service=copy[0])
                connection.execute(names.ADD, msgspec.structs.astuple(named))
    _count(connection, first, count)
    connection.close()


def fill_variables(folder: Path, counts: Sequence[int]) -> list[str]:
    """Makes a project with each of these numbers of variables, and an application in it; returns the ids of
    the applications, which pass for deployed."""
    applications: list[str] = []
    firsts: list[str] = []
    with windlass(folder) as server:
        for count in counts:
            project = server.ask(
                "POST", f"/organization/{server.org}/project", {"name": f"{count} variables"}
            )["id"]
            environment = server.ask("POST", f"/project/{project}/environment", {"name": "production"})["id"]
            made = server.ask("POST", f"/environment/{environment}/application", _APPLICATION)
            variable = {"key": "VARIABLE_00000000", "value": "postgresql://orders:5432/orders"}
            firsts.append(server.ask("POST", f"/project/{project}/environmentVariable", variable)["id"])
            applications.append(made["id"])
    connection = connect(folder / DATABASE)
    for id, count in zip(firsts, counts, strict=True):
        [row] = connection.execute(resources.FIND, (id, "environmentVariable"))
        with connection:
            connection.executemany(resources.ADD, _copies(Row(*row), count, "key", "VARIABLE_{:08}"))
            _count(connection, Row(*row), count)
    connection.execute("UPDATE status SET deployed_at = changed, digest = '2-unknown..'")
    connection.close()
    return applications


def _count(connection: apsw.Connection, first: Row, count: int) -> None:
    connection.execute(
        "UPDATE tally SET next = ?1, live = ?1, last = ?2 WHERE parent = ?3 AND family = ?4",
        (count, first.created + count, first.parent, first.family),
    )


def punch(folder: Path, share: float) -> None:
    """Removes some projects here and there, as a client's deletes would."""
    asyncio.run(_punch(folder / DATABASE, share))


async def _punch(path: Path, share: float) -> None:
    store = await SqliteStore.open(path, SystemClock())
    listed = store.snapshot().execute("SELECT id FROM resource WHERE family = 'project'")
    dice = random.Random(1)
    gone = [id for (id,) in listed if dice.random() < share]
    for some in (gone[at : at + 1000] for at in range(0, len(gone), 1000)):
        await store.write(lambda tx, some=some: _remove(tx, some))  # type: ignore[misc]
    await store.close()


async def _remove(tx: Tx, some: list[str]) -> None:
    for id in some:
        row = await tx.resources.find("project", id)
        assert row is not None
        await tx.remove(row)
