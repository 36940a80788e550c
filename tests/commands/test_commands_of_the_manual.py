"""The commands in the manual have the options that the manual gives them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import click
import pytest

from tests.test_manual import PAGES
from windlass.cli.main import main

# `git push windlass main` names a remote.
COMMAND = re.compile(r"(?!git )(?:\S+ )*?(?:\S*/)?windlass (?P<words>[a-z].*)")
ENDS = {"|", ">", "<", "&&", "&", "||", ";"}


def commands(page: str) -> Iterator[str]:
    """Yields the calls of `windlass` in the blocks of shell of a page, without its name."""
    for block in re.findall(r"^```sh\n(.+?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if call := COMMAND.match(line.strip()):
                yield call["words"]


def parse(line: str) -> None:
    """Raises a UsageError if there is no such command, or no such option of it. Runs nothing."""
    words = shlex.split(line, comments=True)
    end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
    _parse(main, words[:end])


def _parse(command: click.Command, words: Sequence[str]) -> None:
    context = click.Context(command)
    while isinstance(command, click.Group):
        name, *words = words
        inner = command.get_command(context, name)
        assert inner is not None, f"there is no command {name}"
        command = inner
    command.make_context(command.name, [*words], parent=context)


def test_every_command_of_the_manual_exists_with_its_options():
    lines = {line for page in PAGES for line in commands(page.read_text())}
    assert len(lines) > 45
    for line in sorted(lines):
        try:
            parse(line)
        except click.UsageError as error:
            pytest.fail(f"windlass {line}: {error.message}")


@pytest.mark.parametrize(
    "line", ["application list --no-such-option", "nothing list", "application create --port x"]
)
def test_a_command_that_does_not_exist_is_found(line):
    with pytest.raises((click.UsageError, AssertionError)):
        parse(line)
