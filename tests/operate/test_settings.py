"""Settings that are wrong are refused in words for the operator."""

from __future__ import annotations

import pytest

from tests.world import HandClock
from windlass.config import BadSetting, Settings, load
from windlass.install.parts import real_parts

WRONG_SETTINGS = [
    ("PORT", "x", "must be a number: Port"),
    ("PORT", "99999", "must be <= 65535: Port"),
    ("ACCESS_LOG", "perhaps", "must be yes or no: Log"),
    ("LOG_LEVEL", "loud", "set it to a value of this form: debug, info, warning or error"),
    ("ADMIN_TOKEN", "short", "set it to a value of this form: An Admin token"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG_SETTINGS)
def test_an_invalid_setting_is_refused_with_its_variable_and_the_valid_form(name, value, words):
    with pytest.raises(BadSetting, match=f"^WINDLASS_{name}: {words}"):
        load({}, {f"WINDLASS_{name}": value})


def test_an_unknown_setting_is_reported_by_name():
    with pytest.raises(BadSetting, match=r"^`prot`: there is no setting of this name"):
        load({"prot": 1}, {})


@pytest.mark.parametrize("ports", ["9000-10000", "15000-16000", "29999-30100", "1024-65535"])
async def test_public_ports_are_none_that_engines_give_to_instances(ports, tmp_path):
    settings = Settings(data_dir=str(tmp_path), engine="process", public_ports=ports)
    with pytest.raises(BadSetting, match="public_ports: choose ports below 10000 or above 29999"):
        await real_parts(settings, HandClock(), "installation")
