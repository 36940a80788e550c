"""An issuer's key set is read only up to a size that delays no other request."""

from __future__ import annotations

import pytest

from windlass.base.issuer import Signer
from windlass.base.issuer_keys import MAX_KEYS, TokenRefused, parse_key_set

KEY = Signer("https://issuer.example", Signer.new_key(), lambda: 0.0).jwks()["keys"][0]


def test_a_set_of_too_many_keys_is_refused_before_any_is_read():
    with pytest.raises(TokenRefused, match="more than 200 keys"):
        parse_key_set({"keys": [KEY] * (MAX_KEYS + 1)})


def test_a_key_set_of_the_maximum_size_is_accepted():
    """Otherwise the test above would show nothing."""
    assert len(parse_key_set({"keys": [KEY] * MAX_KEYS})) == MAX_KEYS
