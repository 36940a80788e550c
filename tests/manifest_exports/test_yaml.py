"""Values in exported manifests stay in their strings."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import examples
from windlass.core.words.yaml import comment, documents

_PIECES = [
    "---",
    "\n",
    "- ",
    ": ",
    "#",
    "'",
    '"',
    "\\",
    "{{",
    "}",
    "!!",
    "&a",
    "*a",
    "\u2028",
    "\x85",
    "\ufeff",
]
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.lists(st.sampled_from(_PIECES)).map("".join)
)
scalars = st.one_of(texts, st.integers(), st.booleans(), st.none())
mappings = st.recursive(
    st.dictionaries(texts, scalars, max_size=3),
    lambda inner: st.dictionaries(texts, inner | st.lists(scalars | inner, max_size=3), max_size=3),
)


@examples(300)
@given(mappings.filter(bool), texts)
def test_a_document_is_read_as_it_was_and_nothing_follows_it(value: dict[str, object], text: str):
    written = documents([value, {"last": text}])
    assert [*yaml.safe_load_all(written)] == [value, {"last": text}]


@pytest.mark.parametrize(
    "text", ["yes", "No", "on", "null", "~", "1", "1e3", "0x1", "12:30", "2026-01-01", ""]
)
def test_a_text_that_looks_like_another_scalar_stays_a_text(text: str):
    assert yaml.safe_load(documents([{"value": text, text: 1}])) == {"value": text, text: 1}


@examples(100)
@given(texts)
def test_a_comment_is_one_line(text: str):
    assert [*yaml.safe_load_all(f"{comment(text)}\n")] in ([], [None])
    assert len(re.split(r"[\n\r\x85\u2028\u2029]", comment(text))) == 1
