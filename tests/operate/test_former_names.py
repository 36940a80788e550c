"""Settings that got another name are read under both."""

from __future__ import annotations

from windlass.config import load, unknown_variables


def test_a_setting_is_read_under_its_former_name(tmp_path):
    file = tmp_path / "windlass.toml"
    file.write_text('gateway_domain = "file.example.com"\n')
    assert load({}, {}, file)[0].public_domain == "file.example.com"
    former = {"WINDLASS_GATEWAY_DOMAIN": "former.example.com"}
    settings, sources = load({}, former, file)
    assert (settings.public_domain, sources["public_domain"]) == ("former.example.com", "environment")
    assert unknown_variables(former) == []


def test_the_present_name_of_a_setting_wins_over_its_former_one(tmp_path):
    file = tmp_path / "windlass.toml"
    file.write_text('public_domain = "present.example.com"\ngateway_domain = "former.example.com"\n')
    assert load({}, {}, file)[0].public_domain == "present.example.com"
    both = {"WINDLASS_GATEWAY_DOMAIN": "former.example.com", "WINDLASS_PUBLIC_DOMAIN": "present.example.com"}
    assert load({}, both)[0].public_domain == "present.example.com"
