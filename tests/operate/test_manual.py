"""The operator's manual is true: its backup can be restored, and it names every setting as it is."""

import asyncio
import re

import pytest

from tests.commands.manual import DOCS, run_examples
from tests.operate.installations import contents, stopped
from tests.tables import rows
from windlass.config import Settings
from windlass.operate.settings import all_settings, to_text

PAGE = (DOCS / "settings.md").read_text()


@rows("setting", all_settings(), ids=lambda setting: setting.name)
def test_the_manual_describes_each_setting_correctly(setting):
    default = "" if setting.default in ("", ()) else f"`{to_text(setting.default)}`"
    secret = " A secret." if setting.secret else ""
    row = f"| `{setting.name}` | {default} | {setting.meaning}.{secret} |"
    assert row in PAGE.partition(f"**{setting.group}**")[2].partition("\n**")[0].splitlines()


def test_the_manual_names_only_existing_settings():
    table = PAGE.partition("## Settings")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(Settings.__struct_fields__)


@pytest.mark.nightly
def test_every_example_of_the_manual_works(tmp_path):
    settings = asyncio.run(stopped(tmp_path / "windlass/windlass-data", ""))
    before = asyncio.run(contents(settings))
    run_examples(DOCS / "backup.md", tmp_path)
    assert asyncio.run(contents(Settings(data_dir=str(tmp_path / "windlass/new-machine")))) == before
