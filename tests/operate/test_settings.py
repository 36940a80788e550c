"""Settings that are wrong are refused in words for the operator."""

from __future__ import annotations

import pytest

from windlass.config import BadSetting, load

WRONG_SETTINGS = [
    ("PORT", "x", "must be a number: Port"),
    ("PORT", "99999", "must be <= 65535: Port"),
    ("ACCESS_LOG", "perhaps", "must be yes or no: Log"),
    ("LOG_LEVEL", "loud", "does not have the right form: debug, info, warning or error"),
    ("ADMIN_TOKEN", "short", "does not have the right form: An Admin token"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG_SETTINGS)
def test_a_wrong_setting_is_named_with_what_it_should_be(name, value, words):
    with pytest.raises(BadSetting, match=f"^WINDLASS_{name}: {words}"):
        load({}, {f"WINDLASS_{name}": value})


def test_a_setting_that_there_is_not_is_named():
    with pytest.raises(BadSetting, match=r"^`prot`: there is no setting of this name"):
        load({"prot": 1}, {})
