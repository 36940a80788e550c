"""A restore that cannot be right is refused before anything is touched."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import msgspec
import pytest

from tests.marks import nightly
from tests.operate.installations import again, contents, elsewhere, settings_of, stopped
from windlass.base.isolation.users import Users, range_of
from windlass.config import Settings
from windlass.engines.findings import Level
from windlass.install.key import WrongKey, load_encryption
from windlass.operate.archive import ARCHIVE_FORMAT, ArchiveWriter, BadArchive, Manifest
from windlass.operate.backup import backup, restore
from windlass.operate.doctor import diagnose
from windlass.store.sqlite import InUse
from windlass.terminal.command_errors import CommandRefused


async def test_a_restore_without_the_key_is_refused_and_says_where_it_belongs(furnished, tmp_path):
    await backup(settings_of(furnished), tmp_path / "all.zip")
    other = elsewhere(settings_of(furnished), tmp_path / "new", with_key=False)
    with pytest.raises(WrongKey, match=rf"put the file `key` .* at {tmp_path}/new/key, or set WINDLASS_KEY"):
        await restore(other, tmp_path / "all.zip", force=False)
    assert list((tmp_path / "new").iterdir()) == []


async def test_a_restore_with_another_key_is_refused(furnished, tmp_path):
    await backup(settings_of(furnished), tmp_path / "all.zip")
    other = msgspec.structs.replace(elsewhere(settings_of(furnished), tmp_path / "new"), key="ab" * 32)
    with pytest.raises(WrongKey, match="sealed with the key"):
        await restore(other, tmp_path / "all.zip", force=False)


async def test_a_restore_over_an_existing_installation_requires_force_and_replaces_it_completely(
    tmp_path, database_url
):
    settings = await stopped(tmp_path / "data", database_url)
    await backup(settings, tmp_path / "all.zip")
    before = await contents(settings)
    async with again(settings) as world:
        project = (await world.get(f"/organization/{world.org}/project"))["results"][0]["id"]
        await world.delete(f"/project/{project}")
        await world.project(name="made since")
    (Path(settings.data_dir) / "logs" / "since.jsonl").write_bytes(b"{}\n")
    with pytest.raises(CommandRefused, match="--force"):
        await restore(settings, tmp_path / "all.zip", force=False)
    assert await contents(settings) != before
    await restore(settings, tmp_path / "all.zip", force=True)
    assert await contents(settings) == before


@pytest.mark.parametrize(
    ("restored", "expected"), [(b"of the backup", b"of the backup"), *nightly((None, b"former"))], ids=str
)
async def test_a_start_finishes_a_killed_restore_including_log_lines(tmp_path, restored, expected):
    settings = await stopped(tmp_path, "")
    (lines,) = [path for path in (tmp_path / "logs").rglob("*.jsonl") if "build" not in str(path)]
    name = lines.relative_to(tmp_path / "logs")
    (tmp_path / "logs").rename(tmp_path / "logs.replaced")
    (tmp_path / "logs.replaced" / name).write_bytes(b"former")
    if restored is not None:
        (tmp_path / "logs.restored" / name).parent.mkdir(parents=True)
        (tmp_path / "logs.restored" / name).write_bytes(restored)
    assert [one.level for one in await diagnose(settings) if one.what == "Logs"] == [Level.WARN]
    async with again(settings):
        assert lines.read_bytes() == expected
    assert sorted(path.name for path in tmp_path.glob("logs*")) == ["logs"]
    assert [one for one in await diagnose(settings) if one.what == "Logs"] == []


async def test_a_restore_keeps_the_user_ids_of_services_and_reassigns_none(tmp_path):
    settings = await stopped(tmp_path / "data", "")
    numbers = range_of(settings.isolation_users)
    before = Users(tmp_path / "data", numbers)
    given = {name: before.of(name) for name in ("first", "second")}
    await backup(settings, tmp_path / "all.zip")
    assert before.of("made since") not in given.values()

    new = elsewhere(settings, tmp_path / "new")
    await restore(new, tmp_path / "all.zip", force=False)
    there = Users(tmp_path / "new", numbers)
    assert {name: there.of(name) for name in given} == given
    assert there.of("third") not in given.values()

    await restore(settings, tmp_path / "all.zip", force=True)
    again = Users(tmp_path / "data", numbers).all()
    assert again.keys() >= {"first", "second", "made since"}
    assert len(set(again.values())) == len(again)


async def test_a_restore_beside_a_running_server_is_refused(furnished, tmp_path):
    settings = settings_of(furnished)
    await backup(settings, tmp_path / "all.zip")
    before = await contents(settings)
    with pytest.raises(InUse, match="stop"):
        await restore(settings, tmp_path / "all.zip", force=True)
    assert await contents(settings) == before


def spoil_the_middle(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        about = archive.getinfo("tables/resource.jsonl")
    data = bytearray(file.read_bytes())
    data[about.header_offset + 200] ^= 0x10
    file.write_bytes(data)


def cut_the_end(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def be_something_else(file: Path) -> None:
    file.write_bytes(b"PK is how a zip begins, and this is none")


def lose_a_table(file: Path) -> None:
    rewrite(file, lambda name, content: None if name == "tables/resource.jsonl" else content)


def give_everybody_admin(file: Path) -> None:
    """Rewrites an archive as an attacker can who may write the file, including its checksums, but does not
    have the key."""
    rewrite(file, lambda name, content: content.replace(b"Deploy", b"Admin"), mend=True)


def forge_the_manifest(file: Path) -> None:
    rewrite(
        file,
        lambda name, content: (
            content.replace(b'"windlass": "', b'"windlass": "9') if "manifest" in name else content
        ),
    )


def rewrite(file: Path, change, mend: bool = False) -> None:
    with zipfile.ZipFile(file) as archive:
        old = {name: archive.read(name) for name in archive.namelist()}
    new = {name: found for name, content in old.items() if (found := change(name, content)) is not None}
    if mend:
        for name, content in old.items():
            was, now = (hashlib.sha256(one).hexdigest().encode() for one in (content, new[name]))
            new["manifest.json"] = new["manifest.json"].replace(was, now)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in new.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_the_middle,
        cut_the_end,
        be_something_else,
        lose_a_table,
        give_everybody_admin,
        forge_the_manifest,
    ],
)
async def test_a_corrupt_backup_is_refused_and_changes_nothing(database_url, tmp_path, spoil):
    settings, file = await stopped(tmp_path / "data", database_url), tmp_path / "all.zip"
    await backup(settings, file)
    async with again(settings) as world:
        await world.project(name="made since")
    before = await contents(settings)
    whole = file.read_bytes()
    spoil(file)
    with pytest.raises(BadArchive):
        await restore(settings, file, force=True)
    assert await contents(settings) == before
    file.write_bytes(whole)  # the negative control: only what was spoiled stood in the way
    await restore(settings, file, force=True)


async def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(BadArchive, match="there is no file"):
        await restore(Settings(data_dir=str(tmp_path)), tmp_path / "none.zip", force=False)


async def test_a_backup_of_a_later_windlass_is_refused_with_a_remedy(furnished, tmp_path):
    settings = settings_of(furnished)
    later = tmp_path / "later.zip"
    with later.open("wb") as file:
        writer = ArchiveWriter(file, furnished.clock.now())
        manifest = Manifest(
            format=ARCHIVE_FORMAT,
            windlass="99.0",
            created_at="2027-01-31T09:05:00.007Z",
            database="SQLite",
            key_fingerprint=load_encryption(settings).fingerprint,
            migrations={9999: "unknown"},
            counts={},
            tables=[],
            logs=[],
        )
        writer.finish(manifest, load_encryption(settings))
    with pytest.raises(CommandRefused, match=r"99\.0.*install that version"):
        await restore(settings, later, force=True)


async def test_backing_up_an_installation_that_was_never_started_is_refused(tmp_path):
    settings = Settings(data_dir=str(tmp_path), key="ab" * 32)
    with pytest.raises(CommandRefused, match="windlass serve"):
        await backup(settings, tmp_path / "all.zip")
