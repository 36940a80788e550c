"""The variables and files of a service that follow from the declarations at its levels."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import examples
from tests.tables import rows
from windlass.core.words.variables import (
    MAX_FILE_BYTES,
    MAX_FILES_BYTES,
    MAX_REFERENCE_DEPTH,
    MAX_VARIABLE_BYTES,
    MAX_VARIABLES_BYTES,
    DeclaredVariable,
    ResolvedVariables,
    UnresolvableVariable,
    resolve,
)

many = examples(100)


def said(key: str, value: str = "", **more: Any) -> DeclaredVariable:
    return DeclaredVariable(**{"id": f"id of {key}", "key": key, "value": value} | more)


def plain(**values: str) -> list[DeclaredVariable]:
    return [said(key, value) for key, value in values.items()]


def of(*levels: Sequence[DeclaredVariable]) -> dict[str, str]:
    return resolve(levels).variables


# Who has the say


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([], {}),
        ([plain(A="1")], {"A": "1"}),
        ([plain(A="service"), plain(A="environment"), plain(A="project")], {"A": "service"}),
        ([[], plain(A="environment"), plain(A="project")], {"A": "environment"}),
        ([[], [], plain(A="project", B="2")], {"A": "project", "B": "2"}),
        ([plain(A="mine"), [said("A", "built in", interpolated=False)]], {"A": "mine"}),
        ([plain(a="1"), plain(A="2")], {"a": "1", "A": "2"}),
    ],
)
def test_a_variable_of_the_nearest_level_wins(
    levels: list[list[DeclaredVariable]], expected: Mapping[str, str]
):
    assert of(*levels) == expected


def test_a_variable_overrides_a_secret_of_a_farther_level_and_is_not_secret():
    found = resolve([plain(A="shown"), [said("A", "hushed", secret=True)]])
    assert found.variables == {"A": "shown"}
    assert found.secrets == frozenset()


# Aliases


def test_an_alias_has_the_value_of_its_target():
    alias = said("B", "an old copy", stands_for="id of A")
    assert of([alias], plain(A="1")) == {"B": "1", "A": "1"}


def test_an_alias_refers_to_one_variable_by_id_and_not_to_its_key():
    """It shows the value of what it was made from; an override further down is another variable."""
    levels = [[said("A", "other", id="override")], [said("B", stands_for="id of A")], plain(A="first")]
    assert of(*levels) == {"A": "other", "B": "first"}


def test_an_alias_of_an_alias_has_the_final_value():
    aliases = [said("C", stands_for="id of B"), said("B", stands_for="id of A")]
    assert of(aliases, plain(A="1"))["C"] == "1"


def test_an_alias_of_a_secret_is_a_secret():
    found = resolve([[said("B", stands_for="id of A")], [said("A", "x", secret=True)]])
    assert found.secrets == {"A", "B"}


def test_the_value_of_an_alias_of_a_built_in_variable_is_not_interpolated():
    built_in = said("QOVERY_PROJECT_ID", "{{A}}", interpolated=False)
    assert of([said("ID", stands_for=built_in.id)], [built_in])["ID"] == "{{A}}"


@pytest.mark.parametrize(
    "aliases",
    [
        [said("B", stands_for="nobody")],
        [said("B", stands_for="id of C"), said("C", stands_for="id of B")],
        [said("B", stands_for="id of B")],
    ],
)
def test_an_alias_of_a_deleted_variable_is_left_out_with_a_warning(aliases: list[DeclaredVariable]):
    found = resolve([aliases])
    assert found.variables == {}
    assert found.warnings[0] == "B stands for something that is there no more, and is left out"


def test_an_alias_of_a_file_variable_has_the_path_of_the_same_file():
    file = said("A", "content", mount_path="/etc/a")
    found = resolve([[said("B", stands_for=file.id)], [file]])
    assert found.variables == {"A": "/etc/a", "B": "/etc/a"}
    assert found.files == {"/etc/a": b"content"}


def test_an_alias_mounts_the_file_of_its_target():
    levels = [plain(A="no file"), [said("B", stands_for="file")]]
    file = said("A", "content", id="file", mount_path="/etc/a")
    assert resolve([*levels, [file]]).files == {"/etc/a": b"content"}


# Files


def test_the_value_of_a_file_variable_is_its_path():
    found = resolve([[said("CONF", "text ✓", mount_path="/etc/conf"), said("A", "see {{CONF}}")]])
    assert found.variables == {"CONF": "/etc/conf", "A": "see /etc/conf"}
    assert found.files == {"/etc/conf": "text ✓".encode()}


@pytest.mark.parametrize(("interpolated", "content"), [(True, b"n is 1"), (False, b"n is {{N}}")])
def test_references_in_a_file_are_resolved_only_if_the_file_is_interpolated(
    interpolated: bool, content: bytes
):
    file = said("F", "n is {{N}}", mount_path="/f", interpolated=interpolated)
    assert resolve([[file], plain(N="1")]).files == {"/f": content}


@rows("path", ["/", "/etc/", "/etc/../x", "/./x", "//x", "/a//b", "/..", "/a/."])
def test_a_path_that_names_no_file_is_refused_with_its_key(path: str):
    with pytest.raises(UnresolvableVariable, match=r"^CONF: its mount_path"):
        resolve([[said("CONF", mount_path=path)]])


def test_two_files_at_one_path_are_refused_with_both_keys():
    with pytest.raises(UnresolvableVariable, match=r"^B: A is mounted at /f too"):
        resolve([[said("A", mount_path="/f"), said("B", mount_path="/f")]])


def test_a_file_in_a_file_is_refused_with_both_keys():
    with pytest.raises(UnresolvableVariable, match=r"^B: is mounted at /f/g/h, but /f is a file, of A"):
        resolve([[said("A", mount_path="/f"), said("B", mount_path="/f/g/h")]])


def test_an_overridden_file_variable_is_written_once_with_the_content_of_the_nearer_level():
    near, far = said("A", "near", id="1", mount_path="/f"), said("A", "far", id="2", mount_path="/f")
    assert resolve([[near], [far]]).files == {"/f": b"near"}


# Names in values


@rows(
    ("value", "expected"),
    [
        ("{{A}}", "1"),
        ("x{{A}}y{{A}}z", "x1y1z"),
        ("{{{A}}}", "{1}"),
        ("{{ A }}", "{{ A }}"),
        ("{{}}", "{{}}"),
        ("{{A", "{{A"),
        ("{A}", "{A}"),
        ("$A ${A}", "$A ${A}"),
        ("{{1A}}", "{{1A}}"),
        ("{{B.C-d_E}}", "2"),
        ("{{T}}", "1 and 2"),
        ("", ""),
    ],
)
def test_references_to_variables_in_values_are_interpolated(value: str, expected: str):
    levels = [[said("V", value)], [*plain(A="1", T="{{A}} and {{B.C-d_E}}"), said("B.C-d_E", "2")]]
    assert of(*levels)["V"] == expected


def test_a_reference_is_resolved_from_the_level_of_the_service_wherever_it_is_written():
    """So that a URL can be put together once, at the project, and a part of it be overridden below."""
    assert of(plain(HOST="here"), plain(URL="http://{{HOST}}/", HOST="there"))["URL"] == "http://here/"


def test_interpolated_values_are_not_interpolated_again():
    levels = [plain(V="{{HALF}}A}}", HALF="{{", A="1"), [said("RAW", "{{A}}", interpolated=False)]]
    assert of(*levels)["V"] == "{{A}}"
    assert of(plain(V="{{RAW}}", A="1"), levels[1])["V"] == "{{A}}"


def test_an_unknown_reference_is_kept_as_written_with_one_warning():
    found = resolve([plain(V="{{NO}} {{NO}} {{NEITHER}}", W="{{V}}")])
    assert found.variables["W"] == "{{NO}} {{NO}} {{NEITHER}}"
    assert found.warnings == (
        "V mentions {{NO}} that no variable here has: it stays as it is written",
        "V mentions {{NEITHER}} that no variable here has: it stays as it is written",
    )


def test_a_misspelled_variable_name_is_answered_with_the_nearest_one():
    name, typed = "WINDLASS_TERRAFORM_Z0A8012B8_BUCKET_NAME", "WINDLASS_TERRAFORM_Z0A8012B8_BUCKET_NAM"
    found = resolve([plain(**{name: "box", "V": f"{{{{{typed}}}}}", "OTHER": "1"})])
    told = f"V mentions {{{{{typed}}}}} that no variable here has (did you mean {{{{{name}}}}}?)"
    assert found.warnings == (f"{told}: it stays as it is written",)
    hidden = resolve([plain(**{name: "box"}), [said("V", f"{{{{{typed}}}}}", secret=True)]])
    assert hidden.warnings == ("V mentions a name that no variable here has: it stays as it is written",)


def test_a_warning_about_a_secret_shows_no_part_of_its_value():
    found = resolve([[said("KEY", "ab{{cd}}ef", secret=True)]])
    assert found.warnings == ("KEY mentions a name that no variable here has: it stays as it is written",)


def test_a_value_that_refers_to_a_secret_is_secret():
    levels = [plain(URL="x://{{USER}}:{{PASS}}@h", ALL="{{URL}}", USER="u"), [said("PASS", "p", secret=True)]]
    found = resolve(levels)
    assert found.variables["ALL"] == "x://u:p@h"
    assert found.secrets == {"ALL", "URL", "PASS"}


@pytest.mark.parametrize(
    ("values", "circle"),
    [
        ({"A": "{{A}}"}, "A → A"),
        ({"A": "{{B}}", "B": "{{A}}"}, "A → B → A"),
        ({"X": "{{A}}", "A": "{{B}}", "B": "{{C}}", "C": "{{A}}"}, "A → B → C → A"),
    ],
)
def test_a_reference_cycle_is_refused_with_its_keys(values: Mapping[str, str], circle: str):
    with pytest.raises(UnresolvableVariable, match=re.escape(f"A: mentions itself ({circle})")):
        resolve([plain(**values)])


def chain(length: int) -> list[DeclaredVariable]:
    return [said(f"K{place}", f"{{{{K{place + 1}}}}}") for place in range(length - 1)] + [
        said(f"K{length - 1}", "end")
    ]


def test_nested_references_are_followed_to_a_limited_depth():
    assert of(chain(MAX_REFERENCE_DEPTH))["K0"] == "end"
    with pytest.raises(UnresolvableVariable, match=r"^K0: mentions names that mention names"):
        resolve([chain(MAX_REFERENCE_DEPTH + 1)])


# Sizes


def test_exponentially_growing_references_are_refused_before_expansion():
    doubling = [said("K0", "x" * 1000)] + [said(f"K{n}", f"{{{{K{n - 1}}}}}" * 50) for n in range(1, 30)]
    with pytest.raises(UnresolvableVariable, match=r"^K2: is longer than \d+ bytes with what it mentions"):
        resolve([doubling])


def test_a_variable_may_be_as_long_as_the_kernel_allows_for_one_environment_entry():
    longest = "x" * (MAX_VARIABLE_BYTES - 1)
    assert of([said("A", longest)])["A"] == longest
    with pytest.raises(UnresolvableVariable, match=r"^A: is longer than"):
        resolve([[said("A", longest + "x")]])
    with pytest.raises(UnresolvableVariable, match=r"^A: is longer than"):
        resolve([[said("A", "ü" * (MAX_VARIABLE_BYTES // 2 + 1))]])


def test_all_variables_together_have_a_limit_and_the_longest_is_named():
    many_ = [said(f"K{n}", "x" * 60_000) for n in range(MAX_VARIABLES_BYTES // 60_000)]
    assert len(of(many_)) == len(many_)
    with pytest.raises(UnresolvableVariable, match=r"^BIG: all variables together"):
        resolve([[*many_, said("BIG", "x" * 65_000)]])


def test_a_file_and_all_files_together_have_size_limits():
    part = said("PART", "x" * 65_000)
    file = said("F", "{{PART}}" * (MAX_FILE_BYTES // 65_000 + 1), mount_path="/f")
    with pytest.raises(UnresolvableVariable, match=r"^F: its file is longer than"):
        resolve([[file, part]])
    some = [
        said(f"F{n}", "{{PART}}" * (MAX_FILE_BYTES // 65_000), mount_path=f"/f{n}")
        for n in range(MAX_FILES_BYTES // (MAX_FILE_BYTES - 65_000) + 1)
    ]
    with pytest.raises(UnresolvableVariable, match=r"^/f0: all files together"):
        resolve([[*some, part]])


@pytest.mark.parametrize("folder", ["", "/f"])
def test_thousands_of_references_to_a_long_value_use_bounded_memory(folder):
    long = said("LONG", "x" * 60_000)
    short = [
        said(f"K{n}", "{{LONG}}{{LONG}}", mount_path=f"{folder}/{n}" if folder else "") for n in range(2_000)
    ]
    tracemalloc.start()
    with pytest.raises(UnresolvableVariable, match=r"all (variables|files) together"):
        resolve([[long, *short]])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 3 * MAX_FILES_BYTES, "of 240 MB that they would be"


def test_a_nul_byte_is_refused_in_a_variable_and_accepted_in_a_file():
    with pytest.raises(UnresolvableVariable, match=r"^A: no process takes"):
        resolve([plain(A="x\0y")])
    assert resolve([[said("A", "x\0y", mount_path="/f")]]).files == {"/f": b"x\0y"}


# Whatever is said

KEYS = st.sampled_from(["A", "B", "C", "D"])
PIECES = st.sampled_from(["x", "{{A}}", "{{B}}", "{{C}}", "{{D}}", "{{E}}", "{{", "}}", "ü"])
ENTRIES = st.builds(
    DeclaredVariable,
    id=st.uuids().map(str),
    key=KEYS,
    value=st.lists(PIECES, max_size=4).map("".join),
    secret=st.booleans(),
    mount_path=st.sampled_from(["", "", "/f", "/g"]),
    interpolated=st.booleans(),
    stands_for=st.just(""),
)
LEVELS = st.lists(st.lists(ENTRIES, max_size=4, unique_by=lambda one: one.key), max_size=3)


@many
@given(levels=LEVELS)
def test_any_set_of_declarations_is_resolved_or_refused_with_a_key(levels: list[list[DeclaredVariable]]):
    nearest = {one.key: one for level in reversed(levels) for one in level}
    found, refusal = tried(levels)
    if found is None:
        assert refusal[:2] in {"A:", "B:", "C:", "D:"}
        return
    assert found.variables.keys() == nearest.keys()
    assert found.files.keys() == {one.mount_path for one in nearest.values() if one.mount_path}
    assert {key for key, one in nearest.items() if one.secret and not one.mount_path} <= found.secrets
    assert all(key in nearest for key in found.secrets)


@many
@given(levels=LEVELS)
def test_resolving_equals_a_naive_implementation_of_the_rules(levels: list[list[DeclaredVariable]]):
    """The same once more, the slow way: replace until nothing is left to replace."""
    nearest = {one.key: one for level in reversed(levels) for one in level}
    found, _ = tried(levels)
    for key, one in nearest.items() if found else ():
        assert found is not None
        assert found.variables[key] == slowly(nearest, one)


def tried(levels: Sequence[Sequence[DeclaredVariable]]) -> tuple[ResolvedVariables | None, str]:
    try:
        return resolve(levels), ""
    except UnresolvableVariable as error:
        return None, str(error)


def slowly(entries: Mapping[str, DeclaredVariable], one: DeclaredVariable) -> str:
    if one.mount_path:
        return one.mount_path
    if not one.interpolated:
        return one.value
    return re.sub(
        r"\{\{([A-Z])\}\}",
        lambda match: slowly(entries, entries[match[1]]) if match[1] in entries else match[0],
        one.value,
    )


def test_the_naive_implementation_resolves_references():
    entries = {"A": said("A", "{{B}}"), "B": said("B", "1")}
    assert slowly(entries, entries["A"]) == "1"
    assert slowly(entries, entries["A"]) != entries["A"].value
