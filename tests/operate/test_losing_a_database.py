"""Every way to lose, swap or turn back a database: nothing is erased, and what is found is told."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.engines.dockers import BOX, docker_host
from tests.fakes.engine import FakeEngine
from tests.marks import nightly
from tests.repositories import Repository
from tests.whole import Place, Windlass, place, until
from tests.world import fake_parts
from windlass.config import DATABASE, Settings
from windlass.control.background import service_data
from windlass.core.words.events import Event
from windlass.engines.findings import Level
from windlass.engines.workload import Phase
from windlass.install.installation import install
from windlass.operate.backup import backup, restore
from windlass.operate.doctor import diagnose
from windlass.operate.explain import explain
from windlass.store import EventRow
from windlass.terminal.command_errors import CommandRefused

pytestmark = pytest.mark.slow

PRECIOUS = "nobody can make this again"
DOCKERFILE = f'FROM {BOX}\nWORKDIR /app\nCOPY . .\nCMD ["sh", "app.sh"]\n'
PROGRAM = f"""
test -f data/file || echo "{PRECIOUS}" > data/file
sleep 1000
"""


class Site:
    """An installation with data, and what there is of it on the machine."""

    def __init__(self, there: Place, settings: Settings, spare: Callable[[], str]) -> None:
        self.there = there
        self.settings = settings
        self.spare = spare
        """A database of PostgreSQL that is empty."""
        self.aside = there.folder.with_name(there.folder.name + "-beside")
        self.repository = Repository(self.aside / "repository")
        self.older = self.aside / "older.db"
        self.backup = self.aside / "older.zip"
        self.environment = ""

    @property
    def database(self) -> Path:
        return self.there.folder / DATABASE

    async def furnish(self) -> None:
        self.repository.put({"Dockerfile": DOCKERFILE, "app.sh": PROGRAM}).commit()
        async with self.started() as windlass:
            org = (await windlass.call("GET", "/organization"))["id"]
            project = (await windlass.call("POST", f"/organization/{org}/project", {"name": "acme"}))["id"]
            made = await windlass.call("POST", f"/project/{project}/environment", {"name": "production"})
            self.environment = str(made["id"])
            self.first = await self.application(windlass, "first")
        await backup(self.settings, self.backup)
        if not self.settings.database_url:
            shutil.copy(self.database, self.older)
        async with self.started() as windlass:
            self.second = await self.application(windlass, "second")
            if self.settings.engine == "process":
                await self.store(windlass)

    async def application(self, windlass: Windlass, name: str) -> str:
        body = {
            "name": name,
            "git_repository": {"url": self.repository.url, "branch": "main"},
            "build_mode": "DOCKER",
            "dockerfile_path": "Dockerfile",
            "storage": [{"mount_point": "/app/data", "size": 1, "type": "FAST_SSD"}],
        }
        return await self._deployed(windlass, "application", body)

    async def store(self, windlass: Windlass) -> str:
        body = {"name": "store", "type": "POSTGRESQL", "version": "latest", "mode": "CONTAINER"}
        return await self._deployed(windlass, "database", body)

    async def _deployed(self, windlass: Windlass, family: str, body: dict[str, Any]) -> str:
        made = await windlass.call("POST", f"/environment/{self.environment}/{family}", body)
        await windlass.call("POST", f"/{family}/{made['id']}/deploy")
        await self.runs(windlass, f"/{family}/{made['id']}")
        return str(made["id"])

    async def runs(self, windlass: Windlass, path: str) -> None:
        async def over() -> bool:
            status = await windlass.call("GET", f"{path}/status")
            assert status["state"] != "ERROR", status
            return bool(status["state"] == "RUNNING")

        await until(over)

    @contextlib.asynccontextmanager
    async def started(self, settings: Settings | None = None, **given: Any) -> AsyncIterator[Windlass]:
        place = Place(self.there.folder, self.there.beside, settings or self.settings, self.there.machine)
        async with place.windlass(**given) as windlass:
            yield windlass

    async def all_of_it(self) -> tuple[list[str], list[str]]:
        return sorted(await self.there.machine.running()), sorted(await self.there.machine.traces())

    async def refuses(self, settings: Settings | None = None) -> str:
        """Returns the message of a refused start, which starts, erases and ends nothing."""
        before = await self.all_of_it()
        with pytest.raises(Exception) as caught:  # noqa: PT011 (which one, is the question)
            await install(settings or self.settings)
        assert await self.all_of_it() == before
        said = explain(caught.value)
        assert said, f"not in plain words: {caught.value!r}"
        findings = await diagnose(settings or self.settings)
        assert {"Database", "Installation"} & {one.what for one in findings if one.level is Level.FAIL}, (
            findings
        )
        return said

    async def services(self) -> set[str]:
        """Returns services that have data on the machine."""
        async with self.started() as windlass:
            return set(await windlass.installation.ctx.places.local.engine.services())

    async def family(self, windlass: Windlass, service: str) -> str:
        row = await windlass.installation.ctx.store.reads.resources.get(service)
        assert row is not None
        return row.family

    async def tidied(self, windlass: Windlass) -> None:
        """As it is done from time to time."""
        ctx = windlass.installation.ctx
        await service_data.set_unknown_aside(ctx, ctx.places.local, "a test")
        place = ctx.places.local
        for holder in (place.engine, place.builder, place.servers, ctx.logs):
            await service_data.sweep(ctx, holder)

    async def events(self, windlass: Windlass) -> list[EventRow]:
        reads = windlass.installation.ctx.store.reads
        org = await reads.resources.first("", "organization")
        assert org is not None
        return await reads.events.after(org.id)

    def records(self) -> list[service_data.SetAside]:
        files = sorted((self.there.folder / "set-aside").glob(f"*/{service_data.RECORD_FILE}"))
        return [msgspec.json.decode(file.read_bytes(), type=service_data.SetAside) for file in files]

    async def stored(self, windlass: Windlass, service: str) -> str:
        """Returns the content of a service's volume."""
        engine = windlass.installation.ctx.places.local.engine

        async def runs() -> bool:
            return [each.phase for each in (await engine.observe(service)).instances] == [Phase.RUNNING]

        await until(runs)
        (instance,) = (await engine.observe(service)).instances
        code, said = await engine.execute(instance, ["cat", "data/file"], 10)
        assert code == 0, said
        return said.strip()

    async def until_gone(self, service: str) -> None:
        async def gone() -> bool:
            return not [each for each in await self.there.machine.traces() if service in each]

        await until(gone)


@pytest.fixture
def spare(postgres):
    """Databases of PostgreSQL that are empty."""
    with contextlib.ExitStack() as stack:
        yield iter([stack.enter_context(postgres.fresh_database()) for _ in range(5)]).__next__


OTHER_PAIRS = ["docker-postgres", "process-postgres", "docker-sqlite"]


@pytest.fixture(params=["process-sqlite", *nightly(*OTHER_PAIRS)])
async def site(request, spare) -> AsyncIterator[Site]:
    engine, database = request.param.split("-")
    host = docker_host() if engine == "docker" else ""
    url = spare() if database == "postgres" else ""
    async with place(engine, host, git_allow_local=True, database_url=url, settle_seconds=0.2) as there:
        made = Site(there, there.settings, spare)
        try:
            await made.furnish()
            yield made
        finally:
            shutil.rmtree(made.aside, ignore_errors=True)


# What may happen to a database. Each answers the settings of the start that follows.


@contextlib.contextmanager
def moved_away(site: Site) -> Iterator[Settings]:
    site.database.rename(site.aside / "away.db")
    yield site.settings
    (site.aside / "away.db").replace(site.database)


@contextlib.contextmanager
def replaced(site: Site, content: bytes) -> Iterator[Settings]:
    with moved_away(site):
        site.database.write_bytes(content)
        yield site.settings
        for name in ("-wal", "-shm"):
            site.database.with_name(site.database.name + name).unlink(missing_ok=True)


def emptied(site: Site) -> Any:
    return replaced(site, b"")


def truncated(site: Site) -> Any:
    content = site.database.read_bytes()
    return replaced(site, content[: len(content) // 2])


def damaged(site: Site) -> Any:
    return replaced(site, os.urandom(100_000))


def older_copy(site: Site) -> Any:
    return replaced(site, site.older.read_bytes())


@contextlib.contextmanager
def without_its_variable(site: Site) -> Iterator[Settings]:
    yield replace(site.settings, database_url="")
    for left in site.there.folder.glob(f"{DATABASE}*"):
        left.unlink()


@contextlib.contextmanager
def empty_postgres(site: Site) -> Iterator[Settings]:
    yield replace(site.settings, database_url=site.spare())


SQLITE = [moved_away, emptied, truncated, damaged, older_copy, empty_postgres]
POSTGRES = [without_its_variable, empty_postgres]


async def foreign(site: Site) -> Settings:
    """A database of another installation with the same key."""
    folder = site.aside / "foreign"
    folder.mkdir()
    shutil.copy(site.there.folder / "key", folder / "key")
    url = site.spare() if site.settings.database_url else ""
    other = await install(Settings(data_dir=str(folder), database_url=url), parts=fake_parts(FakeEngine()))
    await other.stop()
    return Settings(data_dir=str(folder), database_url=url)


async def nothing_is_erased_whatever_becomes_of_the_database(site: Site) -> None:
    before = await site.all_of_it()

    for way in POSTGRES if site.settings.database_url else SQLITE:
        with way(site) as settings:
            said = await site.refuses(settings)
            assert "damaged" in said or "windlass serve --adopt" in said, (way, said)
            if way not in {truncated, damaged, older_copy}:
                assert f"services {3 if site.settings.engine == 'process' else 2} (" in said, said

    other = await foreign(site)
    if site.settings.database_url:
        said = await site.refuses(replace(site.settings, database_url=other.database_url))
    else:
        with replaced(site, (Path(other.data_dir) / DATABASE).read_bytes()) as settings:
            said = await site.refuses(settings)
    assert "belongs to another installation" in said

    # With its own database it goes on as if nothing had been.
    async with site.started() as windlass:
        await site.runs(windlass, f"/application/{site.first}")
        assert await site.all_of_it() == before


async def what_another_database_sets_aside_comes_back_with_its_own(site: Site) -> None:
    services = await site.services()
    with moved_away(site) if not site.settings.database_url else empty_postgres(site) as empty:
        async with site.started(empty, adopt=True) as windlass:
            await site.tidied(windlass)
            assert not await site.there.machine.running()
            assert {event.kind for event in await site.events(windlass)} >= {Event.SET_ASIDE}
            assert {record.service for record in site.records()} == services
            found = await diagnose(empty)
            assert [one.found for one in found if one.what == "Set aside"] == [
                f"{len(services)} services, with their data"
            ]
        async with site.started(empty) as windlass:
            await site.tidied(windlass)
        for left in site.there.folder.glob(f"{DATABASE}*"):
            left.unlink()

    assert "another installation" in await site.refuses()
    async with site.started(adopt=True) as windlass:
        for service in services:
            await site.runs(windlass, f"/{await site.family(windlass, service)}/{service}")
        assert await site.stored(windlass, site.first) == await site.stored(windlass, site.second) == PRECIOUS
        assert site.records() == []
        assert {event.kind for event in await site.events(windlass)} >= {Event.PUT_BACK}


async def a_restored_backup_leaves_what_was_made_since(site: Site) -> None:
    services = await site.services()
    known = {site.first}
    before = await site.all_of_it()
    with pytest.raises(CommandRefused, match="without a record then: services"):
        await restore(site.settings, site.backup, force=False)
    told: list[str] = []
    await restore(site.settings, site.backup, force=True, report_progress=told.append)
    assert await site.all_of_it() == before
    assert f"services {len(services - known)} (" in told[0]
    assert "windlass serve --adopt" in await site.refuses()
    async with site.started(adopt=True) as windlass:
        await site.tidied(windlass)
        assert {record.service for record in site.records()} == services - known
        await site.runs(windlass, f"/application/{site.first}")
        assert await site.stored(windlass, site.first) == PRECIOUS
    async with site.started() as windlass:  # from now on they belong together
        await site.tidied(windlass)


async def only_what_is_deleted_is_erased(site: Site) -> None:
    async with site.started() as windlass:
        others = [each for each in await site.there.machine.traces() if site.second in each]
        await windlass.call("DELETE", f"/application/{site.first}")
        await site.until_gone(site.first)
        assert [each for each in await site.there.machine.traces() if site.second in each] == others


async def test_no_lost_or_swapped_database_causes_service_data_to_be_deleted(site: Site):
    # One installation for all of them: to furnish one takes longer than all that is done with it.
    await nothing_is_erased_whatever_becomes_of_the_database(site)
    await what_another_database_sets_aside_comes_back_with_its_own(site)
    await a_restored_backup_leaves_what_was_made_since(site)
    await only_what_is_deleted_is_erased(site)
