"""JSON for a terminal holds no characters that the terminal would obey, and means the same."""

from __future__ import annotations

import json

import pytest

from windlass.terminal.tables import plain, print_json

SIGNS = {"\x1b[32mok\x1b[0m": "ok", "\x1b[2K\x1b[1Gdone": "done", "\x1b]0;x": "\\x1b]0;x", "a\x07": "a\\x07"}
VALUES = ["\x1b[31m", "\x9b31m", "\x7f", "\u202eabc", "a\nb\tc", "größer ☃"]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_printed_without_control_characters(capsys, value):
    print_json({"name": value})
    said = capsys.readouterr().out
    assert json.loads(said) == {"name": value}
    assert said.replace("\n", "").isprintable()


def test_letters_of_other_languages_stay_readable(capsys):
    """Negative control: what is printable is not escaped."""
    print_json("größer ☃")
    assert capsys.readouterr().out == '"größer ☃"\n'


@pytest.mark.parametrize("text", [*SIGNS])
def test_text_has_no_colours_and_shows_other_control_characters(text):
    assert plain(text) == SIGNS[text]
