"""Secrets and texts of several lines are read from files, so that `ps` does not show them."""

from __future__ import annotations

import pytest

from tests.commands.test_stories import shop
from tests.running.clusters import KEY, PEM, TLS
from windlass.cli.derived_commands import commands_of
from windlass.cli.fields import Field
from windlass.cli.option_files import MAX_VALUE_BYTES
from windlass.cli.options import options_of
from windlass.families import registry


@pytest.fixture
async def project(windlass):
    await shop(windlass)
    return windlass


async def value_of(windlass, key: str) -> str:
    """A plain variable's value, which is answered."""
    words = ("environment-variable", "list", "--project", "shop")
    found = {one["key"]: one["value"] for one in (await windlass.done(*words))["results"]}
    return str(found[key])


async def create(windlass, value: str, key: str = "KEY", **options):
    words = ("environment-variable", "create", "--project", "shop", "--key", key, "--value", value)
    return await windlass(*words, **options)


async def test_the_text_of_a_file_is_sent_without_the_end_of_its_last_line(project, tmp_path):
    (tmp_path / "text").write_text("one\ntwo\n\n")
    assert (await create(project, f"@{tmp_path / 'text'}")).code == 0
    assert await value_of(project, "KEY") == "one\ntwo\n"


async def test_a_dash_as_a_value_reads_standard_input(project):
    assert (await create(project, "-", stdin="typed\n")).code == 0
    assert await value_of(project, "KEY") == "typed"


async def test_a_doubled_at_sign_escapes_a_value_that_begins_with_one(project):
    assert (await create(project, "@@alice")).code == 0
    assert await value_of(project, "KEY") == "@alice"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "check the name of the file: there is no file"),
        ("folder", "is a folder"),
        (b"\xff\xfe", "is not UTF-8 at byte 0"),
        (b"x" * (MAX_VALUE_BYTES + 1), "choose a smaller file"),
    ],
    ids=["missing", "a folder", "not text", "too large"],
)
async def test_an_unreadable_value_file_is_refused_with_the_option_and_the_path(
    project, tmp_path, content, words
):
    name = tmp_path / "given"
    if content == "folder":
        name.mkdir()
    elif content is not None:
        name.write_bytes(content)
    said = await create(project, f"@{name}")
    assert said.code == 2
    assert said.err.startswith("windlass: --value: ")
    assert words in said.err
    assert str(name) in said.err


async def test_only_one_option_can_read_the_standard_input(project):
    words = ("cluster", "create", "--name", "east", "--engine-certificate", "-", "--engine-key", "-")
    said = await project(*words, stdin=PEM)
    assert said.code == 2
    assert "--engine-key: name a file, as @FILE: --engine-certificate reads the standard input" in said.err


async def test_a_cluster_is_connected_with_the_files_of_its_certificates(project, tmp_path):
    for name, text in {"ca.pem": PEM, "cert.pem": PEM, "key.pem": KEY}.items():
        (tmp_path / name).write_text(text)
    made = await project.done(
        *("cluster", "create", "--name", "east", "--engine", "DOCKER"),
        *("--engine-address", TLS["engine_address"], "--engine-ca-certificate", f"@{tmp_path}/ca.pem"),
        *("--engine-certificate", f"@{tmp_path}/cert.pem", "--engine-key", f"@{tmp_path}/key.pem"),
    )
    assert made["has_engine_key"] is True
    assert made["engine_certificate"] == PEM.rstrip()


def fields() -> dict[str, Field]:
    found = {}
    for words in commands_of(registry()).values():
        for command in words.values():
            for field in options_of(registry(), command).fields:
                found[f"{command.group} {command.word} {field.option}"] = field
    return found


def test_every_secret_option_can_be_read_from_a_file():
    secret = {
        name: field
        for name, field in fields().items()
        if any(word in field.path[-1] for word in ("secret", "key", "token", "password"))
        and field.kind is str
        and not field.choices
        and not field.refers
    }
    plain = {name for name, field in secret.items() if not field.is_read_from_files}
    # Names of variables, and ids, which are no secrets.
    assert {name.rpartition(" ")[2] for name in plain} <= {
        "--key",
        "--secret-manager-access-id",
        "--config.access-key-id",
        "--config.scaleway-access-key",
        "--access-key-id",
        "--scaleway-access-key",
    }
    assert "cluster create --engine-key" in secret


def test_values_of_names_and_references_are_never_read_from_files():
    found = fields()
    assert not found["project create --name"].is_read_from_files
    assert not found["environment create --cluster-id"].is_read_from_files
