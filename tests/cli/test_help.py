"""The help of the command line: every command and every option says what it is for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import click
import pytest

from windlass.cli.main import main
from windlass.families import registry


def commands(
    command: click.Command, path: tuple[str, ...] = ("windlass",)
) -> Iterator[tuple[str, click.Command]]:
    """Yields a command and all below it, each with the words that call it."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from commands(below, (*path, name))


def without_help(path: str, command: click.Command) -> list[str]:
    """Returns the options of a command whose help has nothing but marks such as [required] and [10]."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    marks = re.compile(r"\[[^]]*\]|May be repeated\.|One of [\w, ]+\.")
    return [
        f"{path} {option.opts[0]}" for option in options if not marks.sub("", option.help or "").strip(" .")
    ]


def test_every_option_of_every_command_has_a_help_text():
    assert [line for path, command in commands(main) for line in without_help(path, command)] == []


def test_a_parameter_that_the_server_ignores_is_no_option():
    checks = dict(commands(main))["windlass cluster check-engine"]
    assert "--dry-run" not in {name for param in checks.params for name in param.opts}
    query = registry().handled_by("cluster.checkEngine")[0].query
    assert query is not None
    assert "dry_run" in query.__struct_fields__


def test_every_command_has_a_help_text():
    assert [path for path, command in commands(main) if not (command.help or "").strip()] == []


def test_no_two_groups_of_commands_have_the_same_help_text():
    texts = [command.help for _, command in commands(main) if isinstance(command, click.Group)]
    assert [text for text, count in Counter(texts).items() if count > 1] == []


def test_an_option_whose_help_has_only_defaults_or_markers_is_reported():
    options: list[click.Parameter] = [
        click.Option(["--size"], help="[10]  May be repeated."),
        click.Option(["--kind"], help="One of A, B.  [required]"),
        click.Option(["--name"]),
        click.Option(["--port"], help="Port to listen on.  [8080]"),
    ]
    assert without_help("bake", click.Command("bake", params=options)) == [
        "bake --size",
        "bake --kind",
        "bake --name",
    ]


def only_a_verb(summary: str) -> bool:
    """True if a summary names nothing that the operation acts on."""
    return not {*summary.casefold().split()} - {summary.split()[0].casefold(), "again"}


def test_the_first_line_of_the_help_of_each_operation_says_more_than_its_verb() -> None:
    assert [operation.id for operation in registry().operations if only_a_verb(operation.summary)] == []


@pytest.mark.parametrize("summary", ["Deploy", "Stop", "Deliver again"])
def test_the_check_notices_a_summary_of_only_a_verb(summary: str) -> None:
    assert only_a_verb(summary)
    assert not only_a_verb(f"{summary} past events")


def test_first_lines_of_help_write_api_in_capitals() -> None:
    assert [operation.id for operation in registry().operations if "api " in operation.summary] == []
