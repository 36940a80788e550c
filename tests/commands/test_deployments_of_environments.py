"""`windlass status` and `history` show an environment by stage, and its deployments as wholes."""

from __future__ import annotations

import pytest

from tests.commands.test_stories import shop

WHERE = ("-e", "shop/production")


@pytest.fixture
async def deployed(windlass):
    """A command line, beside an environment whose database failed and whose application waited for it."""
    world = windlass.world
    app = await shop(windlass)
    environment = (await world.get(f"/application/{app}"))["environment"]["id"]
    await world.database(environment, name="main-db")
    world.engine.broken = "there is no room"
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    return windlass


async def test_status_shows_the_services_by_stage_and_the_last_deployment(deployed):
    said = await deployed("status", *WHERE, "--text")
    lines = said.out.splitlines()
    assert (said.code, lines[0]) == (0, "shop/production: ERROR"), said
    shown = [line for line in lines if line.startswith(("1.", "2.", "3."))]
    assert [line.partition(" (")[0] for line in shown] == [
        "1. default-databases: ERROR",
        "2. default-jobs: SKIPPED",
        "3. default-applications: SKIPPED",
    ]
    assert lines[lines.index(shown[2]) + 1].split() == ["web", "ERROR"]
    assert "Fix the database main-db, which comes first" in said.out
    assert lines[-1].startswith("Last deployment: ERROR, DEPLOY by operator")


async def test_history_lists_deployments_and_shows_one_by_stage(deployed):
    listed = (await deployed.done("history", *WHERE))["results"]
    id = listed[0]["identifier"]["execution_id"]
    said = await deployed("history", *WHERE, "--text")
    titles, row = said.out.splitlines()
    assert titles.split() == ["STATUS", "ACTION", "STAGES", "SERVICES", "BY", "CREATED", "TOOK", "ID"]
    assert row.split()[:5] == ["ERROR", "DEPLOY", "0/2", "2", "operator"]
    assert row.split()[-1] == id[:8]
    one = await deployed("history", id[:8], *WHERE, "--text")
    assert "3. default-applications: SKIPPED" in one.out.splitlines()
    assert await deployed.done("history", id, *WHERE) == listed[0]
    unknown = await deployed("history", "7", *WHERE) if not id.startswith("7") else None
    assert unknown is None or (unknown.code, "windlass history" in unknown.err) == (2, True)


async def test_the_commands_of_an_environment_need_one(windlass, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = await windlass("status")
    assert (said.code, "choose an environment with --environment" in said.err) == (2, True)
