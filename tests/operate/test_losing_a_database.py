"""Every way to lose, swap or turn back a database: nothing is erased, and what is found is told."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders.repositories import Repository
from tests.engines.dockers import BOX, docker_host
from tests.whole import Place, Windlass, place, until
from tests.world import fake_parts
from windlass.config import DATABASE, Settings
from windlass.engines.fake import FakeEngine
from windlass.installation import install
from windlass.operate.backup import backup
from windlass.operate.doctor import examined
from windlass.operate.explain import explain
from windlass.operate.findings import Level

PRECIOUS = "nobody can make this again"
DOCKERFILE = f'FROM {BOX}\nWORKDIR /app\nCOPY . .\nCMD ["sh", "app.sh"]\n'
PROGRAM = f"""
test -f data/file || echo "{PRECIOUS}" > data/file
sleep 1000
"""
Undo = Callable[[], Any]


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
        place = Place(self.there.folder, settings or self.settings, self.there.machine)
        async with place.windlass(**given) as windlass:
            yield windlass

    async def all_of_it(self) -> tuple[list[str], list[str]]:
        return sorted(await self.there.machine.running()), sorted(await self.there.machine.traces())

    async def refuses(self, settings: Settings | None = None) -> str:
        """What a start says, which begins, erases and ends nothing."""
        before = await self.all_of_it()
        with pytest.raises(Exception) as caught:  # noqa: PT011 (which one, is the question)
            await install(settings or self.settings)
        assert await self.all_of_it() == before
        said = explain(caught.value)
        assert said, f"not in plain words: {caught.value!r}"
        findings = await examined(settings or self.settings)
        assert {"Database", "Installation"} & {one.what for one in findings if one.level is Level.FAIL}, (
            findings
        )
        return said

    def volumes(self, service: str) -> list[Path]:
        return [*(self.there.folder / "run/volumes" / service).glob("*")]


@pytest.fixture
def spare(postgres):
    """Databases of PostgreSQL that are empty."""
    with postgres.fresh_database() as one, postgres.fresh_database() as two:
        yield iter((one, two)).__next__


@pytest.fixture(params=["process", "docker"])
async def site(request, database_url, spare) -> AsyncIterator[Site]:
    host = docker_host() if request.param == "docker" else ""
    async with place(request.param, host, git_allow_local=True, database_url=database_url) as there:
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


async def test_nothing_is_erased_whatever_becomes_of_the_database(site: Site):
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
    assert "of another installation" in said

    # With its own database it goes on as if nothing had been.
    async with site.started() as windlass:
        await site.runs(windlass, f"/application/{site.first}")
        assert await site.all_of_it() == before
