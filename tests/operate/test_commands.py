"""The commands of an operator: what they say, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import apsw
import msgspec
import pytest
from click.testing import CliRunner

from tests.needs import needs_root, ordinary_user
from tests.operate.installations import contents, stopped
from tests.world import HandClock, make_world
from windlass.base.clock import DAY, SystemClock
from windlass.cli.main import main
from windlass.config import DATABASE, VARIABLE_PREFIX, Settings
from windlass.install import last_backup
from windlass.install.last_backup import BackupNote
from windlass.store.migrate import newest
from windlass.store.sqlite import connect

SECRETS = {
    "WINDLASS_ADMIN_TOKEN": "a-very-secret-admin-token-0123456789",
    "WINDLASS_KEY": "5e" * 32,
    "WINDLASS_DATABASE_URL": "postgresql://windlass:pass-word@127.0.0.1:1/windlass",
}
NAMES = Settings.__struct_fields__


def run(*words: str, **environment: str):
    """In this process, with nothing set in the environment but what is given."""
    clean: dict[str, str | None] = dict.fromkeys(
        name for name in os.environ if name.startswith(VARIABLE_PREFIX)
    )
    return CliRunner().invoke(main, words, env=clean | environment, catch_exceptions=False)


def start(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIX)}
    command = [sys.executable, "-m", "windlass", *words]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=100)


def check_plain(ended, code: int, *said: str) -> None:
    """One line, with a way out, and no trace."""
    assert re.fullmatch(r"windlass: .+\n", ended.stderr), ended.stderr
    for words in said:
        assert words in ended.stderr
    assert (ended.returncode if isinstance(ended, subprocess.CompletedProcess) else ended.exit_code) == code


# Settings


def test_config_shows_every_setting_with_its_variable_and_description():
    found = json.loads(run("config").stdout)
    assert sorted(one["name"] for one in found) == sorted(NAMES)
    assert all(one["variable"] == f"WINDLASS_{one['name'].upper()}" and one["meaning"] for one in found)
    text = run("config", "--text").stdout
    assert all(one["variable"] in text and one["name"] in text for one in found)


@pytest.mark.parametrize("form", ["--json", "--text"])
def test_config_shows_no_secret(form):
    shown = run("config", form, **SECRETS).stdout
    assert shown.count("(set)") == len(SECRETS)
    assert not any(secret in shown for secret in (*SECRETS.values(), "pass-word"))


def test_config_says_where_a_value_comes_from(tmp_path):
    file = tmp_path / "windlass.toml"
    file.write_text('rate_limit = 7\nport = 9001\ndata_dir = "from-file"\n')
    words = ("config", "--config", str(file), "--data-dir", "here")
    found = {one["name"]: one for one in json.loads(run(*words, WINDLASS_PORT="9002").stdout)}
    some = ("rate_limit", "port", "data_dir", "host")
    assert {name: (found[name]["value"], found[name]["source"]) for name in some} == {
        "rate_limit": (7, "file"),
        "port": (9002, "environment"),
        "data_dir": ("here", "flag"),
        "host": ("127.0.0.1", "default"),
    }


def test_the_example_has_every_setting_at_its_default():
    text = run("config", "--example").stdout
    assert tomllib.loads(text) == {}
    settings = tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    assert sorted(settings) == sorted(NAMES)
    assert msgspec.convert(settings, Settings) == Settings()


def test_every_setting_has_a_flag_except_secrets():
    shown = run("serve", "--help").stdout
    for one in json.loads(run("config").stdout):
        flag = "--" + one["name"].replace("_", "-")
        assert (re.search(rf"^\s+{flag}(?![\w-])", shown, re.MULTILINE) is not None) != one["secret"], flag


def test_flags_are_shown_in_the_groups_of_their_settings():
    shown = run("serve", "--help").stdout
    groups = list(dict.fromkeys(one["group"] for one in json.loads(run("config").stdout)))
    assert re.findall(r"^(\w[\w ]+):$", shown, re.MULTILINE)[: len(groups)] == groups


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (("--rate-limit", "0"), {}, ("--rate-limit", "Requests per hour")),
        ((), {"WINDLASS_SESSION_TTL": "long"}, ("WINDLASS_SESSION_TTL", "in seconds")),
        ((), {"WINDLASS_ADMIN_TOKEN": "short"}, ("WINDLASS_ADMIN_TOKEN", "32 characters")),
        (("--config", "/nowhere.toml"), {}, ("/nowhere.toml", "No such file")),
        ((), {"WINDLASS_KEY": "beef"}, ("WINDLASS_KEY", "64 hexadecimal digits")),
        ((), {"WINDLASS_DATABASE_URL": "nonsense"}, ("database_url", "postgresql://")),
    ],
)
def test_an_invalid_setting_ends_serve_with_exit_code_2_and_an_explanation(
    words, environment, said, tmp_path
):
    # A process of its own only for what is judged when the server has begun to listen.
    begin = start if environment.keys() & {"WINDLASS_KEY", "WINDLASS_DATABASE_URL"} else run
    ended = begin("serve", "--port", "0", "--data-dir", str(tmp_path), *words, **environment)
    check_plain(ended, 2, *said)


def test_an_invalid_configuration_file_is_reported(tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "unknown.toml").write_text("prot = 9000\n")
    check_plain(run("config", "--config", str(tmp_path / "bad.toml")), 2, "bad.toml", "TOML")
    check_plain(run("config", "--config", str(tmp_path / "unknown.toml")), 2, "prot")


# What can be in the way of a start


def test_a_port_in_use_is_reported_with_a_remedy(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = start("serve", "--port", port, "--data-dir", str(tmp_path))
    check_plain(ended, 1, port, "--port")


@pytest.mark.slow
def test_a_gateway_port_in_use_is_reported_with_a_remedy(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = start("serve", "--port", "0", "--data-dir", str(tmp_path), WINDLASS_GATEWAY_PORT=port)
    check_plain(ended, 1, port, "gateway_port")


def test_an_address_of_another_machine_is_reported_with_a_remedy(tmp_path):
    check_plain(start("serve", "--host", "192.0.2.1", "--data-dir", str(tmp_path)), 1, "192.0.2.1", "--host")


def test_a_data_directory_that_is_a_file_is_reported_with_a_remedy(tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    check_plain(start("serve", "--port", "0", "--data-dir", str(file)), 1, str(file), "--data-dir")


def test_a_start_with_another_key_than_the_installations_is_refused_with_a_remedy(tmp_path):
    asyncio.run(stopped(tmp_path, ""))
    (tmp_path / "key").write_text("5e" * 32)
    check_plain(start("serve", "--port", "0", "--data-dir", str(tmp_path)), 1, "key", "WINDLASS_KEY")


def later_version(folder: Path) -> None:
    connection = connect(folder / DATABASE)
    connection.execute("INSERT INTO migration (number, name, checksum) VALUES (9999, 'later', '')")
    connection.close()


def test_serve_refuses_a_database_of_a_later_version_with_advice(tmp_path):
    asyncio.run(stopped(tmp_path, ""))
    later_version(tmp_path)
    check_plain(
        start("serve", "--port", "0", "--data-dir", str(tmp_path)), 1, "later version", "empty database"
    )


def test_a_backup_from_before_an_upgrade_is_restored_once_the_later_database_is_moved_away(tmp_path):
    data, file = tmp_path / "data", str(tmp_path / "before.zip")
    asyncio.run(stopped(data, ""))
    assert run("backup", file, "--data-dir", str(data)).exit_code == 0
    later_version(data)
    refused = run("restore", file, "--force", "--data-dir", str(data))
    check_plain(refused, 1, "later version", "into an empty database")
    for path in data.glob(f"{DATABASE}*"):
        path.rename(tmp_path / path.name)
    restored = run("restore", file, "--data-dir", str(data))
    assert restored.exit_code == 0, restored.stderr
    assert run("backup", file, "--data-dir", str(data)).exit_code == 0


def test_a_failed_backup_prints_its_reason_without_a_traceback_and_leaves_no_file(tmp_path):
    data = tmp_path / "data"
    asyncio.run(stopped(data, ""))
    later_version(data)
    check_plain(run("backup", str(tmp_path / "all.zip"), "--data-dir", str(data)), 1, "later version")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_serve_refuses_a_file_that_is_no_database_with_advice_to_restore(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    check_plain(start("serve", "--port", "0", "--data-dir", str(tmp_path)), 1, "restore")


# doctor


FREE = {"WINDLASS_PORT": "0", "WINDLASS_GATEWAY_PORT": "0"}
"""Programs on the usual ports of the machine that runs the tests do not matter here."""


def findings(*words: str, **environment: str) -> dict[str, tuple[str, str]]:
    ended = run("doctor", "--json", *words, **(FREE | environment))
    found = json.loads(ended.stdout)
    assert ended.exit_code == any(one["level"] == "fail" for one in found)
    assert all(one["advice"] for one in found if one["level"] != "ok")
    return {one["what"]: (one["level"], one["found"]) for one in found}


@pytest.mark.parametrize("engine", ["auto", "process"])
def test_doctor_before_the_first_start_reports_no_failure_and_creates_no_folder(tmp_path, engine):
    folder = tmp_path / "data"
    found = findings("--data-dir", str(folder), WINDLASS_ENGINE=engine)
    assert {level for level, _ in found.values()} <= {"ok", "warn"}
    assert apsw.sqlite_lib_version() in found["SQLite"][1]
    assert not folder.exists()


def test_doctor_checks_database_secrets_key_and_clock_of_an_installation(tmp_path):
    asyncio.run(stopped(tmp_path, ""))
    found = findings("--data-dir", str(tmp_path))
    assert found["Database"] == (
        "ok",
        f"SQLite {apsw.sqlite_lib_version()} answers, with schema {newest()}, which is up to date",
    )
    assert found["Secrets"][0] == found["Key"][0] == found["Clock"][0] == "ok"


def test_the_warning_of_a_clock_that_was_ahead_ends_with_the_next_change(tmp_path):
    async def change(ahead: int) -> None:
        clock = HandClock(SystemClock().now() + ahead)
        async with make_world("", folder=tmp_path, clock=clock, key=SECRETS["WINDLASS_KEY"]) as world:
            await world.project(name=f"ahead {ahead}")

    def level() -> str:
        words = ("--data-dir", str(tmp_path))
        return findings(*words, WINDLASS_KEY=SECRETS["WINDLASS_KEY"])["Clock"][0]

    asyncio.run(change(365 * DAY))
    assert level() == "warn"
    asyncio.run(change(0))
    assert level() == "ok"


def test_doctor_checks_a_postgresql_database(tmp_path, postgres_url):
    asyncio.run(stopped(tmp_path, postgres_url))
    found = findings("--data-dir", str(tmp_path), WINDLASS_DATABASE_URL=postgres_url)
    assert found["Database"][0] == "ok"
    assert found["Database"][1].startswith("PostgreSQL ")
    assert found["Secrets"][0] == "ok"


def test_doctor_sees_a_key_that_others_may_read(tmp_path):
    asyncio.run(stopped(tmp_path, ""))
    (tmp_path / "key").chmod(0o644)
    assert findings("--data-dir", str(tmp_path))["Key"][0] == "warn"


@pytest.mark.parametrize("happened", ["lost", "replaced"])
def test_doctor_reports_a_lost_or_replaced_key_file(tmp_path, happened):
    asyncio.run(stopped(tmp_path, ""))
    (tmp_path / "key").unlink() if happened == "lost" else (tmp_path / "key").write_text("5e" * 32)
    assert findings("--data-dir", str(tmp_path))["Secrets"][0] == "fail"


def test_doctor_reports_an_unreachable_database_without_its_password(tmp_path):
    found = findings("--data-dir", str(tmp_path), **SECRETS)
    assert found["Database"][0] == "fail"
    assert "pass-word" not in str(found)


def test_doctor_warns_of_a_misspelled_environment_variable(tmp_path):
    found = findings("--data-dir", str(tmp_path), WINDLASS_PROT="9000")
    assert found["Settings"][0] == "warn"
    assert "WINDLASS_PROT" in found["Settings"][1]


def test_doctor_sees_a_folder_in_which_nothing_can_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert findings("--data-dir", str(tmp_path / "file" / "data"))["Data directory"][0] == "fail"


@pytest.mark.slow
def test_doctor_without_access_to_the_data_directory_names_its_owner_and_checks_the_rest():
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        folder = Path(top, "data")
        asyncio.run(stopped(folder, ""))
        folder.chmod(0)
        before = ordinary_user() if not os.geteuid() else ()
        command = [*before, sys.executable, "-m", "windlass", "doctor", "--json", "--data-dir", str(folder)]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIX)
        }
        ended = subprocess.run(command, env=environment | FREE, capture_output=True, text=True, timeout=60)
        folder.chmod(0o700)
    found = {one["what"]: one for one in json.loads(ended.stdout)}
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "cannot be read by this user" in found["Data directory"]["found"]
    assert found["Data directory"]["advice"].startswith("run `windlass doctor` as its owner, ")
    assert {"Python", "Disk", "API", "Engine", "git"} <= found.keys()
    assert not {"Key", "Database", "Installation"} & found.keys()


@needs_root
@pytest.mark.parametrize(
    "words",
    [
        ("restore", "backup.zip"),
        ("stop", "--all", "--yes"),
        ("set-aside", "restore", "x"),
        ("set-aside", "purge", "x", "--yes"),
    ],
)
def test_a_command_that_writes_is_refused_for_root_in_a_data_directory_of_another_user(words, tmp_path):
    os.chown(tmp_path, 65_534, 65_534)
    named = ("--data-dir", str(tmp_path))
    check_plain(run(*words, *named), 1, "sudo -u nobody windlass")
    if words[0] != "stop":  # which would change the logging of this process
        os.chown(tmp_path, 0, 0)
        assert "sudo" not in run(*words, *named).stderr


@needs_root
def test_the_server_of_another_user_can_read_the_time_of_a_backup_by_root(tmp_path):
    settings = Settings(data_dir=str(tmp_path))
    os.chown(tmp_path, 65_534, 65_534)
    last_backup.write(settings, BackupNote(at=1))
    assert (tmp_path / "last-backup").stat().st_uid == 65_534


def test_doctor_prints_readable_lines_with_text(tmp_path):
    ended = run("doctor", "--text", "--data-dir", str(tmp_path))
    assert re.match(r"ok    Python +3\.", ended.stdout)


# backup and restore


def test_backup_and_restore_print_that_the_key_must_be_kept_and_how_to_start(tmp_path):
    settings = asyncio.run(stopped(tmp_path / "old", ""))
    file = tmp_path / "all.zip"
    made = run("backup", str(file), "--data-dir", settings.data_dir)
    assert (made.exit_code, made.stdout) == (0, "")
    assert f"Keep {tmp_path}/old/key in another place" in made.stderr
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "key").write_bytes((tmp_path / "old" / "key").read_bytes())
    done = run("restore", str(file), "--data-dir", str(tmp_path / "new"))
    assert done.exit_code == 0
    assert "windlass serve" in done.stderr
    assert asyncio.run(contents(settings)) == asyncio.run(contents(Settings(data_dir=str(tmp_path / "new"))))


def test_a_backup_says_that_uploaded_folders_are_to_be_copied(tmp_path):
    settings = asyncio.run(stopped(tmp_path / "old", ""))
    folder, file = tmp_path / "old" / "uploads", str(tmp_path / "all.zip")
    assert f"Copy the folder {folder}" not in run("backup", file, "--data-dir", settings.data_dir).stderr
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "upload").touch()
    assert f"Copy the folder {folder}" in run("backup", file, "--data-dir", settings.data_dir).stderr


def test_a_refused_restore_prints_one_line(tmp_path):
    settings = asyncio.run(stopped(tmp_path / "old", ""))
    file = tmp_path / "all.zip"
    run("backup", str(file), "--data-dir", settings.data_dir)
    check_plain(run("restore", str(file), "--data-dir", settings.data_dir), 1, "--force")
    check_plain(run("restore", str(file), "--data-dir", str(tmp_path / "new")), 1, "WINDLASS_KEY")
    file.write_bytes(file.read_bytes()[:-50])
    check_plain(run("restore", str(file), "--data-dir", settings.data_dir), 1, "damaged")


def test_a_backup_into_a_missing_folder_prints_one_line(tmp_path):
    settings = asyncio.run(stopped(tmp_path / "old", ""))
    ended = run("backup", str(tmp_path / "no" / "all.zip"), "--data-dir", settings.data_dir)
    check_plain(ended, 1, "no such file or folder")


# The start


def test_a_server_start_does_not_import_optional_modules(tmp_path):
    """Each of these costs tens of milliseconds or many megabytes."""
    program = (
        "import sys\n"
        "sys.argv = ['windlass', 'serve', '--port', '0', '--data-dir', sys.argv[1]]\n"
        "import uvicorn\n"
        "async def at_once(*_, **__): print('LOADED', *sys.modules)\n"
        "uvicorn.Server.serve = at_once\n"
        "from windlass.cli.main import main\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"WINDLASS_ENGINE": "process", "WINDLASS_GATEWAY_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    loaded = set(ended.stdout.partition("LOADED ")[2].split())
    assert {"uvicorn", "windlass.api.app"} <= loaded
    assert not {"rich", "asyncpg", "aiohttp", "jwt", "prometheus_client", "windlass.cli.commands"} & loaded


def test_help_lists_all_commands():
    shown = run("--help").stdout
    for name in ("serve", "config", "doctor", "backup", "restore", "project", "api", "token"):
        assert re.search(rf"^  {name} ", shown, re.MULTILINE)
