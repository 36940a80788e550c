"""Files of variables are read as the usual tools read them, and nothing in a value is expanded."""

from __future__ import annotations

import pytest

from tests.tables import rows
from windlass.cli.everyday.variables import parse_dotenv
from windlass.terminal.command_errors import InvalidUsage


@rows(
    ("text", "values"),
    [
        ("A=1\nB=two words\n", {"A": "1", "B": "two words"}),
        ("# a remark\n\n  A=1  \r\n", {"A": "1"}),
        ("export A=1", {"A": "1"}),
        ("A = 1", {"A": "1"}),
        ("A=", {"A": ""}),
        ("A=\nB=2", {"A": "", "B": "2"}),
        ("A=1 # a remark\nB=1#2", {"A": "1", "B": "1#2"}),
        ("A='a # b'  # c", {"A": "a # b"}),
        ("A='a\\nb $C'", {"A": "a\\nb $C"}),
        ('A="a\\nb \\"c\\" \\\\ $D"', {"A": 'a\nb "c" \\ $D'}),
        ('A="-----BEGIN\nKEY\n-----END"\nB=2', {"A": "-----BEGIN\nKEY\n-----END", "B": "2"}),
        ("A=http://u:p@h/?a=b&c=d", {"A": "http://u:p@h/?a=b&c=d"}),
        ("A=1\nA=2", {"A": "2"}),
        ("\ufeffA=1", {"A": "1"}),
        ("", {}),
    ],
)
def test_a_dotenv_file_is_parsed_into_its_variables(text, values):
    assert parse_dotenv(text, ".env") == values


@pytest.mark.parametrize(
    ("text", "line"), [("A=1\nnothing", 2), ("=1", 1), ("1A=2", 1), ('A="open', 1), ("\nA='a' b", 2)]
)
def test_a_malformed_dotenv_line_is_reported_with_its_number(text, line):
    with pytest.raises(InvalidUsage, match=rf"^\.env: fix line {line}: "):
        parse_dotenv(text, ".env")


def test_a_dotenv_error_never_shows_the_value():
    with pytest.raises(InvalidUsage) as caught:
        parse_dotenv("KEY s3cret", ".env")
    assert "s3cret" not in str(caught.value)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("blank", [" ", "\t", "\r"])
def test_a_dotenv_value_with_300000_blanks_is_parsed_in_linear_time(blank):
    """The limit of time is the negative control."""
    assert parse_dotenv(f"A=a{blank * 300_000}b\nB=c{blank * 300_000}#d\n", "f")["B"] == "c"
