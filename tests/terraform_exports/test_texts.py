"""Values in exported files stay in their strings, and names are valid and unique."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import examples
from tests.needs import program
from tests.terraform_exports.configuration import Reader
from tests.terraform_exports.test_exports import HOSTILE
from windlass.core.words.hcl import Expression, Identifiers, JsonCode, Template, block, comment

_PIECES = [
    "${",
    "%{",
    "$",
    "%",
    "{",
    "}",
    '"',
    "\\",
    "\n",
    "\r",
    "<<EOT\n",
    "EOT",
    "#",
    "*/",
    "u0041",
    "é",
    "\x00",
]
texts = st.one_of(st.text(), st.lists(st.sampled_from(_PIECES)).map("".join))


@examples(200)
@given(texts)
def test_a_value_is_read_as_it_was_and_nothing_follows_it(text: str):
    written = block("locals", [], {"value": text, "list": [text], "json": JsonCode({text: text}), "last": 1})
    (read,) = Reader(written).blocks()
    assert (read.body["value"], read.body["list"]) == (text, [text])
    assert read.body["json"].arguments == ({text: text},)
    assert [*read.body] == ["value", "list", "json", "last"]


@examples(100)
@given(texts)
def test_a_comment_is_one_line(text: str):
    assert [*Reader(f"{comment(text)}\n").blocks()] == []
    assert len(comment(text).splitlines()) == 1


@examples(100)
@given(st.lists(st.text(alphabet=st.sampled_from("aB_-1é${} "), max_size=70), max_size=12))
def test_identifiers_are_valid_and_unique(names: list[str]):
    made = Identifiers()
    found = [made.make(name, "application") for name in names]
    assert len({*found}) == len(found)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in found)


@pytest.mark.slow  # test_a_value_is_read_as_it_was_and_nothing_follows_it: read by the tests themselves
def test_terraform_reads_hostile_values_as_they_were(tmp_path: Path):
    terraform = program("terraform")
    values = [
        HOSTILE,
        "$${x",
        "$$${x}",
        "%%{x}",
        "$",
        "%",
        "${",
        "a$",
        '$"',
        "\\${x}",
        "\ufeff",
        "{{A}}",
        "for",
        "\x7f\x01",
    ]
    written = {f"v{place}": value for place, value in enumerate(values)}
    joined = Template(("$", Expression('"b"'), "${", Expression("1 + 1"), "%"))
    json_code = JsonCode({value: value for value in values})
    text = block("locals", [], {**written, "joined": joined, "json": json_code})
    names = [*written, "joined", "json"]
    outputs = [block("output", [name], {"value": Expression(f"local.{name}")}) for name in names]
    (tmp_path / "main.tf").write_text("\n".join([text, *outputs]))

    def run(*words: str) -> str:
        done = subprocess.run([terraform, *words], cwd=tmp_path, check=True, capture_output=True, timeout=60)
        return done.stdout.decode()

    run("apply", "-auto-approve", "-no-color")
    shown = json.loads(run("output", "-json"))
    read = {name: output["value"] for name, output in shown.items()}
    assert {name: read[name] for name in written} == written
    assert (read["joined"], json.loads(read["json"])) == ("$b${2%", {value: value for value in values})
