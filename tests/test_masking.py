"""Values of secrets are hidden in text, in every form that programs write them in."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.masking import CUT, MASK, MOST, Mask, _alternatives, _tree, is_trivial

SECRET = 's3cret"val/ue+1'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        json.dumps(SECRET),
        f"user:{SECRET}@host",
        *(base64.b64encode(f"{'x' * n}:{SECRET}:y".encode()).decode() for n in range(3)),
        *(base64.urlsafe_b64encode(f"{'x' * n}{SECRET}".encode()).decode() for n in range(3)),
    ],
)
def test_a_value_is_hidden_in_every_form_it_is_written_in(form):
    shown = Mask([SECRET]).text(f"before {form} after")
    assert MASK in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for part in ("s3cret", "val/ue", base64.b64encode(SECRET.encode()).decode()[4:12]):
        assert part not in shown


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("value", ["abc123", "abcd123", "päßwört", "🔑🔑🔑key", "x" * 64, "x1" * 200])
def test_a_value_is_found_wherever_it_begins(place, value):
    shown = Mask([value]).text(f"{'.' * place}{value}{'.' * place}")
    assert shown == f"{'.' * place}{MASK}{'.' * place}"


@given(
    st.lists(st.text("ab1-", min_size=6, max_size=12), min_size=1, max_size=30),
    st.text("ab1-", max_size=40),
    st.text("ab1-", max_size=40),
)
def test_no_value_is_left_in_any_text(values, before, after):
    mask = Mask(values)
    for value in values:
        shown = mask.text(before + value + after)
        assert is_trivial(value) or all(is_trivial(one) or one not in shown for one in values)


def test_text_without_a_value_stays_as_it_is():
    mask = Mask([SECRET, "abc123"])
    for text in ("", "abc12", "s3cret", "\0" * 7, "ünïcode", "\udc80"):
        assert mask.text(text) == text
    messages = ["one", "two"]
    assert mask.messages(messages)[0] is messages


@pytest.mark.parametrize(
    "value",
    ["", "abc", "12345", "true", "postgres", "5432", "8080:80", "1234567", "production", "12345mb"],
)
def test_short_or_trivial_values_are_not_hidden(value):
    assert Mask([value]).text(f"a {value} b") == f"a {value} b"


def test_each_line_of_a_value_of_several_is_hidden():
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    key = [begin, "MIIEvQIBADANBgkqhkiG9w0", "AQEFAASCBKcwggSjAgEAAoI", "short", end]
    mask = Mask(["\n".join(key), 'TOKEN="abcdef-0123456789"\nMODE=fast\n'])
    shown, _ = mask.messages([*key, "uses abcdef-0123456789 now", "MODE=fast"])
    assert shown == [begin, MASK, MASK, "short", end, f"uses {MASK} now", "MODE=fast"]


def test_the_password_in_an_address_is_hidden_by_itself():
    mask = Mask(["postgres://shop:p%40ss-word1@db:5432/shop"])
    assert mask.text("p@ss-word1 and p%40ss-word1") == f"{MASK} and {MASK}"


@pytest.mark.parametrize("at", [CUT - 4, CUT, CUT + 8 - len(SECRET), CUT + 7, 2 * (CUT + 8) - 5])
@pytest.mark.parametrize("together", [True, False])
def test_a_value_over_the_place_where_a_line_was_cut_is_hidden(at, together):
    size = CUT + 8
    line = ("." * at + SECRET).ljust(3 * size - 100, ".")
    parts = [line[start : start + size] for start in range(0, len(line), size)]
    mask, shown, before = Mask([SECRET]), [], ""
    for batch in [parts] if together else [[part] for part in parts]:
        made, before = mask.messages(batch, before)
        shown += made
    assert len(shown) == len(parts)
    assert set("".join(shown)) == set("." + MASK)
    assert MASK in "".join(shown)
    assert before == ""


def test_a_cut_line_without_a_value_loses_nothing():
    parts = ["." * (CUT + 8), "." * (CUT + 8), "end"]
    assert Mask([SECRET]).messages(parts) == (parts, "")


@pytest.mark.parametrize("guess", [SECRET[:1], SECRET[:5], SECRET[:-1], "x" * len(SECRET)])
def test_where_a_line_was_cut_nothing_tells_how_a_secret_begins(guess):
    line = guess.rjust(CUT + 8, ".")
    mask = Mask([SECRET])
    [shown], rest = mask.messages([line])
    assert shown + rest == line
    assert len(rest) == len(mask.messages(["." * (CUT + 8)])[1])
    assert mask.messages(["end"], rest) == ([rest + "end"], "")


def letters(count: int) -> list[str]:
    chance = random.Random(7)
    return ["".join(chance.choices(string.ascii_letters, k=24)) for _ in range(count)]


def test_the_work_for_a_text_does_not_grow_with_the_secrets():
    """Counted, not timed: at each place at most one branch for each letter is tried, however many secrets."""
    few, many = search(letters(10)), search(letters(700))
    assert many.count("|") > 10 * few.count("|")
    assert branches(many) <= len(string.ascii_letters + string.digits + "+/-_")


def search(values: list[str]) -> str:
    return _alternatives(_tree(Mask(values).patterns))


def branches(pattern: str) -> int:
    """Returns the number of different beginnings."""
    depth = count = 0
    for sign in re.sub(r"\\.", "x", pattern):
        depth += (sign == "(") - (sign == ")")
        count += sign == "|" and depth == 1
    return count + 1


def test_a_large_file_of_secrets_is_bounded():
    lines = [f"line-{number}-{'x' * 20}" for number in range(50_000)]
    mask = Mask(["\n".join(lines)])
    assert len(mask.patterns) == MOST
    assert mask.text(lines[7]) == MASK


def test_values_that_begin_alike_are_told_apart():
    mask = Mask(["prefix-1", "prefix-12", "prefix-123", "prefix"])
    assert mask.text("prefix-123 prefix-12 prefix-1 prefix prefi") == f"{MASK} {MASK} {MASK} {MASK} prefi"
