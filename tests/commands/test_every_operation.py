"""Derived: for every operation of the registry there is a command that makes exactly this call."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.listener import listening
from tests.cli.said import say
from tests.documented import body, operations
from windlass.cli.commands import group_lines
from windlass.cli.derived_commands import CommandPath, DerivedCommand, commands_of
from windlass.cli.fields import fields_of
from windlass.cli.main import own_names
from windlass.core.declare.registry import Operation
from windlass.core.words.naming import kebab
from windlass.families import registry

IDS = {
    param: f"00000000-0000-4000-8000-{number:012x}"
    for number, param in enumerate(sorted({param for one in registry().operations for param in one.params}))
}


@pytest.fixture(scope="module")
def server():
    with listening() as listener:
        yield listener


@cache
def every_way() -> Mapping[str, list[tuple[DerivedCommand, CommandPath]]]:
    """Returns the commands of each operation, by its id."""
    found: dict[str, list[tuple[DerivedCommand, CommandPath]]] = defaultdict(list)
    for words in commands_of(registry()).values():
        for deed in words.values():
            for way in deed.paths:
                found[way.operation.id].append((deed, way))
    return found


def ways(operation: Operation) -> list[tuple[DerivedCommand, CommandPath]]:
    return every_way()[operation.id]


def words(deed: DerivedCommand, way: CommandPath) -> list[str]:
    """The command with ids, as it is typed."""
    choice = [way.choice] if deed.choices else []
    above = [word for name, param in way.above for word in (f"--{kebab(name)}", IDS[param])]
    return [deed.group, deed.word, *choice, *(IDS[id.param] for id in way.subject), *above]


def options(value: Any, free: set[str], path: str = "") -> list[str]:
    """A body, said field by field; those that are free take JSON."""
    said: list[str] = []
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        match inner:
            case _ if here in free:
                said += [f"--{here}", json.dumps(inner)]
            case dict() if inner:
                said += options(inner, free, here)
            case bool():
                said += [f"--{here}" if inner else f"--no-{here}"]
            case [str(), *_]:
                said += [word for one in inner for word in (f"--{here}", one)]
            case str() | int():
                said += [f"--{here}", str(inner)]
            case _:
                said += ["--field", f"{here}={json.dumps(inner)}"]
    return said


def output(operation: Operation, folder: Path) -> list[str]:
    """The options by which an answer that is a file is saved in a folder."""
    return ["--output", str(folder / "file")] if operation.media_type else []


@operations()
def test_every_operation_has_exactly_one_command_and_nested_lists_an_alias(operation):
    short = {
        "listJobRuns": ("job", "runs"),
        "listUploads": ("application", "uploads"),
        "listProjectDeploymentRules": ("project", "deployment-rules"),
    }.get(operation.id)
    commands = {(deed.group, deed.word) for deed, _ in ways(operation)}
    assert len(commands - {short}) == 1
    assert short is None or short in commands


@operations()
def test_each_command_sends_the_method_and_path_of_its_operation(operation, server, tmp_path):
    for deed, way in ways(operation):
        server.heard.clear()
        yes = ["--yes"] if operation.method == "DELETE" else []
        said = say(*words(deed, way), *yes, *output(operation, tmp_path), url=server.url)
        assert said.code == 0, said
        assert [(one.method, one.path) for one in server.heard] == [
            (operation.method, operation.path.format_map(IDS))
        ]


@operations(lambda operation: operation.body)
def test_every_field_of_an_operations_example_has_an_option(operation, server, tmp_path):
    for deed, way in ways(operation):
        server.heard.clear()
        example = body(operation)["example"]
        yes = ["--yes"] if operation.method == "DELETE" else []
        free = {".".join(field.path) for field in fields_of(operation.body) if field.kind is None}
        saved = output(operation, tmp_path)
        said = say(*words(deed, way), *yes, *saved, *options(example, free), url=server.url)
        assert said.code == 0, said
        assert server.heard[-1].body == example


@operations(lambda operation: operation.body)
def test_the_whole_body_of_an_operation_can_be_given_as_json(operation, server, tmp_path):
    for deed, way in ways(operation):
        server.heard.clear()
        example = body(operation)["example"]
        yes = ["--yes"] if operation.method == "DELETE" else []
        saved = output(operation, tmp_path)
        assert say(*words(deed, way), *yes, *saved, "--data", json.dumps(example), url=server.url).code == 0
        assert server.heard[-1].body == example


@operations()
def test_the_command_of_an_operation_explains_itself_and_its_arguments(operation):
    for deed, _ in ways(operation):
        said = say(deed.group, deed.word, "--help")
        assert said.code == 0
        assert operation.need.word in said.out


def test_no_api_command_has_the_name_of_a_local_command():
    assert not {*own_names()} & commands_of(registry()).keys()


def test_the_description_of_a_command_group_is_that_of_its_family():
    described = {group: lines.about for group, lines in group_lines().items()}
    assert described["application"].startswith("An application: ")
    assert described["job"].startswith("Jobs: ")
    assert [text for text in described.values() if "advanced settings" in text] == []
    assert described["region"] == "List regions."
    assert described["service"].startswith("A service of any kind: ")
