"""Trust that makes no sense is refused at the start, and no input does more than be refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.base.oidc.provider import Clock, knowing, never, trusted
from tests.tables import rows
from windlass.base.issuer_keys import TokenRefused
from windlass.base.oidc import Verifier


@rows(
    "changes",
    [
        {"algorithms": ("none",)},
        {"algorithms": ("RS256", "HS256")},
        {"algorithms": ("rs256",)},
        {"algorithms": ()},
        {"audiences": ()},
        {"audiences": ("windlass", "")},
        {"issuer": "id.example.com"},
        {"issuer": "ftp://id.example.com"},
        {"issuer": "https://id.example.com?tenant=1"},
        {"issuer": "https://"},
    ],
)
def test_an_invalid_trust_setting_is_refused_at_the_start(changes):
    with pytest.raises(ValueError, match=r"algorithms must be|name the audiences|an issuer is"):
        trusted(**changes)


def test_configured_keys_must_be_a_json_web_key_set(clock):
    with pytest.raises(TokenRefused, match="no list of keys"):
        Verifier([trusted(keys={})], never, clock)


def test_an_issuer_configured_twice_is_refused(clock):
    with pytest.raises(ValueError, match="twice"):
        Verifier([trusted(), trusted(audiences=("other",))], never, clock)


def refused_at_once(verifier: Verifier, token: str) -> None:
    """Without an event loop, for nothing is to be waited for."""
    with pytest.raises(TokenRefused):
        verifier.verify(token).send(None)


@given(st.text() | st.from_regex(r"[\w-]*\.[\w-]*\.[\w-]*=?"))
def test_any_text_as_a_token_is_refused_without_another_error(text):
    refused_at_once(Verifier([trusted()], never, Clock()), text)


@given(st.sampled_from(["rsa", "ec", "ed"]), st.integers(0, 300), st.characters())
def test_changing_any_character_of_a_token_invalidates_it(mint, key, at, other):
    token = mint.token(key)
    changed = token[:at] + other + token[at + 1 :]
    assume(changed != token)
    refused_at_once(Verifier([trusted(keys=mint.jwks())], never, Clock()), changed)


MEMBERS = ["kty", "crv", "kid", "use", "key_ops", "alg", "n", "e", "x", "y", "d", "p"]

VALUES: st.SearchStrategy[Any] = (
    st.none() | st.integers() | st.text(max_size=9) | st.lists(st.text(max_size=9)) | st.just({})
)


@given(st.sampled_from(["rsa", "ec", "ed"]), st.dictionaries(st.sampled_from(MEMBERS), VALUES))
def test_any_key_with_changed_fields_refuses_a_forged_token_without_another_error(mint, kind, changes):
    good = next(key for key in mint.jwks()["keys"] if key["kid"] == kind)
    refused_at_once(knowing(Clock(), changes, {**good, "kid": "rsa", **changes}), mint.forged())
