"""Texts of strangers that make a careless regular expression try all ways to read them. One such expression
stops all other work of its program, also from a thread.

The limit of time is the negative control: an expression that backtracks takes hours.
"""

import pytest

from tests.tables import rows
from windlass.base.errors import Invalid
from windlass.base.toml import MAX_LENGTH, parse_toml
from windlass.builders import dockerfile
from windlass.builders.dockerfile_hints import Shell
from windlass.control.services.project_deployment_rules import MAX_RULES, matches
from windlass.core.declare.validation import convert
from windlass.core.words.webhook_payload import matches_pattern
from windlass.docker.builds.guard import Around, BuildRefused, rewritten
from windlass.families.environment import Environment
from windlass.families.project import Project
from windlass.process.builds.start import by_procfile
from windlass.routers.builtin.access_log import LoggedHead, RequestEntry, RouterAccessLog, count_bytes

LONG = 900_000
LONG_TOML = MAX_LENGTH - 100
AROUND = Around(service="org", scope="scope", arguments={}, platform={}, heredocs=True)


@pytest.mark.timeout(20)
def test_a_procfile_with_many_blanks_is_read(tmp_path):
    (tmp_path / "Procfile").write_text("web: run" + " " * LONG + "it\n")
    start = by_procfile(tmp_path)
    assert start is not None
    assert start.command == Shell("run" + " " * LONG + "it")


@pytest.mark.timeout(20)
def test_a_directive_with_many_blanks_is_read():
    read = dockerfile.read("# syntax = a" + " " * LONG + "b\nFROM busybox\n")
    assert len(read.stages) == 1


@pytest.mark.timeout(20)
def test_an_add_source_with_50000_at_signs_is_parsed_quickly_and_accepted():
    rewritten(f"FROM busybox\nADD {'a@' * 50_000} /there\n", AROUND)


@pytest.mark.parametrize("source", ["me@host:x", "a@b@c:d", "@@host:x", "a@::x"])
def test_an_add_source_on_another_machine_is_refused(source):
    with pytest.raises(BuildRefused, match="ADD"):
        rewritten(f"FROM busybox\nADD {source} /there\n", AROUND)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["a", '"a"', "'.'", '"\\""', " a "])
@pytest.mark.parametrize("around", ["{}a = 1\n", "[{}a]\n", 'b = ["""\n""", {{ {}a = 1 }}]\n'])
def test_a_toml_key_with_too_many_parts_is_refused(part, around):
    text = around.format(f"{part}." * (LONG_TOML // (len(part) + 1)))
    with pytest.raises(ValueError, match="a key has more than"):
        parse_toml(text)
    assert parse_toml(around.format(f"{part}." * 10))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ['"', '"\\', '"\\"', "a. ", "'a", "["])
def test_oversized_toml_of_any_form_is_refused(text):
    with pytest.raises(ValueError, match=r"line|nested|parts|document"):
        parse_toml(f"a = {text * (LONG_TOML // len(text))}")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ['a = "{}"', "# {}", "{} = 1", "a = '{}'"])
def test_toml_with_a_long_word_is_read(text):
    parse_toml(text.format("x" * LONG_TOML))


def test_toml_above_its_limit_is_refused():
    with pytest.raises(ValueError, match="longer than 256 KiB"):
        parse_toml("#" * (MAX_LENGTH + 1))
    parse_toml("#" * MAX_LENGTH)  # negative control


@pytest.mark.timeout(20)
def test_a_key_after_a_long_word_is_still_refused():
    with pytest.raises(ValueError, match="a key has more than"):
        parse_toml("x" * 50_000 + ".a" * 50 + " = 1")


def test_toml_with_many_points_in_its_values_is_read():
    numbers = ", ".join(["1.5"] * 200)
    content = parse_toml(f'a = [{numbers}]\nb = "{"One and two. " * 100}"\nc = ["{"x.y, " * 90}"]\n')
    assert content["b"].startswith("One and two.")
    assert len(content["a"]) == 200


@pytest.mark.timeout(20)
def test_a_webhook_pattern_with_many_stars_is_matched_in_bounded_time():
    assert matches_pattern("*a" * 120, "a" * 240)
    assert not matches_pattern("*a" * 120 + "*b", "a" * 240)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", [" - at `$", "_name", "`", "a"])
def test_a_field_with_a_name_as_long_as_a_body_is_refused_in_bounded_time(piece):
    """The event loop writes the message while all other requests wait."""
    name = piece * (LONG // len(piece)) + "\n"
    for value in (1, {name: 1}):
        with pytest.raises(Invalid) as refused:
            convert({name: value}, Project)
        assert len(refused.value.message) < 2000
    with pytest.raises(Invalid, match="must be one of DEVELOPMENT"):
        convert({"name": "a", "mode": name}, Environment)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("wildcard", ["?*" * 127 + "z", "*" * 254 + "z", "a*" * 127 + "z"])
def test_the_wildcards_of_100_deployment_rules_are_matched_with_a_long_name_in_bounded_time(wildcard):
    for _ in range(5):  # environments
        for _ in range(MAX_RULES):
            assert not matches(wildcard, "ΐ" * 250)


@rows(
    ("pattern", "name", "fits"),
    [
        ("shop", "Shop", True),
        ("shop", "shops", False),
        ("shop*", "shops", True),
        ("*shop", "my-shop", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*a*", "bab", True),
        ("a*b*c", "acbc", True),
        ("a*b*c", "acb", False),
        ("**", "", True),
        ("*", "anything", True),
        ("a.c", "abc", False),
    ],
)
def test_a_star_in_a_pattern_matches_any_characters(pattern, name, fits):
    assert matches_pattern(pattern, name) is fits


class _Transport:
    def write(self, data):
        pass


@pytest.mark.timeout(20)
@pytest.mark.parametrize("field", [b"user-agent", b"x-forwarded-for", b"traceparent"])
async def test_a_field_with_many_blanks_is_logged(tmp_path, field):
    log = RouterAccessLog(str(tmp_path / "log"), lambda _: True)
    fields = b"\r\n" + field + b": \t a" + b" " * LONG + b"b \t\r\nhost: there\r\n\r\n"
    head = LoggedHead(b"GET", b"/", b"there", fields, b"")
    RequestEntry(log, count_bytes(_Transport()), "1.2.3.4", 80, None, head).end(200)
    await log.close()
    assert (tmp_path / "log").read_text().count("\n") == 1
