"""A backup is of one moment, complete and private; its restore is equal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.operate.installations import apart, contents, elsewhere, furnish, settings_of, stopped
from tests.world import HandClock, make_world
from windlass.base.filelock import try_lock
from windlass.config import DATABASE, Settings
from windlass.install.key import WrongKey, load_encryption
from windlass.operate.backup import backup, restore
from windlass.store.migrate import migrations
from windlass.store.sqlite import connect, migrate
from windlass.store.sqlite_archive import SqliteArchive


async def test_a_restore_reproduces_every_row_and_log_line(furnished, tmp_path, other_database):
    settings, file = settings_of(furnished), tmp_path / "all.zip"
    made = await backup(settings, file)
    other = elsewhere(settings, tmp_path / "new", other_database)
    assert await restore(other, file, force=False) == made
    before = await contents(settings)
    assert await contents(other) == before
    assert made.counts == {name: len(rows) for name, rows in before.items() if isinstance(rows, list)}
    assert len(made.logs) == len([value for value in before.values() if isinstance(value, bytes)]) > 0


async def test_a_restored_database_has_every_index_and_a_wal_once_it_is_used(furnished, tmp_path):
    settings, file = settings_of(furnished), tmp_path / "all.zip"
    await backup(settings, file)
    other = elsewhere(settings, tmp_path / "new")
    await restore(other, file, force=False)
    fresh = connect(tmp_path / "fresh.db")
    migrate(fresh, migrations())
    restored = connect(Path(other.data_dir) / DATABASE)
    statement = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY name"
    assert restored.execute(statement).fetchall() == fresh.execute(statement).fetchall() != []
    assert restored.pragma("journal_mode") == "wal"
    restored.close()
    fresh.close()


async def test_a_restore_makes_indexes_after_the_rows(furnished, tmp_path, monkeypatch):
    settings, file = settings_of(furnished), tmp_path / "all.zip"
    await backup(settings, file)
    fill, counts = SqliteArchive.fill, set()

    async def count_indexes(line, table, rows):
        counts.add(await line.one("SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql <> ''"))
        await fill(line, table, rows)

    monkeypatch.setattr(SqliteArchive, "fill", count_indexes)
    await restore(elsewhere(settings, tmp_path / "new"), file, force=False)
    assert counts == {(0,)}


async def test_a_restored_installation_starts_with_the_same_data_and_continues_its_work(furnished, tmp_path):
    file, clock = tmp_path / "all.zip", HandClock()
    project = (await furnished.get(f"/organization/{furnished.org}/project"))["results"][0]
    token = await furnished.new_token("Read")
    settings = settings_of(furnished)
    await backup(settings, file)
    other = elsewhere(settings, tmp_path / "new")
    await restore(other, file, force=False)
    async with make_world(folder=Path(other.data_dir), clock=clock) as there:
        assert there.org == furnished.org
        assert (await there.get(f"/project/{project['id']}", token=token)).json == project
        hook = (await there.get(f"/organization/{there.org}/webhook"))["results"][0]
        assert hook["target_secret_set"]
        # Its secret still opens: an edit keeps what it does not name.
        assert (
            await there.patch(f"/organization/{there.org}/webhook/{hook['id']}", {"enabled": False})
        ).status == 200
        assert (await there.post(f"/organization/{there.org}/project", {"name": "more"})).status == 200


async def test_a_restore_clears_the_place_owners_of_the_former_server(furnished, tmp_path):
    store, settings = furnished.installation.ctx.store, settings_of(furnished)
    await store.write(lambda tx: tx.owners.renew("local", "the former server", 15_000))
    await backup(settings, tmp_path / "all.zip")
    other = elsewhere(settings, tmp_path / "new")
    await restore(other, tmp_path / "all.zip", force=False)
    async with make_world(folder=Path(other.data_dir), clock=HandClock()) as there:
        assert await there.installation.ctx.store.reads.owners.get("local") is None
    assert await store.reads.owners.get("local") is not None


async def test_backups_move_an_installation_between_sqlite_and_postgresql(postgres_url, tmp_path):
    async with make_world() as world:
        await furnish(world)
        small = settings_of(world)
        await backup(small, tmp_path / "1.zip")
        before = await contents(small)
        large = elsewhere(small, tmp_path / "large", postgres_url)
        await restore(large, tmp_path / "1.zip", force=False)
        await backup(large, tmp_path / "2.zip")
        back = elsewhere(small, tmp_path / "back")
        await restore(back, tmp_path / "2.zip", force=False)
        assert await contents(back) == before


async def test_a_backup_is_a_snapshot_while_others_write(world, tmp_path):
    file = tmp_path / "all.zip"
    for _ in range(100):
        await world.project()
    stop = asyncio.Event()

    async def write() -> None:
        while not stop.is_set():
            project = await world.project()
            await world.environment(project)

    writers = [asyncio.create_task(write()) for _ in range(3)]
    await asyncio.sleep(0)
    made = await apart(backup(settings_of(world), file))
    stop.set()
    await asyncio.gather(*writers)
    assert made.counts["resource"] < (await contents_count(settings_of(world)))
    other = elsewhere(settings_of(world), tmp_path / "new")
    await restore(other, file, force=False)
    check_whole(await contents(other))


async def contents_count(settings: Settings) -> int:
    return len((await contents(settings))["resource"])


def check_whole(found) -> None:
    """Rows that belong together were written in one transaction: of a single moment, all are there."""
    live: dict[tuple[str, str], int] = {}
    projects = {row[0] for row in found["resource"] if row[1] == "project"}
    for _, family, _, parent, *_ in found["resource"]:
        live[parent, family] = live.get((parent, family), 0) + 1
        assert family != "environment" or parent in projects
    assert live == {(parent, family): n for parent, family, _, n, *_ in found["tally"] if n}
    events = dict(found["counter"])["event"]
    assert events == max((row[0] for row in found["event"]), default=0) == len(found["event"])


async def test_a_backup_contains_neither_the_key_nor_plain_text_secrets(furnished, tmp_path):
    settings, file = settings_of(furnished), tmp_path / "all.zip"
    await backup(settings, file)
    key = (Path(settings.data_dir) / "key").read_text().strip().encode()
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            assert not any(
                secret in content for secret in (key, bytes.fromhex(key.decode()), b"s3cret", b"sealed 1")
            )


async def test_a_backup_file_is_private_and_no_temporary_file_remains(furnished, tmp_path):
    file = tmp_path / "all.zip"
    await backup(settings_of(furnished), file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["all.zip"]


async def test_a_backup_removes_what_killed_backups_have_left_in_its_folder(furnished, tmp_path):
    names = (".1.zip.0123abcd.partial", ".2.zip.0123abcd.partial", ".3.txt.0123abcd.partial")
    killed, under_way, other = (tmp_path / name for name in names)
    for file, content in ((killed, b"PK"), (under_way, b"PK"), (other, b"notes")):
        file.write_bytes(content)
    with under_way.open("rb") as writing:
        assert try_lock(writing.fileno())
        await backup(settings_of(furnished), tmp_path / "4.zip")
    assert [file.exists() for file in (killed, under_way, other)] == [False, True, True]


async def test_a_failed_backup_leaves_the_existing_file_unchanged(furnished, tmp_path):
    settings, file = settings_of(furnished), tmp_path / "all.zip"
    file.write_bytes(b"the one before")
    (Path(settings.data_dir) / "key").rename(tmp_path / "key")
    with pytest.raises(WrongKey):
        await backup(settings, file)
    assert file.read_bytes() == b"the one before"
    assert {path.name for path in tmp_path.iterdir()} == {"all.zip", "key"}


@pytest.mark.nightly
async def test_a_backup_and_a_restore_of_any_size_fit_into_memory(tmp_path):
    """More than 75 MB of rows. The code takes 46 MB: a process that held the rows even once needs 120."""
    settings, file = await stopped(tmp_path / "data", ""), tmp_path / "all.zip"
    connection = connect(tmp_path / "data" / DATABASE)
    rows = ((f"large {number}", b"x" * 800_000) for number in range(96))
    connection.executemany("INSERT INTO fact (name, value) VALUES (?, ?)", rows)
    connection.close()
    assert peak("backup", str(file), "--data-dir", settings.data_dir) < 105
    assert peak("restore", str(file), "--data-dir", settings.data_dir, "--force") < 105


def peak(*words: str) -> float:
    """Megabytes that a command needed at most."""
    program = (
        "import sys\nfrom windlass.cli.main import main\nmain(standalone_mode=False)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    return int(ended.stdout) / 1000


# Time goes on


@pytest.mark.parametrize("level", [one.number for one in migrations()])
async def test_a_backup_of_every_earlier_form_can_be_restored(level, tmp_path, database_url):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    settings = Settings(data_dir=str(old), key="ab" * 32)
    make_at(old, level, load_encryption(settings).fingerprint)
    await backup(settings, tmp_path / "all.zip")
    other = Settings(data_dir=str(new), database_url=database_url, key="ab" * 32)
    await restore(other, tmp_path / "all.zip", force=False)
    found = await contents(other)
    assert sorted(row[0] for row in found["migration"]) == [one.number for one in migrations()]
    assert ("remembered", b"this") in found["fact"]


def make_at(folder: Path, level: int, fingerprint: str) -> None:
    """An installation as it was after that many migrations."""
    connection = connect(folder / DATABASE)
    migrate(connection, [one for one in migrations() if one.number <= level])
    for fact in (("key_fingerprint", fingerprint.encode()), ("remembered", b"this")):
        connection.execute("INSERT INTO fact (name, value) VALUES ($1, $2)", fact)
    connection.close()


async def test_binary_values_survive_backup_and_restore(world, tmp_path):
    settings = settings_of(world)
    awkward = [bytes(range(256)), b"\x00", b"", b'{"base64": "no"}', "\ufeffé".encode("utf-16")]

    async def keep(tx) -> None:
        for number, value in enumerate(awkward):
            await tx.facts.set(f"awkward {number}", value)

    await world.installation.ctx.store.write(keep)
    await backup(settings, tmp_path / "all.zip")
    other = elsewhere(settings, tmp_path / "new")
    await restore(other, tmp_path / "all.zip", force=False)
    assert await contents(other) == await contents(settings)


async def test_restored_files_in_an_open_folder_are_readable_by_their_owner_only(furnished, tmp_path):
    settings, file = settings_of(furnished), tmp_path / "all.zip"
    await backup(settings, file)
    other = elsewhere(settings, tmp_path / "new")
    Path(other.data_dir).chmod(0o755)
    await restore(other, file, force=False)
    assert [path.name for path in Path(other.data_dir).iterdir() if path.stat().st_mode & 0o077] == []
