"""The commands in the manual have the options that the manual gives them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import click
import pytest

from tests.test_manual import PAGES
from windlass.cli.main import main

# `git push windlass main` names a remote, and `kubectl --namespace windlass` a namespace.
COMMAND = re.compile(r"(?!git |kubectl |helm )(?:\S+ )*?(?:\S*/)?windlass (?P<words>[a-z].*)")
ENDS = {"|", ">", "<", "&&", "&", "||", ";"}
HELP = {"-h", "--help"}
INVENTED = {"cache", "migration", "runbook"}
"""Groups of commands in the pages about new families."""


def commands(page: str) -> Iterator[str]:
    """Yields the calls of `windlass` in the blocks of shell of a page, without its name."""
    for block in re.findall(r"^```sh\n(.+?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if call := COMMAND.match(line.strip()):
                yield call["words"]


def mentions(page: str) -> Iterator[str]:
    """Yields the calls of `windlass` in the sentences of a page, without its name."""
    prose = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    for mention in re.findall(r"`windlass ([a-z][^`]*)`", prose):
        words = [word for word in mention.split() if word not in HELP]
        if words[0] not in INVENTED:
            yield " ".join(words)


def parse(line: str) -> None:
    """Raises a UsageError if there is no such command, or no such option of it. Runs nothing."""
    words = shlex.split(line, comments=True)
    end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
    _parse(main, words[:end])


def _parse(command: click.Command, words: Sequence[str]) -> None:
    context = click.Context(command)
    while isinstance(command, click.Group):
        if not words:
            return  # a sentence may name a group
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


def test_every_command_that_a_sentence_names_exists_with_its_options():
    """A sentence may leave out arguments, or write words in capitals in their place."""
    lines = {line for page in PAGES for line in mentions(page.read_text())}
    assert len(lines) > 100
    for line in sorted(lines):
        try:
            parse(line)
        except (click.BadParameter, click.BadOptionUsage):
            pass
        except click.UsageError as error:
            pytest.fail(f"windlass {line}: {error.message}")


@pytest.mark.parametrize(
    "line", ["application list --no-such-option", "nothing list", "application create --port x"]
)
def test_a_command_that_does_not_exist_is_found(line):
    with pytest.raises((click.UsageError, AssertionError)):
        parse(line)
