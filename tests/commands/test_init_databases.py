"""`windlass init` creates the databases that the code of a folder needs, and sets its variables."""

from __future__ import annotations

import pytest

CODE = "import os\nfrom flask import Flask\napp = Flask(__name__)\nurl = os.environ['DATABASE_URL']\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "app.py").write_text(CODE)
    (tmp_path / "requirements.txt").write_text("flask\npsycopg2-binary\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def variables(windlass) -> dict[str, str]:
    return {entry["key"]: entry["value"] for entry in (await windlass.done("env", "list"))["results"]}


async def databases(windlass) -> list[str]:
    listed = await windlass.done("database", "list", "--environment", "shop/production")
    return [entry["name"] for entry in listed["results"]]


async def test_init_creates_the_database_that_the_code_needs_and_sets_its_variable(windlass, folder):
    said = await windlass("init", "--name", "web", "-e", "shop/production")
    assert said.code == 0, said
    assert "Created the database main-db." in said.err
    assert "Set DATABASE_URL to the access to main-db." in said.err
    assert (await databases(windlass), await variables(windlass)) == (
        ["main-db"],
        {"DATABASE_URL": "{{MAIN_DB_URL}}"},
    )
    # A second application uses the only database of the environment, and a repeated `init` changes nothing.
    assert (await windlass("init", "--name", "api", "-e", "shop/production")).code == 0
    assert "the database" not in (await windlass("init", "--name", "api", "-e", "shop/production")).err
    assert await databases(windlass) == ["main-db"]
    assert await variables(windlass) == {"DATABASE_URL": "{{MAIN_DB_URL}}"}


async def test_init_creates_no_database_if_it_is_told_so(windlass, folder):
    assert (await windlass("init", "--no-database", "--name", "web", "-e", "shop/production")).code == 0
    assert (await databases(windlass), await variables(windlass)) == ([], {})
