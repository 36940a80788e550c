"""`windlass settings` changes single advanced settings, and leaves all others as they are."""

from __future__ import annotations

import pytest

from tests.commands.test_stories import shop
from windlass.cli.linked_folder import FolderLink, write_link

GRACE = "deployment.termination_grace_period_seconds"
HEADERS = "network.ingress.extra_headers"


@pytest.fixture
async def linked(windlass, tmp_path, monkeypatch):
    await shop(windlass)
    monkeypatch.chdir(tmp_path)
    write_link(tmp_path, FolderLink(project="shop", environment="production", application="web"))
    return windlass


async def test_settings_are_set_and_unset_one_by_one(linked):
    await linked.done("settings", "set", f"{GRACE}=30", f'{HEADERS}={{"X-A": "1"}}')
    assert (await linked.done("settings", "set", f"{GRACE}=40"))[GRACE] == 40
    values = await linked.done("settings")
    assert (values[GRACE], values[HEADERS]) == (40, '{"X-A": "1"}')
    await linked.done("settings", "unset", GRACE)
    values = await linked.done("settings", "list")
    assert (values[GRACE], values[HEADERS]) == (10, '{"X-A": "1"}')


async def test_an_unknown_key_is_refused_with_the_one_that_is_meant(linked):
    said = await linked("settings", "set", "termination_grace_period_seconds=30")
    assert said.code != 0
    assert f"did you mean {GRACE}?" in said.err


async def test_the_list_shows_what_acts_and_says_what_is_a_default(linked):
    await linked.done("settings", "set", f"{GRACE}=30")
    said = await linked("settings", "--text")
    assert f"{GRACE} = 30\n" in said.out
    assert 'deployment.update_strategy.type = "RollingUpdate"  (default)\n' in said.out
    assert "service_account_name" not in said.out
