"""Values of secrets are hidden in text, in every form that programs write them in."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import rows
from windlass.core.words.masking import (
    MASK,
    MAX_PATTERNS,
    MIN_CUT_MESSAGE_BYTES,
    Mask,
    PatternSearch,
    is_trivial,
)

SECRET = 's3cret"val/ue+1'


@rows(
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


@pytest.mark.parametrize("offset", range(3))
@pytest.mark.parametrize("value", [SECRET[:length] for length in range(8, 15)] + ["x1" * 70, "x1" * 70 + "y"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_no_base64_digit_of_a_secret_remains_at_the_end_of_a_text(encode, value, offset):
    text = encode(b"." * offset + value.encode()).decode()
    before = -(-offset * 8 // 6)  # digits that other bytes are a part of
    assert Mask([value]).text(text).rstrip("=") == text[:before] + MASK


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("value", ["abc123", "abcd123", "päßwört", "🔑🔑🔑key", "x" * 64, "x1" * 200])
def test_a_secret_is_masked_at_any_position_in_a_text(place, value):
    shown = Mask([value]).text(f"{'.' * place}{value}{'.' * place}")
    assert shown == f"{'.' * place}{MASK}{'.' * place}"


@given(
    st.lists(st.text("ab1-", min_size=6, max_size=12), min_size=1, max_size=30),
    st.text("ab1-", max_size=40),
    st.text("ab1-", max_size=40),
)
def test_masking_leaves_no_secret_in_any_text(values, before, after):
    mask = Mask(values)
    for value in values:
        shown = mask.text(before + value + after)
        assert is_trivial(value) or all(is_trivial(one) or one not in shown for one in values)


def test_text_without_a_secret_value_is_not_changed_by_masking():
    mask = Mask([SECRET, "abc123"])
    for text in ("", "abc12", "s3cret", "\0" * 7, "ünïcode", "\udc80"):
        assert mask.text(text) == text
    messages = ["one", "two"]
    assert mask.messages(messages)[0] is messages


@rows(
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


@pytest.mark.parametrize(
    "at",
    [
        MIN_CUT_MESSAGE_BYTES - 4,
        MIN_CUT_MESSAGE_BYTES,
        MIN_CUT_MESSAGE_BYTES + 8 - len(SECRET),
        MIN_CUT_MESSAGE_BYTES + 7,
        2 * (MIN_CUT_MESSAGE_BYTES + 8) - 5,
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_secret_that_crosses_the_cut_of_a_long_line_is_masked(at, together):
    size = MIN_CUT_MESSAGE_BYTES + 8
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
    parts = ["." * (MIN_CUT_MESSAGE_BYTES + 8), "." * (MIN_CUT_MESSAGE_BYTES + 8), "end"]
    assert Mask([SECRET]).messages(parts) == (parts, "")


@pytest.mark.parametrize("guess", [SECRET[:1], SECRET[:5], SECRET[:-1], "x" * len(SECRET)])
def test_the_cut_of_a_line_does_not_reveal_how_a_secret_begins(guess):
    line = guess.rjust(MIN_CUT_MESSAGE_BYTES + 8, ".")
    mask = Mask([SECRET])
    [shown], rest = mask.messages([line])
    assert shown + rest == line
    assert len(rest) == len(mask.messages(["." * (MIN_CUT_MESSAGE_BYTES + 8)])[1])
    assert mask.messages(["end"], rest) == ([rest + "end"], "")


def letters(count: int) -> list[str]:
    chance = random.Random(7)
    return ["".join(chance.choices(string.ascii_letters, k=24)) for _ in range(count)]


class Counting(dict[str, int]):
    looked_up = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looked_up += 1
        return super().get(key, default)


NEAR = "a" * (MIN_CUT_MESSAGE_BYTES + 8)
ALMOST = [f"{'a' * length}b" for length in range(6, 64)]


@pytest.mark.parametrize(("text", "values"), [(NEAR, ALMOST), (" ".join(letters(700)), letters(700))])
def test_masking_needs_logarithmically_many_look_ups_per_position(text, values):
    """Counted, not timed."""
    search = PatternSearch(Mask(values).patterns)
    search.known = counting = Counting(search.known)
    list(search.spans(text))
    assert 0 < counting.looked_up <= len(text) * len(search.lengths).bit_length()


def test_a_search_by_each_secret_length_would_need_many_look_ups():
    search = PatternSearch(ALMOST)
    assert len(search.lengths) > 8 * len(search.lengths).bit_length()


@given(
    st.lists(st.text("ab1-", min_size=6, max_size=30), min_size=1, max_size=30),
    st.lists(st.text("ab1-", max_size=30), max_size=10),
)
def test_the_longest_matching_secret_is_masked_at_each_position(values, between):
    patterns = Mask(values).patterns
    text = "".join(part for pair in zip(between, values * 10, strict=False) for part in pair)
    expected = re.finditer("|".join(re.escape(one) for one in sorted(patterns, key=len, reverse=True)), text)
    found = list(PatternSearch(patterns).spans(text)) if patterns else []
    assert found == [one.span() for one in expected if one.span()[1] > one.span()[0]]


def test_a_secret_of_50000_lines_has_a_bounded_number_of_patterns():
    lines = [f"line-{number}-{'x' * 20}" for number in range(50_000)]
    mask = Mask(["\n".join(lines)])
    assert len(mask.patterns) == MAX_PATTERNS
    assert mask.text(lines[7]) == MASK


def test_values_with_a_common_prefix_are_masked_separately():
    mask = Mask(["prefix-1", "prefix-12", "prefix-123", "prefix"])
    assert mask.text("prefix-123 prefix-12 prefix-1 prefix prefi") == f"{MASK} {MASK} {MASK} {MASK} prefi"
