"""`windlass init` names the variables that files of the folder ask for, and the command that sets them."""

from __future__ import annotations

import pytest

from windlass.cli.everyday.folder import hint_at_variables

APP = """{"env": {"MAIL": {"description": "of the admin"}, "KEY": {"generator": "secret"},
"MODE": "production", "LEVEL": {"value": "info"}, "EXTRA": {"required": false}}}"""


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ({".env": "A=1\n"}, ".env is never uploaded. Set its variables with: windlass env import .env"),
        (
            {".env.example": "# of the shop\nGREETING=\nexport KEY=x\n  PORT = 1\nGREETING=b\n"},
            ".env.example names variables: GREETING, KEY, PORT. Set each with: windlass env set 'GREETING=…'",
        ),
        ({"app.json": APP}, "app.json names variables: MAIL, KEY. Set each with: windlass env set 'MAIL=…'"),
        (
            {".env": "A=1", ".env.example": "B=\n"},
            ".env is never uploaded. Set its variables with: windlass env import .env",
        ),
        ({".env.example": "# nothing\n", "app.json": "[1"}, ""),
        ({"app.json": '{"env": ["A"]}'}, ""),
        ({"app.py": "A=1\n"}, ""),
    ],
)
def test_init_lists_the_variables_that_files_of_the_folder_use(tmp_path, files, hint):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert hint_at_variables(tmp_path) == hint


def test_init_shows_no_value_of_an_env_file(tmp_path):
    (tmp_path / ".env").write_text("KEY=s3cret-1\n")
    (tmp_path / ".env.sample").write_text("KEY=s3cret-2\n")
    assert "s3cret" not in hint_at_variables(tmp_path)
    (tmp_path / ".env").unlink()
    assert "KEY" in hint_at_variables(tmp_path)
    assert "s3cret" not in hint_at_variables(tmp_path)


def test_a_link_out_of_the_folder_is_not_read(tmp_path):
    (tmp_path / "outside").write_text("KEY=1\n")
    (tmp_path / "app").mkdir()
    (tmp_path / "app/.env.example").symlink_to(tmp_path / "outside")
    assert hint_at_variables(tmp_path / "app") == ""
