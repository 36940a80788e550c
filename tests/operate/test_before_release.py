"""What versions before 0.1.0 left is refused, with the way to bring it here; the way works.

`before_release` holds the files of a backup that the last commit before 0.1.0 has made.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import msgspec
import pytest

from tests.operate.installations import contents
from tests.world import make_world
from windlass.config import DATABASE, Settings
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.operate.audit import verify
from windlass.operate.backup import restore
from windlass.operate.doctor import diagnose
from windlass.store.migrate import BEFORE_RELEASE, FIRST_BEFORE_RELEASE, RECORD, RECORDS, Changed, migrations
from windlass.store.sqlite import connect

FILES = Path(__file__).parent / "before_release"
KEY = "ab" * 32


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for file in sorted(FILES.rglob("*.*")):
            archive.write(file, file.relative_to(FILES))
    return tmp_path / "export.zip"


async def test_a_backup_of_the_last_version_before_can_be_restored(
    exported: Path, tmp_path: Path, database_url: str
) -> None:
    settings = Settings(data_dir=str(tmp_path / "new"), database_url=database_url, key=KEY)
    await restore(settings, exported, force=False)
    found = await contents(settings)
    assert sorted(found["migration"]) == [one.record for one in migrations()]
    for table in ("resource", "event", "status"):
        lines = (FILES / f"tables/{table}.jsonl").read_text().splitlines()
        assert [row[0] for row in found[table]] == sorted(
            (msgspec.json.decode(line)[0] for line in lines), key=repr
        )
    async with make_world(database_url, folder=tmp_path / "new", key=KEY) as world:
        project = (await world.get(f"/organization/{world.org}/project"))["results"][0]
        environment = (await world.get(f"/project/{project['id']}/environment"))["results"][0]
        (web,) = (await world.get(f"/environment/{environment['id']}/application"))["results"]
        assert (project["name"], environment["name"], web["name"]) == ("shop", "production", "web")
        listed = (await world.get(f"/application/{web['id']}/environmentVariable"))["results"]
        assert "blue" in [one["value"] for one in listed]
        (password,) = (await world.get(f"/application/{web['id']}/secret"))["results"]
        row = await world.installation.ctx.store.reads.resources.get(password["id"])
        assert row is not None
        assert decrypt_hidden(world.installation.ctx, row) == {"value": "s3cret"}
        (hook,) = (await world.get(f"/organization/{world.org}/webhook"))["results"]
        assert hook["target_url"].startswith("https://hooks.example.com/")
    assert (await verify(settings)).faults == []


async def test_a_database_older_than_0_1_0_is_refused_with_migration_instructions(tmp_path: Path) -> None:
    database = connect(tmp_path / DATABASE)
    database.execute(RECORDS)
    database.execute(RECORD, (1, "0001_foundation.sql", FIRST_BEFORE_RELEASE))
    database.execute("CREATE TABLE fact (name TEXT, value BYTEA)")
    database.close()
    with pytest.raises(Changed) as refused:
        async with make_world(folder=tmp_path):
            pass
    assert str(refused.value) == BEFORE_RELEASE
    [finding] = [one for one in await diagnose(Settings(data_dir=str(tmp_path))) if one.what == "Database"]
    assert "docs/versions.md" in finding.advice


def test_the_migration_instructions_name_a_commit_and_a_backup() -> None:
    assert BEFORE_RELEASE.startswith("Install commit 4a939003 of Windlass, start it once, and make a backup")
